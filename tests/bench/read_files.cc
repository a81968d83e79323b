// Reads the files of a list below a folder once, each whole, in a random order, with a number of
// threads, as the loaders of a training job do; prints one line of JSON. Same program, same order
// for every file system that is compared.
#include <fcntl.h>
#include <sys/resource.h>
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
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace forebay {
namespace {

// A small file is one read, a shard is read in pieces as tar readers do.
constexpr std::size_t kReadBytes = 1 << 20;
constexpr std::size_t kShownErrors = 3;

struct Options {
  std::string list;
  std::string root;
  std::string digests;
  std::string write_digests;
  unsigned threads = 1;
  std::uint64_t seed = 1;
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

class Readers {
 public:
  // Everything that it refers to must outlive it.
  Readers(const Options& options, const std::vector<std::string>& paths, const Digests& expected,
          int root)
      : options_(options), paths_(paths), expected_(expected), root_(root) {}

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
    for (std::size_t i = next_++; i < paths_.size(); i = next_++) {
      const std::string& path = paths_[i];
      if (!ReadFile(root_, path, buffer, hasher, tally) || !hasher.wanted()) continue;
      const std::uint64_t digest = hasher.End();
      if (!options_.write_digests.empty()) tally.digests.emplace(path, digest);
      if (options_.digests.empty()) continue;
      const auto want = expected_.find(path);
      if (want == expected_.end()) {
        tally.Fail(path + ": no digest is known of it");
      } else if (want->second != digest) {
        tally.Fail(path + ": its bytes are not those of the digest");
      }
    }
  }

  const Options& options_;
  const std::vector<std::string>& paths_;
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
  std::shuffle(paths.begin(), paths.end(), std::mt19937_64(options.seed));
  return input.eof() && !paths.empty();
}

void Print(const Tally& total, double seconds, double cpu_seconds) {
  boost::json::array shown;
  for (const std::string& line : total.shown) shown.emplace_back(line);
  const boost::json::object document = {
      {"files", total.files},
      {"bytes", total.bytes},
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
  Readers readers(options, paths, expected, root);
  const double cpu_begin = CpuSeconds();
  const auto begin = std::chrono::steady_clock::now();
  const Tally total = readers.Run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double cpu_seconds = CpuSeconds() - cpu_begin;
  close(root);
  if (!options.write_digests.empty() && !SaveDigests(options.write_digests, total.digests)) {
    return Refuse("the digests cannot be written to " + options.write_digests);
  }
  Print(total, seconds.count(), cpu_seconds);
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
  app.add_option("--digests", options.digests, "compare each file with its XXH3 in this file");
  app.add_option("--write-digests", options.write_digests, "write each file's XXH3 to this file");
  CLI11_PARSE(app, argc, argv);
  return forebay::Measure(options);
}
