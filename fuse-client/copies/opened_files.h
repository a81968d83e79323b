#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/keeper.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// A file that is open on a mount, as an earlier process left it.
struct KeptOpen {
  std::uint64_t handle = 0;
  std::uint64_t nodeid = 0;
  std::int32_t backing = 0;  ///< 0: it is read through the mount.
  bool damaged = false;
};

/// Behind the mount's own key (ConnectionKey).
inline constexpr std::string_view kOpenedKeys = "opened/";

/// Takes the entry `name`, which begins with kOpenedKeys.
void TakeKeptOpen(std::string_view name, const Kept& kept, std::vector<KeptOpen>& opened);

/// Which files of a mount are open, and whether the kernel reads them through the mount or out of a
/// copy. It takes one way at a time for each file (fs/fuse/iomode.c): whoever opens a file that is
/// open gets the way of those before, whatever copies there are by now; only with the last of them
/// the way can change. What is open outlives the process that served it, so a successor is told.
///
/// Thread-safe.
class OpenedFiles {
 public:
  /// How the kernel is told; each may be called from any thread.
  struct Kernel {
    /// Registers an open file for the kernel to read from; answers its number, more than 0.
    std::function<Result<std::int32_t>(int fd)> open_backing;
    std::function<void(std::int32_t backing)> close_backing;
  };
  /// Looks for a copy, open for reading.
  using FindCopy = std::function<Result<OwnedFd>()>;

  /// `keeper` outlives it; `connection` is the mount's number there.
  OpenedFiles(Kernel kernel, const Keeper& keeper, std::uint32_t connection);
  /// Before anything else.
  void Restore(const std::vector<KeptOpen>& opened);

  /// The kernel opens a file. `handle` is the number of its request: the same request asked twice
  /// is one open file. Answers the number of the backing file, or 0: through the mount. kCorrupt:
  /// the copy that the kernel reads the file from was found damaged, and it will read from no other
  /// before all who have it open have closed it.
  Result<std::int32_t> Open(std::uint64_t nodeid, std::uint64_t handle, const FindCopy& find);
  /// The last user of the handle has gone, or the kernel did not take the answer to its open.
  void Close(std::uint64_t handle);
  /// The copy of this file is damaged: whoever has it open reads on, and nobody joins them.
  void MarkDamaged(std::uint64_t nodeid);

  /// Files that the kernel reads out of copies now.
  std::uint64_t by_passthrough() const;

 private:
  struct File {
    std::int32_t backing = 0;
    bool damaged = false;
    std::set<std::uint64_t> handles;
  };

  Result<std::int32_t> Join(std::uint64_t nodeid, std::uint64_t handle, File& file);
  void Keep(std::uint64_t nodeid, std::uint64_t handle, const File& file) const;
  std::string KeyOf(std::uint64_t handle) const;

  const Kernel kernel_;
  const Keeper& keeper_;
  const std::uint32_t connection_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, File> files_;             // by nodeid
  std::unordered_map<std::uint64_t, std::uint64_t> nodeids_;  // of handles
};

}  // namespace forebay
