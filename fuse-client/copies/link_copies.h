#pragma once

#include <atomic>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "fuse-client/block_client.h"
#include "fuse-client/copies/file_copier.h"
#include "fuse-client/copies/local_copies.h"
#include "fuse-client/copies/opened_files.h"
#include "fuse-client/error_log.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/fuse_session.h"
#include "fuse-client/stats.h"

namespace forebay {

/// The local copies of one mount: which of its files are open and how, and what is copied for the
/// next time. Where the kernel cannot read copies, or their folder cannot be used, it still knows
/// what an earlier process let the kernel read by itself.
///
/// Thread-safe but for the constructor's, Begin's and the end's order.
class LinkCopies {
 public:
  /// Each outlives it, but for `local`, which may be null: no folder.
  struct Parts {
    LocalCopies* local = nullptr;
    FuseSession& session;
    FileSystem& files;
    ErrorLog& errors;
    MountStats& stats;
    MemoryBudget& memory;
    const Keeper& keeper;
    std::uint32_t connection = 0;
    Uuid link;
    std::uint64_t block_bytes = 0;
  };

  /// `opened` and `saved` are what an earlier process left. Before the first request is taken.
  LinkCopies(Parts parts, const std::vector<KeptOpen>& opened, std::string_view saved);
  /// The copier is idle or its thread has ended; no request is under way.
  ~LinkCopies();
  LinkCopies(const LinkCopies&) = delete;
  LinkCopies& operator=(const LinkCopies&) = delete;

  /// The mount serves: from now on copies are made and used, if the kernel takes them. Says in one
  /// log line if not. `nodes` and `options` are for the copier's own reads.
  void Begin(BlockClient::Parts nodes, BlockClientOptions options);

  struct Opened {
    std::uint64_t handle = 0;
    std::int32_t backing = 0;  ///< 0: reads come as messages.
  };
  /// The kernel opens a node, by the request of this number. kCorrupt: as OpenedFiles::Open; it is
  /// in the error log.
  Result<Opened> Open(std::uint64_t nodeid, std::uint64_t request);
  void Close(std::uint64_t handle) { opened_.Close(handle); }

  /// The mount shows another generation.
  void Follow();

  /// Copies no more.
  void BeginStop();
  /// True when nothing is under way any more, and nothing ever will be; always before BeginStop.
  bool Idle() const;

  /// For `.forebay/config`: null, or why not.
  boost::json::value Config() const;
  std::shared_ptr<const CopyCounts> counts() const { return counts_; }
  /// For `.forebay/stats`.
  boost::json::value Stats() const;
  /// The counts, for the `saved` of a successor.
  std::string Save() const;

 private:
  bool IsShown(std::uint64_t nodeid, const ObjectVersion& version) const;
  Status TryKernel();

  const Parts parts_;
  const std::shared_ptr<CopyCounts> counts_ = std::make_shared<CopyCounts>();
  OpenedFiles opened_;
  std::atomic<bool> active_{false};
  std::atomic<bool> stopping_{false};
  std::string reason_;  // why not; written before active_ or never read
  std::unique_ptr<BlockClient> blocks_;
  std::unique_ptr<FileCopier> copier_;
};

}  // namespace forebay
