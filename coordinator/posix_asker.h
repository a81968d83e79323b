#pragma once

#include <atomic>
#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/s3/object_store.h"
#include "coordinator/posix_spool.h"
#include "coordinator/s3_wait.h"

namespace forebay {

struct PosixAskerOptions {
  std::size_t lanes = 64;  ///< Requests under way at the same time.
  S3Wait wait = {};
};

/// Asks S3 for the metadata of objects, with a HEAD for each. On the executor that called Run.
class PosixAsker : public std::enable_shared_from_this<PosixAsker> {
 public:
  /// `store` outlives Run.
  static std::shared_ptr<PosixAsker> Create(ObjectStore& store, LinkOrigin origin,
                                            std::vector<ListedObject> objects,
                                            PosixAskerOptions options);

  /// Call once. Answers for all objects, in their order; for one that is gone, or another one by
  /// now, that it was not asked about. Errors: the object store's; kUnavailable after Cancel.
  Task<Result<std::vector<PosixSpool::Answer>>> Run();
  /// Ends Run at once: requests in flight are cancelled. From the executor of Run.
  void Cancel();

 private:
  PosixAsker(ObjectStore& store, LinkOrigin origin, std::vector<ListedObject> objects,
             PosixAskerOptions options);
  Task<void> AskNext();
  Task<Status> Ask(std::size_t place);
  void Stop(Error error);

  ObjectStore& store_;
  const LinkOrigin origin_;
  const std::vector<ListedObject> objects_;
  const PosixAskerOptions options_;
  asio::any_io_executor executor_;                // of Run
  std::list<asio::cancellation_signal> cancels_;  // of each lane
  std::vector<PosixSpool::Answer> answers_;
  std::size_t next_ = 0;
  std::size_t running_ = 0;
  std::optional<Error> error_;
  std::atomic<bool> ended_{false};  // error_ is there; any thread
  Notifier changed_;
};

}  // namespace forebay
