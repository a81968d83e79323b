#pragma once

#include <atomic>
#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/model/key_filter.h"
#include "common/s3/object_store.h"
#include "coordinator/listing_spool.h"
#include "coordinator/s3_wait.h"

namespace forebay {

struct RangeListerOptions {
  /// Key ranges that are listed at the same time.
  std::size_t ranges = 16;
  std::uint32_t page_keys = 1000;  ///< S3's own maximum.
  /// A range is split when it has listed so many pages since its last split: a listing of fewer
  /// costs no probes.
  std::uint32_t pages_before_split = 2;
  std::size_t probes_at_once = 8;  ///< For one split, beside the pages.
  S3Wait wait = {};
};

/// Lists all keys of a prefix, in several key ranges at once. What the sink gets is exactly the set
/// that one sequential listing gives, each key once and those of a range in order.
///
/// A range is (begin, until] and `until` is always a real key, found by asking S3 for one key
/// behind a marker: the range that is split keeps the keys up to it, the new one takes those
/// behind it. So the ranges cover the key space without a gap or an overlap whatever the probes
/// found, and a probe that guessed badly costs balance, not keys. Probes are at most a quarter of
/// the pages, and about 150.
///
/// Decisions are made on the executor that called Run. Pages are fetched, parsed and given to the
/// sink on the executors of `work`, each of which is one thread; on that of Run when there is none.
class RangeLister : public std::enable_shared_from_this<RangeLister> {
 public:
  struct Job {
    LinkOrigin origin;
    std::string prefix;
    std::vector<ListedRange> ranges;  ///< Where an earlier listing stopped; empty = nowhere.
    bool keys_only = false;           ///< Only what AlsoList names; the prefix is not listed.
    /// Keys that are kept, by what is behind their first `root_bytes` bytes.
    KeyFilter filter = {};
    std::size_t root_bytes = 0;
  };
  /// On Run's executor, for each page: how many objects and bytes were kept of it.
  using Progress = std::function<void(std::uint64_t objects, std::uint64_t bytes)>;

  /// `store` and `sink` outlive Run.
  static std::shared_ptr<RangeLister> Create(ObjectStore& store, Job job,
                                             RangeListerOptions options, RangeSink& sink,
                                             std::vector<asio::any_io_executor> work,
                                             Progress progress);

  /// Before Run, which then looks for these keys as well, each alone: they are in single_objects().
  void AlsoList(std::vector<std::string> keys) { single_keys_ = std::move(keys); }
  const std::vector<ListedObject>& single_objects() const { return single_objects_; }

  /// Lists everything. Call once. Errors: NextKeys' and the sink's; kUnavailable after Cancel.
  Task<Status> Run();

  /// Ends Run at once: requests in flight are cancelled. From the executor of Run.
  void Cancel();

  std::size_t ranges_used() const { return ranges_.size(); }
  std::uint64_t probes() const { return probes_; }

 private:
  struct Range : ListedRange {
    std::string continuation;
    std::uint32_t pages_since_split = 0;
    bool splitting = false;
  };
  struct Probes {
    std::vector<std::optional<std::string>> found;
    std::size_t left = 0;
  };
  using Splits = std::vector<std::string>;
  struct Errand;
  class RunningErrand;
  using Errands = std::set<std::shared_ptr<Errand>>;

  RangeLister(ObjectStore& store, Job job, RangeListerOptions options, RangeSink& sink,
              std::vector<asio::any_io_executor> work, Progress progress);

  template <typename T>
  static Task<T> RunErrand(std::shared_ptr<Errand> errand, Task<T> task);
  template <typename T>
  Task<T> OnWork(std::uint32_t range, Task<T> task);
  void Begin(Task<void> work);
  Task<void> BeginRanges();
  Task<void> ListSingleKeys();
  void StartRange(std::shared_ptr<Range> range);
  Task<void> ListRange(std::shared_ptr<Range> range);
  Task<Result<ListPage>> NextPage(std::shared_ptr<Range> range);
  Task<Result<ListPage>> Fetch(ListRequest request) const;
  struct Kept {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  bool Shows(const std::string& key) const;
  Task<Result<Kept>> Keep(std::uint32_t range, std::vector<ListedObject> objects, bool done,
                          std::optional<std::string> until);
  void Take(Range& range, ListPage& page);
  void MaybeSplit(const std::shared_ptr<Range>& range);
  Task<void> Split(std::shared_ptr<Range> range, std::size_t wanted);
  Task<Result<Splits>> SearchSplits(std::shared_ptr<Range> range, std::size_t wanted);
  Task<Status> MakeRanges(std::shared_ptr<Range> range, Splits splits);
  Task<Status> BeginInSink(std::vector<std::shared_ptr<Range>> parts);
  Task<Status> DropInSink(std::vector<std::shared_ptr<Range>> parts);
  Task<Status> SetEndInSink(std::uint32_t range, std::string until);
  Task<Result<std::vector<std::optional<std::string>>>> ProbeAt(std::shared_ptr<Range> range,
                                                                std::vector<std::string> markers);
  Task<void> ProbeInto(std::shared_ptr<Probes> probes, std::size_t index, std::string marker,
                       std::shared_ptr<Range> range);
  void Stop(Error error);
  Status CheckCoverage() const;

  ObjectStore& store_;
  const Job job_;
  const RangeListerOptions options_;
  RangeSink& sink_;
  const std::vector<asio::any_io_executor> work_;
  const Progress progress_;

  std::vector<std::string> single_keys_;
  std::vector<ListedObject> single_objects_;
  asio::any_io_executor executor_;                // of Run
  std::list<asio::cancellation_signal> cancels_;  // of each coroutine
  Errands errands_;                               // on the executors of work_
  std::vector<std::shared_ptr<Range>> ranges_;
  std::uint32_t next_id_ = 0;
  std::size_t running_ = 0;  // coroutines
  std::size_t lanes_ = 0;    // ranges that are listed, or will be when a split is found
  std::size_t splits_running_ = 0;
  std::optional<Error> error_;
  std::atomic<bool> ended_{false};  // error_ is there; any thread
  std::uint64_t pages_ = 0;
  std::uint64_t probes_ = 0;
  Notifier changed_;  // a coroutine ended, or a round of probes
};

}  // namespace forebay
