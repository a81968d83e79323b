#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/result.h"

namespace forebay {

/// Node ids of control files have this bit, which no object's has (snapshot ids are below 2^63).
inline constexpr std::uint64_t kControlNodeidBit = 1ULL << 63;
/// The control directory's own; in the range that snapshots keep free.
inline constexpr std::uint64_t kControlDirectoryNodeid = 2;

/// The files of `.forebay/`. Each lookup renders the file and gives the rendering a node id of its
/// own, so that a reader sees one consistent text of exactly the announced size although the kernel
/// caches it. A rendering lives until the kernel forgets it. Thread-safe.
class ControlFiles {
 public:
  struct File {
    std::string name;
    std::function<std::string()> render = {};  ///< Any thread; must not block.
    /// Instead of `render`, where it may block: called by Lookup all the same.
    std::function<Result<Slice>()> render_slowly = {};
  };

  explicit ControlFiles(std::vector<File> files);

  struct Rendering {
    std::uint64_t nodeid = 0;
    std::uint64_t size = 0;
    std::int64_t unix_s = 0;  ///< When it was rendered.
  };
  /// kNotFound: there is no such file. Else what the rendering failed with.
  Result<Rendering> Lookup(std::string_view name);
  /// Lookup of it may block.
  bool IsSlow(std::string_view name) const;
  /// Nothing when the rendering has been forgotten.
  std::optional<Rendering> Find(std::uint64_t nodeid) const;
  std::optional<Slice> Read(std::uint64_t nodeid) const;
  void Forget(std::uint64_t nodeid);

  const std::vector<File>& files() const { return files_; }
  std::size_t renderings() const;

 private:
  const File* FileOf(std::string_view name) const;

  struct Text {
    Rendering rendering;
    Slice bytes;
  };

  const std::vector<File> files_;
  mutable std::mutex mutex_;
  std::uint64_t next_nodeid_;
  std::unordered_map<std::uint64_t, Text> texts_;
};

}  // namespace forebay
