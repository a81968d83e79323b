#include "tests/bench/reading/readers.h"

#include <sys/resource.h>
#include <xxhash.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

namespace forebay::bench {

namespace {

constexpr std::size_t kShownErrors = 3;

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
  void Add(std::span<const std::byte> bytes) {
    if (wanted()) XXH3_64bits_update(state_, bytes.data(), bytes.size());
  }
  [[nodiscard]] std::uint64_t End() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

class Readers {
 public:
  // Everything that it refers to must outlive it.
  Readers(const ReadOptions& options, const std::vector<std::string>& paths,
          const std::vector<Piece>& pieces, const Digests& expected, Tree& tree)
      : options_(options), paths_(paths), pieces_(pieces), expected_(expected) {
    for (unsigned i = 0; i < options.threads; ++i) trees_.push_back(tree.NewReader());
  }

  Tally Run() {
    std::vector<Tally> tallies(options_.threads);
    {
      std::vector<std::jthread> threads;
      threads.reserve(options_.threads);
      for (std::size_t i = 0; i < tallies.size(); ++i) {
        threads.emplace_back([this, &tallies, i] { Work(*trees_[i], tallies[i]); });
      }
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
  void Work(TreeReader& tree, Tally& tally) {
    Hasher hasher(!options_.digests.empty() || !options_.write_digests.empty());
    const Take take = [&](std::span<const std::byte> bytes) {
      hasher.Add(bytes);
      tally.bytes += bytes.size();
    };
    for (std::size_t i = next_++; i < pieces_.size(); i = next_++) {
      const Piece& piece = pieces_[i];
      hasher.Begin();
      Failure failure =
          piece.length == 0 ? tree.ReadWhole(piece.path, take) : tree.ReadPiece(piece, take);
      if (failure) {
        tally.Fail(std::move(*failure));
        continue;
      }
      ++tally.files;
      if (hasher.wanted()) Compare(NameOf(piece), hasher.End(), tally);
    }
  }

  // Its name among the digests.
  [[nodiscard]] std::string NameOf(const Piece& piece) const {
    const std::string& path = paths_[piece.path];
    return piece.length == 0 ? path : path + '@' + std::to_string(piece.offset);
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

  const ReadOptions& options_;
  const std::vector<std::string>& paths_;
  const std::vector<Piece>& pieces_;
  const Digests& expected_;
  std::vector<std::unique_ptr<TreeReader>> trees_;
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

}  // namespace

int ReadAndPrint(
    const std::string& program, const ReadOptions& options,
    const std::function<std::unique_ptr<Tree>(const std::vector<std::string>& paths)>& make) {
  const auto refuse = [&](const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), what.c_str());
    return 2;
  };
  std::vector<std::string> paths;
  Digests expected;
  if (!LoadPaths(options.list, paths)) {
    return refuse("no list of files can be read from " + options.list);
  }
  if (!options.digests.empty() && !LoadDigests(options.digests, expected)) {
    return refuse("no digests can be read from " + options.digests);
  }
  const std::unique_ptr<Tree> tree = make(paths);
  if (!tree) return 2;
  const auto size_of = [&](const std::string& path) { return tree->SizeOf(path); };
  const std::optional<std::vector<Piece>> pieces = CutPieces(options, paths, size_of);
  if (!pieces) return refuse("a file of " + options.list + " is not in " + options.root);
  Readers readers(options, paths, *pieces, expected, *tree);
  const double cpu_begin = CpuSeconds();
  const auto begin = std::chrono::steady_clock::now();
  const Tally total = readers.Run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double cpu_seconds = CpuSeconds() - cpu_begin;
  if (!options.write_digests.empty() && !SaveDigests(options.write_digests, total.digests)) {
    return refuse("the digests cannot be written to " + options.write_digests);
  }
  Print(total, BlocksOf(*pieces), seconds.count(), cpu_seconds);
  return total.failures == 0 ? 0 : 1;
}

}  // namespace forebay::bench
