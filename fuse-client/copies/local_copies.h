#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/executors.h"
#include "common/base/result.h"
#include "common/config/mount_config.h"
#include "common/wire/client_pool.h"
#include "fuse-client/copies/copy_scrubber.h"
#include "fuse-client/copies/copy_store.h"

namespace forebay {

/// What the links of one process have in common to keep copies of files on a local disk
/// (`--local-copy`): the folder, a thread that copies and one that verifies.
///
///     Open() → StartCopying() → serving → EndCopying() → destruction
class LocalCopies {
 public:
  struct Options {
    CopyStore::Options store;
    CopyScrubber::Options scrub;
  };
  /// As the mount's options say; null: no copies are asked for, or their folder cannot be used,
  /// which one log line says.
  static std::unique_ptr<LocalCopies> OpenFor(const MountConfig& config);
  /// Errors as of CopyStore::Open.
  static Result<std::unique_ptr<LocalCopies>> Open(Options options);
  ~LocalCopies();
  LocalCopies(const LocalCopies&) = delete;
  LocalCopies& operator=(const LocalCopies&) = delete;

  /// Somebody wants to know what is damaged. Any thread; the first call counts.
  void StartScrubbing();
  /// `pool` is of context().
  void StartCopying(std::unique_ptr<ClientPool> pool);
  /// Ends the calls that are under way, so that copiers which were stopped become idle.
  void CloseConnections();
  /// Nothing is copied any more; the thread has ended.
  void EndCopying() { thread_.Stop(); }

  asio::io_context& context() { return thread_.At(0); }
  ClientPool& pool() { return *pool_; }
  CopyStore& store() { return *store_; }

 private:
  LocalCopies(std::unique_ptr<CopyStore> store, CopyScrubber::Options scrub)
      : store_(std::move(store)), scrub_(scrub) {}

  const std::unique_ptr<CopyStore> store_;
  const CopyScrubber::Options scrub_;
  std::once_flag scrubs_;
  std::optional<CopyScrubber> scrubber_;
  IoPool thread_{"mount-copy", 1};
  std::unique_ptr<ClientPool> pool_;
  bool started_ = false;
};

}  // namespace forebay
