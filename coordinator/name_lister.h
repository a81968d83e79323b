#pragma once

#include <atomic>
#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/s3/object_store.h"
#include "coordinator/listing_spool.h"
#include "coordinator/s3_wait.h"

namespace forebay {

struct NameListerOptions {
  std::size_t lanes = 64;          ///< That ask at the same time, each for its part of the keys.
  std::uint32_t page_keys = 1000;  ///< S3's own maximum.
  /// Answers of a lane that are kept together: so many questions of each lane a crash repeats at
  /// most.
  std::uint32_t kept_together = 8;
  S3Wait wait = {};
};

/// Finds what S3 holds of many keys, with LISTs that begin just before the next one that is wanted:
/// where the keys lie close together a page has up to a thousand of them, and where they are far
/// apart each costs one or two requests, whatever lies between. Each lane is a range of the sink,
/// and goes on behind the last key that the sink knows to be looked up. Decisions are made on the
/// executor that called Run, which also asks S3; the sink is called on the executors of `work`,
/// each of which is one thread, or on that of Run when there is none.
class NameLister : public std::enable_shared_from_this<NameLister> {
 public:
  struct Job {
    LinkOrigin origin;
    std::string prefix;             ///< That all keys begin with.
    std::vector<std::string> keys;  ///< Ascending, each once.
    std::vector<ListedRange> ranges =
        {};  ///< Where a look at the same keys stopped; empty = nowhere.
    /// One request for each key, of that key alone: for few of them, wherever they lie.
    bool each_alone = false;
  };
  /// For each answer: how many of the keys it had, and their bytes.
  using Progress = std::function<void(std::uint64_t objects, std::uint64_t bytes)>;

  /// `store` and `sink` outlive Run.
  static std::shared_ptr<NameLister> Create(ObjectStore& store, Job job, NameListerOptions options,
                                            RangeSink& sink,
                                            std::vector<asio::any_io_executor> work,
                                            Progress progress);

  /// Call once. Errors: NextKeys' and the sink's; kUnavailable after Cancel.
  Task<Status> Run();
  /// Ends Run at once: requests in flight are cancelled. From the executor of Run.
  void Cancel();

  const std::vector<std::string>& keys() const { return job_.keys; }

 private:
  /// A part of the keys, [next, end).
  struct Lane : ListedRange {
    std::size_t next = 0;
    std::size_t end = 0;
    std::string listed_until;  // nothing up to here need be listed again
    std::uint32_t page_keys = 0;
    std::uint32_t answers = 0;        // that the sink does not have
    std::vector<ListedObject> found;  // in them
  };

  NameLister(ObjectStore& store, Job job, NameListerOptions options, RangeSink& sink,
             std::vector<asio::any_io_executor> work, Progress progress);
  void Begin(Task<void> work);
  void MakeLanes();
  void TakeLanes();
  Task<Status> OnWork(std::uint32_t range, std::function<Status()> call);
  static Task<Status> Call(std::function<Status()> call);
  Task<void> ListAll();
  Task<void> ListLane(std::shared_ptr<Lane> lane);
  Task<Result<ListPage>> Fetch(std::string prefix, std::string start_after, std::uint32_t keys);
  Task<Status> LookUp(std::shared_ptr<Lane> lane);
  Task<Status> NextPage(std::shared_ptr<Lane> lane);
  Task<Status> LookUpNext(std::shared_ptr<Lane> lane);
  Task<Status> Keep(std::shared_ptr<Lane> lane);
  void Take(Lane& lane, ListPage& page);
  std::string Before(const std::string& key) const;
  void Stop(Error error);

  ObjectStore& store_;
  const Job job_;
  const NameListerOptions options_;
  RangeSink& sink_;
  const std::vector<asio::any_io_executor> work_;
  const Progress progress_;
  asio::any_io_executor executor_;                // of Run
  std::list<asio::cancellation_signal> cancels_;  // of each lane
  std::vector<std::shared_ptr<Lane>> lanes_;      // in the order of the keys
  std::size_t running_ = 0;
  std::optional<Error> error_;
  std::atomic<bool> ended_{false};  // error_ is there; any thread
  Notifier changed_;
};

}  // namespace forebay
