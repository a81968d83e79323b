#include "coordinator/range_lister.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <string_view>
#include <utility>

#include "common/base/executors.h"

namespace forebay {
namespace {

/// Empty pages that promise more: S3 sends them when it skips many deleted versions. So many in a
/// row are a server that will never end.
constexpr int kMaxEmptyPages = 1000;

/// Markers are made of printable ASCII alone, so that they are valid UTF-8 wherever they are cut.
constexpr unsigned char kFirstAscii = 0x20;
constexpr unsigned char kLastAscii = 0x7e;

bool IsSplittable(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= kFirstAscii && byte < kLastAscii;
}

std::size_t CommonPrefix(std::string_view a, std::string_view b) {
  const auto differs = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(differs.in1 - a.begin());
}

/// The first byte strings behind all those that begin like `key` up to and with byte `index`.
std::string MarkerBehind(std::string_view key, std::size_t index) {
  std::string marker(key.substr(0, index + 1));
  marker.back() = static_cast<char>(marker.back() + 1);
  return marker;
}

}  // namespace

std::shared_ptr<RangeLister> RangeLister::Create(ObjectStore& store, LinkOrigin origin,
                                                 std::string prefix, RangeListerOptions options,
                                                 Sink sink) {
  return std::shared_ptr<RangeLister>(
      new RangeLister(store, std::move(origin), std::move(prefix), options, std::move(sink)));
}

RangeLister::RangeLister(ObjectStore& store, LinkOrigin origin, std::string prefix,
                         RangeListerOptions options, Sink sink)
    : store_(store),
      origin_(std::move(origin)),
      prefix_(std::move(prefix)),
      options_(options),
      sink_(std::move(sink)) {}

Task<Status> RangeLister::Run() {
  executor_ = co_await asio::this_coro::executor;
  auto all = std::make_shared<Range>();
  ranges_.push_back(all);
  if (!single_keys_.empty()) Begin(ListSingleKeys());
  Begin(ListRange(all));
  for (;;) {
    Notifier::Ticket ticket = ended_.Enlist(executor_);
    if (active_ == 0) break;
    // Each call of the store has its own deadline; this one only renews the wait.
    (void)co_await ticket.Wait(Deadline::After(options_.patience));
  }
  if (error_) co_return Fail(*error_);
  co_return CheckCoverage();
}

/// `work` counts as active until it has ended.
void RangeLister::Begin(Task<void> work) {
  ++active_;
  cancels_.emplace_back();
  Spawn(executor_, std::move(work), cancels_.back().slot(), [self = shared_from_this()] {
    if (--self->active_ == 0) self->ended_.NotifyAll();
  });
}

void RangeLister::Cancel() {
  // First the reason: whoever is woken looks for it and waits for nothing more.
  Stop(Error{Code::kUnavailable, "the listing was interrupted"});
  for (asio::cancellation_signal& cancel : cancels_) cancel.emit(asio::cancellation_type::terminal);
}

void RangeLister::Stop(Error error) {
  if (!error_) error_ = std::move(error);
}

Task<void> RangeLister::ListSingleKeys() {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  for (const std::string& key : single_keys_) {
    if (error_) break;
    ListRequest request;
    request.origin = origin_;
    request.prefix = key;
    request.max_keys = 1;
    Result<ListPage> page =
        co_await store_.List(std::move(request), Deadline::After(options_.patience));
    if (error_) break;
    if (!page) {
      Stop(page.error());
      break;
    }
    // The key itself sorts before all that it is a prefix of.
    if (page->objects.empty() || page->objects.front().key != key) continue;
    Status taken = sink_(page->objects);
    if (!taken) Stop(taken.error());
  }
}

Task<void> RangeLister::ListRange(std::shared_ptr<Range> range) {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  int empty_pages = 0;
  while (!error_ && !range->done) {
    Result<ListPage> page = co_await NextPage(range);
    if (error_) break;
    if (!page) {
      Stop(page.error());
      break;
    }
    empty_pages = page->objects.empty() ? empty_pages + 1 : 0;
    if (empty_pages > kMaxEmptyPages) {
      Stop(Error{Code::kCorrupt, fmt::format("S3 lists s3://{}/{} without an end: {} empty pages",
                                             origin_.bucket, prefix_, kMaxEmptyPages)});
      break;
    }
    Status taken = Take(*range, std::move(*page));
    if (!taken) {
      Stop(taken.error());
      break;
    }
    MaybeSplit(range);
  }
}

Task<Result<ListPage>> RangeLister::NextPage(std::shared_ptr<Range> range) {
  ListRequest request;
  request.origin = origin_;
  request.prefix = prefix_;
  request.start_after = range->position;
  request.continuation = range->continuation;
  request.max_keys = options_.page_keys;
  Result<ListPage> page =
      co_await store_.List(std::move(request), Deadline::After(options_.patience));
  co_return page;
}

Status RangeLister::Take(Range& range, ListPage page) {
  for (std::size_t i = 0; i < page.objects.size(); ++i) {
    const std::string& key = page.objects[i].key;
    if (!key.starts_with(prefix_)) {
      return Fail(Code::kCorrupt,
                  fmt::format("S3 listed a key outside of s3://{}/{}", origin_.bucket, prefix_));
    }
    const bool first = ranges_.size() == 1 && range.position.empty();
    if (!first && key <= range.position) {
      return Fail(Code::kCorrupt,
                  fmt::format("S3 lists s3://{}/{} out of order: this kind of bucket cannot be "
                              "linked",
                              origin_.bucket, prefix_));
    }
    if (range.until && key > *range.until) {
      page.objects.resize(i);
      page.next.clear();
      break;
    }
    range.position = key;
  }
  range.continuation = std::move(page.next);
  range.done = range.continuation.empty() || (range.until && range.position == *range.until);
  ++range.pages_since_split;
  if (page.objects.empty()) return {};
  return sink_(page.objects);
}

void RangeLister::MaybeSplit(const std::shared_ptr<Range>& range) {
  const bool wanted = !error_ && !range->done && !range->splitting && active_ < options_.ranges &&
                      range->pages_since_split >= options_.pages_before_split &&
                      !range->position.empty();
  if (!wanted) return;
  range->pages_since_split = 0;
  range->splitting = true;
  Begin(SplitAndList(range));
}

Task<void> RangeLister::SplitAndList(std::shared_ptr<Range> range) {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  Result<std::optional<std::string>> split = co_await FindSplit(range);
  range->splitting = false;
  if (!split) Stop(split.error());
  // The range went on meanwhile: a split behind which it already is would list keys twice.
  const bool useful = !error_ && split->has_value() && !range->done && range->position < **split &&
                      (!range->until || **split < *range->until);
  if (!useful) co_return;
  auto rest = std::make_shared<Range>();
  rest->begin = **split;
  rest->position = **split;
  rest->until = range->until;
  range->until = **split;
  ranges_.push_back(rest);
  co_await ListRange(rest);
}

/// The shortest beginning of the current position behind which there still are keys is where the
/// rest of the range spreads out: found by bisection, so that a prefix that all keys share costs
/// log2 of its length.
Task<Result<std::optional<std::string>>> RangeLister::FindSplit(std::shared_ptr<Range> range) {
  const std::string position = range->position;
  const std::size_t from = range->until ? CommonPrefix(position, *range->until) : prefix_.size();
  std::vector<std::size_t> candidates;
  for (std::size_t i = from; i < position.size(); ++i) {
    if (IsSplittable(position[i])) candidates.push_back(i);
  }
  std::optional<std::string> found;
  std::size_t low = 0;
  std::size_t high = candidates.size();
  while (low < high && !error_) {
    const std::size_t middle = low + (high - low) / 2;
    Result<std::optional<std::string>> key =
        co_await Probe(MarkerBehind(position, candidates[middle]), range);
    if (!key) co_return key;
    if (key->has_value()) {
      found = std::move(*key);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (!found) co_return std::optional<std::string>();
  const std::size_t spread = candidates[high];
  Result<std::optional<std::string>> balanced = co_await BalancedSplit(
      position.substr(0, spread), static_cast<unsigned char>(position[spread]), std::move(*found),
      range);
  co_return balanced;
}

/// Halves the byte values above `low` behind `stem` until there is a key in the upper half.
Task<Result<std::optional<std::string>>> RangeLister::BalancedSplit(std::string stem,
                                                                    unsigned char low,
                                                                    std::string fallback,
                                                                    std::shared_ptr<Range> range) {
  unsigned char high = kLastAscii;
  if (range->until && range->until->size() > stem.size() && range->until->starts_with(stem)) {
    const auto last = static_cast<unsigned char>((*range->until)[stem.size()]);
    high = std::min(high, last);
  }
  while (high > low + 1 && !error_) {
    const auto middle = static_cast<unsigned char>(low + (high - low) / 2);
    Result<std::optional<std::string>> key =
        co_await Probe(stem + static_cast<char>(middle), range);
    if (!key || key->has_value()) co_return key;
    high = middle;
  }
  co_return std::optional<std::string>(std::move(fallback));
}

/// The first key behind `marker`, when it lies inside the range and is not its last one.
Task<Result<std::optional<std::string>>> RangeLister::Probe(std::string marker,
                                                            std::shared_ptr<Range> range) {
  ++probes_;
  ListRequest request;
  request.origin = origin_;
  request.prefix = prefix_;
  request.start_after = std::move(marker);
  request.max_keys = 1;
  Result<ListPage> page =
      co_await store_.List(std::move(request), Deadline::After(options_.patience));
  if (!page) co_return Fail(page.error());
  if (page->objects.empty()) co_return std::optional<std::string>();
  std::string key = std::move(page->objects.front().key);
  if (range->until && key >= *range->until) co_return std::optional<std::string>();
  co_return std::optional<std::string>(std::move(key));
}

/// The ranges, put in order, join each other without a gap and all reached their end.
Status RangeLister::CheckCoverage() const {
  std::vector<const Range*> ordered;
  ordered.reserve(ranges_.size());
  for (const auto& range : ranges_) ordered.push_back(range.get());
  std::ranges::sort(ordered, {}, &Range::begin);
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    const bool last = i + 1 == ordered.size();
    const bool joins = last ? !ordered[i]->until : ordered[i]->until == ordered[i + 1]->begin;
    if (!joins || !ordered[i]->done) {
      return Fail(Code::kInternal, fmt::format("the listing of s3://{}/{} has a gap; link it again",
                                               origin_.bucket, prefix_));
    }
  }
  return {};
}

}  // namespace forebay
