#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/model/limits.h"
#include "common/s3/object_store.h"

namespace forebay {

struct RangeListerOptions {
  /// Key ranges that are listed at the same time.
  std::size_t ranges = 16;
  std::uint32_t page_keys = 1000;  ///< S3's own maximum.
  /// A range is split when it has listed so many pages since its last split: small listings cost
  /// no probes, and a billion keys reach full width after a few hundred milliseconds.
  std::uint32_t pages_before_split = 4;
  Duration patience = kS3Patience;  ///< For one page.
};

/// Lists all keys of a prefix, in several key ranges at once. What the sink gets is exactly the set
/// that one sequential listing gives, each key once, in no order between pages.
///
/// A range is (after, until] and `until` is always a real key, found by asking S3 for one key
/// behind a marker: the range that is split keeps the keys up to it, the new one takes those
/// behind it. So the ranges cover the key space without a gap or an overlap whatever the probes
/// found, and a probe that guessed badly costs balance, not keys.
///
/// All of it runs on the executor that called Run.
class RangeLister : public std::enable_shared_from_this<RangeLister> {
 public:
  /// Gets every key once. An error ends the listing with it.
  using Sink = std::function<Status(const std::vector<ListedObject>&)>;

  /// `store` and what `sink` uses outlive Run.
  static std::shared_ptr<RangeLister> Create(ObjectStore& store, LinkOrigin origin,
                                             std::string prefix, RangeListerOptions options,
                                             Sink sink);

  /// Before Run, which then looks for these keys as well, each alone.
  void AlsoList(std::vector<std::string> keys) { single_keys_ = std::move(keys); }

  /// Lists everything. Call once. Errors: the object store's; kCorrupt when S3 lists keys out of
  /// order; kUnavailable after Cancel.
  Task<Status> Run();

  /// Ends Run at once: requests in flight are cancelled. From the executor of Run.
  void Cancel();

  std::size_t ranges_used() const { return ranges_.size(); }
  std::uint64_t probes() const { return probes_; }

 private:
  struct Range {
    std::string begin;                 // exclusive
    std::string position;              // last key taken; `begin` before the first
    std::optional<std::string> until;  // inclusive; nothing = to the prefix's end
    std::string continuation;
    std::uint32_t pages_since_split = 0;
    bool splitting = false;
    bool done = false;
  };
  RangeLister(ObjectStore& store, LinkOrigin origin, std::string prefix, RangeListerOptions options,
              Sink sink);

  void Begin(Task<void> work);
  Task<void> ListSingleKeys();
  Task<void> ListRange(std::shared_ptr<Range> range);
  Task<Result<ListPage>> NextPage(std::shared_ptr<Range> range);
  Status Take(Range& range, ListPage page);
  void MaybeSplit(const std::shared_ptr<Range>& range);
  Task<void> SplitAndList(std::shared_ptr<Range> range);
  Task<Result<std::optional<std::string>>> FindSplit(std::shared_ptr<Range> range);
  Task<Result<std::optional<std::string>>> BalancedSplit(std::string stem, unsigned char low,
                                                         std::string fallback,
                                                         std::shared_ptr<Range> range);
  Task<Result<std::optional<std::string>>> Probe(std::string marker, std::shared_ptr<Range> range);
  void Stop(Error error);
  Status CheckCoverage() const;

  ObjectStore& store_;
  const LinkOrigin origin_;
  const std::string prefix_;
  const RangeListerOptions options_;
  const Sink sink_;

  std::vector<std::string> single_keys_;
  asio::any_io_executor executor_;                // of Run
  std::list<asio::cancellation_signal> cancels_;  // of each coroutine
  std::vector<std::shared_ptr<Range>> ranges_;
  std::size_t active_ = 0;  // coroutines that list or look for a split
  std::optional<Error> error_;
  std::uint64_t probes_ = 0;
  Notifier ended_;
};

}  // namespace forebay
