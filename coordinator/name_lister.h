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
#include "coordinator/s3_wait.h"

namespace forebay {

struct NameListerOptions {
  std::size_t lanes = 16;          ///< That ask at the same time, each for its part of the keys.
  std::uint32_t page_keys = 1000;  ///< S3's own maximum.
  S3Wait wait = {};
};

/// Finds what S3 holds of many keys, with LISTs that begin just before the next one that is wanted:
/// where the keys lie close together a page has up to a thousand of them, and where they are far
/// apart each costs one or two requests, whatever lies between. On the executor that called Run.
class NameLister : public std::enable_shared_from_this<NameLister> {
 public:
  struct Job {
    LinkOrigin origin;
    std::string prefix;             ///< That all keys begin with.
    std::vector<std::string> keys;  ///< Ascending, each once.
  };
  /// For each page: how many of the keys it had, and their bytes.
  using Progress = std::function<void(std::uint64_t objects, std::uint64_t bytes)>;

  /// `store` outlives Run.
  static std::shared_ptr<NameLister> Create(ObjectStore& store, Job job, NameListerOptions options,
                                            Progress progress);

  /// Call once. Errors: NextKeys'; kUnavailable after Cancel.
  Task<Status> Run();
  /// Ends Run at once: requests in flight are cancelled. From the executor of Run.
  void Cancel();

  /// After Run: what there is, by key, and the places among the keys of what there is not.
  std::vector<ListedObject> TakeObjects();
  std::vector<std::size_t> Missing() const;

 private:
  /// A part of the keys, [next, end).
  struct Lane {
    std::size_t next = 0;
    std::size_t end = 0;
    std::string position;  // the last key that was listed
    std::uint32_t page_keys = 0;
    std::vector<ListedObject> found;
    std::vector<std::size_t> missing;
  };

  NameLister(ObjectStore& store, Job job, NameListerOptions options, Progress progress);
  void Begin(Task<void> work);
  Task<void> ListLane(std::shared_ptr<Lane> lane);
  Task<Result<ListPage>> Fetch(std::string prefix, std::string start_after, std::uint32_t keys);
  Task<Status> NextPage(std::shared_ptr<Lane> lane);
  Task<Status> LookUpNext(std::shared_ptr<Lane> lane);
  void Take(Lane& lane, ListPage& page);
  std::string Before(const std::string& key) const;
  void Stop(Error error);

  ObjectStore& store_;
  const Job job_;
  const NameListerOptions options_;
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
