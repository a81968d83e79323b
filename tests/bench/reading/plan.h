#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

// What the readers of ops/bench read, in which order, and what the bytes should be.
namespace forebay::bench {

// What Forebay fetches and caches a large object in, unless a link says otherwise.
inline constexpr std::uint64_t kBlockBytes = 4 << 20;

struct ReadOptions {
  std::string list;
  std::string root;
  std::string digests;
  std::string write_digests;
  unsigned threads = 1;
  std::uint64_t seed = 1;
  std::uint64_t piece_bytes = 0;  ///< 0: whole files.
  double share = 1;
};

/// LIST, ROOT and every flag of ReadOptions, which outlives `app`. `root` says what ROOT is.
void AddReadOptions(CLI::App& app, ReadOptions& options, const std::string& root);

/// What one thread reads at a time: all of a file, or `length` bytes of it.
struct Piece {
  std::size_t path = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< 0: the whole file.
};

/// XXH3 by the file's or the piece's name.
using Digests = std::map<std::string, std::uint64_t>;

/// Lines `DIGEST PATH`, the digest as 16 hexadecimal digits. False: it cannot be read, or is empty.
bool LoadDigests(const std::string& file, Digests& digests);
bool SaveDigests(const std::string& file, const Digests& digests);

/// A path on each line. False: it cannot be read, or is empty.
bool LoadPaths(const std::string& list, std::vector<std::string>& paths);

/// In the order in which they are read. `size_of` is asked for pieces alone; nothing where it
/// answers nothing.
std::optional<std::vector<Piece>> CutPieces(
    const ReadOptions& options, const std::vector<std::string>& paths,
    const std::function<std::optional<std::uint64_t>(const std::string&)>& size_of);

/// How many blocks the pieces lie in; 0 for whole files.
std::size_t BlocksOf(const std::vector<Piece>& pieces);

}  // namespace forebay::bench
