// Reads the files of a list below a folder once, each whole, in a random order, with a number of
// threads, as the loaders of a training job do; prints one line of JSON. With --piece-bytes it
// reads pieces of them at random, as loaders of indexed shards do. Same program, same order for
// every file system that is compared.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "tests/bench/reading/readers.h"

namespace forebay::bench {
namespace {

std::string Message(const std::string& path, int error) {
  return path + ": " + std::generic_category().message(error);
}

constexpr std::size_t kPage = 4096;
// Of a Python `bytes`, which malloc has put at a page: a direct read of a MiB into it takes 257
// pages, and the kernel cuts it in two.
constexpr std::size_t kBehindAPage = 32;

class FolderReader final : public TreeReader {
 public:
  FolderReader(int root, const std::vector<std::string>& paths, bool page_aligned)
      : root_(root),
        paths_(paths),
        files_(paths.size(), -1),
        memory_(kReadBytes + 2 * kPage),
        buffer_(BufferIn(memory_, page_aligned)) {}
  ~FolderReader() override {
    for (const int file : files_) {
      if (file >= 0) close(file);
    }
  }

  Failure ReadWhole(std::size_t path, const Take& take) override {
    const int file = openat(root_, paths_[path].c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return Message(paths_[path], errno);
    ssize_t got = 0;
    while ((got = read(file, buffer_.data(), buffer_.size())) > 0) {
      take({buffer_.data(), static_cast<std::size_t>(got)});
    }
    const int error = errno;
    close(file);
    if (got < 0) return Message(paths_[path], error);
    return {};
  }

  // Who reads pieces opens each file once.
  Failure ReadPiece(const Piece& piece, const Take& take) override {
    const std::string& path = paths_[piece.path];
    int& file = files_[piece.path];
    if (file < 0) file = openat(root_, path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return Message(path, errno);
    for (std::uint64_t done = 0; done < piece.length;) {
      const std::size_t wanted = std::min<std::uint64_t>(buffer_.size(), piece.length - done);
      const ssize_t got =
          pread(file, buffer_.data(), wanted, static_cast<off_t>(piece.offset + done));
      if (got < 0) return Message(path, errno);
      if (got == 0) return path + ": the file ends too early";
      take({buffer_.data(), static_cast<std::size_t>(got)});
      done += static_cast<std::uint64_t>(got);
    }
    return {};
  }

 private:
  static std::span<std::byte> BufferIn(std::span<std::byte> memory, bool page_aligned) {
    void* at = memory.data();
    std::size_t room = memory.size();
    auto* page = static_cast<std::byte*>(std::align(kPage, kReadBytes + kBehindAPage, at, room));
    return {page + (page_aligned ? 0 : kBehindAPage), kReadBytes};
  }

  const int root_;
  const std::vector<std::string>& paths_;
  std::vector<int> files_;
  std::vector<std::byte> memory_;
  std::span<std::byte> buffer_;
};

class Folder final : public Tree {
 public:
  Folder(int root, const std::vector<std::string>& paths, bool page_aligned)
      : root_(root), paths_(paths), page_aligned_(page_aligned) {}
  ~Folder() override { close(root_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::optional<std::uint64_t> SizeOf(const std::string& path) override {
    struct stat status{};
    if (fstatat(root_, path.c_str(), &status, 0) != 0) return std::nullopt;
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::unique_ptr<TreeReader> NewReader() override {
    return std::make_unique<FolderReader>(root_, paths_, page_aligned_);
  }

 private:
  const int root_;
  const std::vector<std::string>& paths_;
  const bool page_aligned_;
};

int Run(int argc, char** argv) {
  ReadOptions options;
  CLI::App app(
      "Reads each file of LIST (paths below ROOT, one a line) once, in a random order. Prints "
      "JSON; "
      "exits with 1 when a file could not be read or is not as its digest says.");
  AddReadOptions(app, options, "a folder");
  bool page_aligned = false;
  app.add_flag("--page-aligned", page_aligned,
               "read into buffers that begin at a page, not 32 bytes behind one as Python's do");
  CLI11_PARSE(app, argc, argv);
  return ReadAndPrint(
      "read_files", options, [&](const std::vector<std::string>& paths) -> std::unique_ptr<Tree> {
        const int root = open(options.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root >= 0) return std::make_unique<Folder>(root, paths, page_aligned);
        std::fprintf(stderr, "read_files: %s\n", Message(options.root, errno).c_str());
        return nullptr;
      });
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) { return forebay::bench::Run(argc, argv); }
