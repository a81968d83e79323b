// Reads the files of a list below a folder once, each whole, in a random order, with a number of
// threads, as the loaders of a training job do; prints one line of JSON. With --piece-bytes it
// reads pieces of them at random, as loaders of indexed shards do. Same program, same order for
// every file system that is compared.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace forebay {
namespace {

// A small file is one read, a shard is read in pieces as tar readers do.
constexpr std::size_t kReadBytes = 1 << 20;
// What Forebay fetches and caches a large object in, unless a link says otherwise.
constexpr std::uint64_t kBlockBytes = 4 << 20;
constexpr std::size_t kShownErrors = 3;

struct Options {
  std::string list;
  std::string root;
  std::string digests;
  std::string write_digests;
  unsigned threads = 1;
  std::uint64_t seed = 1;
  std::uint64_t piece_bytes = 0;  // 0: whole files
  double share = 1;
};

// What one thread reads at a time: all of a file, or `length` bytes of it.
struct Piece {
  std::size_t path = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // 0: the whole file
};

using Digests = std::map<std::string, std::uint64_t>;

// What one thread did.
struct Tally {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failures = 0;
  std::vector<std::string> shown;
  Digests digests;

  void Fail(std::string message) {
    ++failures;
    if (shown.size() < kShownErrors) shown.push_back(std::move(message));
  }
};

// The state of XXH3 is taken along only when digests are asked for: hashing is no part of what is
// measured.
class Hasher {
 public:
  explicit Hasher(bool wanted) : state_(wanted ? XXH3_createState() : nullptr) {}
  ~Hasher() { XXH3_freeState(state_); }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  [[nodiscard]] bool wanted() const { return state_ != nullptr; }
  void Begin() {
    if (wanted()) XXH3_64bits_reset(state_);
  }
  void Add(const std::vector<char>& buffer, std::size_t bytes) {
    if (wanted()) XXH3_64bits_update(state_, buffer.data(), bytes);
  }
  [[nodiscard]] std::uint64_t End() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

std::string Message(const std::string& path, int error) {
  return path + ": " + std::generic_category().message(error);
}

// False, with the failure counted, when the file cannot be read whole.
bool ReadFile(int root, const std::string& path, std::vector<char>& buffer, Hasher& hasher,
              Tally& tally) {
  const int file = openat(root, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    tally.Fail(Message(path, errno));
    return false;
  }
  hasher.Begin();
  ssize_t got = 0;
  while ((got = read(file, buffer.data(), buffer.size())) > 0) {
    hasher.Add(buffer, static_cast<std::size_t>(got));
    tally.bytes += static_cast<std::uint64_t>(got);
  }
  const int error = errno;
  close(file);
  if (got < 0) {
    tally.Fail(Message(path, error));
    return false;
  }
  ++tally.files;
  return true;
}

// The files that one thread has open: who reads pieces opens each file once.
class OpenFiles {
 public:
  OpenFiles(int root, const std::vector<std::string>& paths)
      : root_(root), paths_(paths), files_(paths.size(), -1) {}
  ~OpenFiles() {
    for (const int file : files_) {
      if (file >= 0) close(file);
    }
  }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Below 0, with errno, where it cannot be opened.
  int Get(std::size_t path) {
    if (files_[path] < 0) files_[path] = openat(root_, paths_[path].c_str(), O_RDONLY | O_CLOEXEC);
    return files_[path];
  }

 private:
  const int root_;
  const std::vector<std::string>& paths_;
  std::vector<int> files_;
};

// False, with the failure counted, when not every byte of the piece comes.
bool ReadPiece(int file, const std::string& name, const Piece& piece, std::vector<char>& buffer,
               Hasher& hasher, Tally& tally) {
  hasher.Begin();
  for (std::uint64_t done = 0; done < piece.length;) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), piece.length - done);
    const ssize_t got = pread(file, buffer.data(), wanted, static_cast<off_t>(piece.offset + done));
    if (got <= 0) {
      tally.Fail(got < 0 ? Message(name, errno) : name + ": the file ends too early");
      return false;
    }
    hasher.Add(buffer, static_cast<std::size_t>(got));
    done += static_cast<std::uint64_t>(got);
    tally.bytes += static_cast<std::uint64_t>(got);
  }
  ++tally.files;
  return true;
}

class Readers {
 public:
  // Everything that it refers to must outlive it.
  Readers(const Options& options, const std::vector<std::string>& paths,
          const std::vector<Piece>& pieces, const Digests& expected, int root)
      : options_(options), paths_(paths), pieces_(pieces), expected_(expected), root_(root) {}

  Tally Run() {
    std::vector<Tally> tallies(options_.threads);
    {
      std::vector<std::jthread> threads;
      threads.reserve(options_.threads);
      for (Tally& tally : tallies) threads.emplace_back([this, &tally] { Work(tally); });
    }
    Tally total;
    for (Tally& tally : tallies) {
      total.files += tally.files;
      total.bytes += tally.bytes;
      total.failures += tally.failures;
      for (std::string& line : tally.shown) {
        if (total.shown.size() < kShownErrors) total.shown.push_back(std::move(line));
      }
      total.digests.merge(tally.digests);
    }
    return total;
  }

 private:
  void Work(Tally& tally) {
    std::vector<char> buffer(kReadBytes);
    Hasher hasher(!options_.digests.empty() || !options_.write_digests.empty());
    OpenFiles files(root_, paths_);
    for (std::size_t i = next_++; i < pieces_.size(); i = next_++) {
      const Piece& piece = pieces_[i];
      const std::string name = NameOf(piece);
      if (!Read(files, piece, name, buffer, hasher, tally) || !hasher.wanted()) continue;
      Compare(name, hasher.End(), tally);
    }
  }

  // Its name among the digests.
  [[nodiscard]] std::string NameOf(const Piece& piece) const {
    const std::string& path = paths_[piece.path];
    return piece.length == 0 ? path : path + '@' + std::to_string(piece.offset);
  }

  bool Read(OpenFiles& files, const Piece& piece, const std::string& name,
            std::vector<char>& buffer, Hasher& hasher, Tally& tally) const {
    if (piece.length == 0) return ReadFile(root_, name, buffer, hasher, tally);
    const int file = files.Get(piece.path);
    if (file >= 0) return ReadPiece(file, name, piece, buffer, hasher, tally);
    tally.Fail(Message(name, errno));
    return false;
  }

  void Compare(const std::string& name, std::uint64_t digest, Tally& tally) const {
    if (!options_.write_digests.empty()) tally.digests.emplace(name, digest);
    if (options_.digests.empty()) return;
    const auto want = expected_.find(name);
    if (want == expected_.end()) {
      tally.Fail(name + ": no digest is known of it");
    } else if (want->second != digest) {
      tally.Fail(name + ": its bytes are not those of the digest");
    }
  }

  const Options& options_;
  const std::vector<std::string>& paths_;
  const std::vector<Piece>& pieces_;
  const Digests& expected_;
  const int root_;
  std::atomic<std::size_t> next_ = 0;
};

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Lines `DIGEST PATH`, the digest as 16 hexadecimal digits.
bool LoadDigests(const std::string& file, Digests& digests) {
  std::ifstream input(file);
  std::string digest;
  std::string path;
  while (input >> digest && input.ignore() && std::getline(input, path)) {
    digests[path] = std::stoull(digest, nullptr, 16);
  }
  return input.eof() && !digests.empty();
}

bool SaveDigests(const std::string& file, const Digests& digests) {
  std::ofstream output(file);
  for (const auto& [path, digest] : digests) {
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, digest);
    output << text << ' ' << path << '\n';
  }
  output.close();
  return output.good();
}

bool LoadPaths(const Options& options, std::vector<std::string>& paths) {
  std::ifstream input(options.list);
  for (std::string path; std::getline(input, path);) paths.push_back(path);
  return input.eof() && !paths.empty();
}

// In the order in which they are read. False, with errno, when a size cannot be had.
bool CutPieces(const Options& options, const std::vector<std::string>& paths, int root,
               std::vector<Piece>& pieces) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (options.piece_bytes == 0) {
      pieces.push_back({.path = i});
      continue;
    }
    struct stat status{};
    if (fstatat(root, paths[i].c_str(), &status, 0) != 0) return false;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    for (std::uint64_t offset = 0; offset < size; offset += options.piece_bytes) {
      pieces.push_back({i, offset, std::min(options.piece_bytes, size - offset)});
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), std::mt19937_64(options.seed));
  const double kept = std::ceil(options.share * static_cast<double>(pieces.size()));
  pieces.resize(static_cast<std::size_t>(kept));
  return true;
}

// How many blocks the pieces lie in; 0 for whole files.
std::size_t BlocksOf(const std::vector<Piece>& pieces) {
  std::set<std::pair<std::size_t, std::uint64_t>> blocks;
  for (const Piece& piece : pieces) {
    if (piece.length == 0) return 0;
    const std::uint64_t last = (piece.offset + piece.length - 1) / kBlockBytes;
    for (std::uint64_t i = piece.offset / kBlockBytes; i <= last; ++i) {
      blocks.emplace(piece.path, i);
    }
  }
  return blocks.size();
}

void Print(const Tally& total, std::size_t blocks, double seconds, double cpu_seconds) {
  boost::json::array shown;
  for (const std::string& line : total.shown) shown.emplace_back(line);
  const boost::json::object document = {
      {"files", total.files},
      {"bytes", total.bytes},
      {"blocks", blocks},
      {"errors", total.failures},
      {"shown", std::move(shown)},
      {"seconds", seconds},
      {"cpu_seconds", cpu_seconds},
      {"files_per_second", static_cast<double>(total.files) / seconds},
      {"gb_per_second", static_cast<double>(total.bytes) / seconds / 1e9},
  };
  std::puts(boost::json::serialize(document).c_str());
}

int Refuse(const std::string& what) {
  std::fprintf(stderr, "read_files: %s\n", what.c_str());
  return 2;
}

int Measure(const Options& options) {
  std::vector<std::string> paths;
  Digests expected;
  if (!LoadPaths(options, paths))
    return Refuse("no list of files can be read from " + options.list);
  if (!options.digests.empty() && !LoadDigests(options.digests, expected)) {
    return Refuse("no digests can be read from " + options.digests);
  }
  const int root = open(options.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return Refuse(Message(options.root, errno));
  std::vector<Piece> pieces;
  if (!CutPieces(options, paths, root, pieces)) return Refuse(Message(options.root, errno));
  Readers readers(options, paths, pieces, expected, root);
  const double cpu_begin = CpuSeconds();
  const auto begin = std::chrono::steady_clock::now();
  const Tally total = readers.Run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double cpu_seconds = CpuSeconds() - cpu_begin;
  close(root);
  if (!options.write_digests.empty() && !SaveDigests(options.write_digests, total.digests)) {
    return Refuse("the digests cannot be written to " + options.write_digests);
  }
  Print(total, BlocksOf(pieces), seconds.count(), cpu_seconds);
  return total.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  forebay::Options options;
  CLI::App app(
      "Reads each file of LIST (paths below ROOT, one a line) once, in a random order. Prints "
      "JSON; "
      "exits with 1 when a file could not be read or is not as its digest says.");
  app.add_option("LIST", options.list)->required();
  app.add_option("ROOT", options.root)->required();
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  app.add_option("--seed", options.seed, "of the order");
  app.add_option("--piece-bytes", options.piece_bytes,
                 "read pieces of this size, in a random order over all files, not whole files");
  app.add_option("--share", options.share, "of the files or pieces; the others are not read")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--digests", options.digests,
                 "compare each file or piece with its XXH3 in this file");
  app.add_option("--write-digests", options.write_digests,
                 "write the XXH3 of each file or piece to this file");
  CLI11_PARSE(app, argc, argv);
  return forebay::Measure(options);
}
