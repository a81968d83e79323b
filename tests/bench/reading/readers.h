#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/bench/reading/plan.h"

// Threads that read each piece of a plan once, whatever they read it from; one line of JSON.
namespace forebay::bench {

/// A small file is one read, a shard is read in parts of this size as tar readers do.
inline constexpr std::size_t kReadBytes = 1 << 20;

/// Gets the bytes, in the order in which they lie in the file.
using Take = std::function<void(std::span<const std::byte>)>;
/// What went wrong; nothing: all is well.
using Failure = std::optional<std::string>;

/// Where one thread reads from. Used by that thread alone.
class TreeReader {
 public:
  TreeReader() = default;
  virtual ~TreeReader() = default;
  TreeReader(const TreeReader&) = delete;
  TreeReader& operator=(const TreeReader&) = delete;

  /// All of file number `path` of the list.
  virtual Failure ReadWhole(std::size_t path, const Take& take) = 0;
  /// Every byte of the piece, or it has failed.
  virtual Failure ReadPiece(const Piece& piece, const Take& take) = 0;
};

/// What the threads read from.
class Tree {
 public:
  virtual ~Tree() = default;
  virtual std::optional<std::uint64_t> SizeOf(const std::string& path) = 0;
  /// For one thread; called before any reads.
  virtual std::unique_ptr<TreeReader> NewReader() = 0;
};

/// Loads the list (paths as LoadPaths has them), makes the tree of it, reads, and prints what was
/// read and how long it took. Answers the program's exit code: 0; 1 a file could not be read or is
/// not as its digest says; 2 with a line on stderr: there was nothing to measure. `make` answers
/// null after such a line of its own.
int ReadAndPrint(
    const std::string& program, const ReadOptions& options,
    const std::function<std::unique_ptr<Tree>(const std::vector<std::string>& paths)>& make);

}  // namespace forebay::bench
