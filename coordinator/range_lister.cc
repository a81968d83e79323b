#include "coordinator/range_lister.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <string_view>
#include <utility>

#include "common/base/executors.h"
#include "coordinator/next_keys.h"
#include "coordinator/split_search.h"

namespace forebay {
namespace {

/// Probes that any listing may make, and pages behind which one more may be made.
constexpr std::uint64_t kFreeProbes = 64;
constexpr std::uint64_t kPagesPerProbe = 4;
/// Searches at the same time: what they ask together is soon lists that are asked together.
constexpr std::size_t kSplitsAtOnce = 2;

}  // namespace

std::shared_ptr<RangeLister> RangeLister::Create(ObjectStore& store, Job job,
                                                 RangeListerOptions options, RangeSink& sink,
                                                 std::vector<asio::any_io_executor> work,
                                                 Progress progress) {
  return std::shared_ptr<RangeLister>(
      new RangeLister(store, std::move(job), options, sink, std::move(work), std::move(progress)));
}

RangeLister::RangeLister(ObjectStore& store, Job job, RangeListerOptions options, RangeSink& sink,
                         std::vector<asio::any_io_executor> work, Progress progress)
    : store_(store),
      job_(std::move(job)),
      options_(options),
      sink_(sink),
      work_(std::move(work)),
      progress_(std::move(progress)) {}

/// What runs on an executor of `work`, and how it is ended there: by that thread.
struct RangeLister::Errand {
  asio::any_io_executor executor;
  asio::cancellation_signal cancel;
};

/// Known to Cancel as long as its frame lasts.
class RangeLister::RunningErrand {
 public:
  RunningErrand(Errands& all, asio::any_io_executor executor) : all_(all) {
    errand_ = std::make_shared<Errand>();
    errand_->executor = std::move(executor);
    all_.insert(errand_);
  }
  ~RunningErrand() { all_.erase(errand_); }
  RunningErrand(const RunningErrand&) = delete;
  RunningErrand& operator=(const RunningErrand&) = delete;
  const std::shared_ptr<Errand>& get() const { return errand_; }

 private:
  Errands& all_;
  std::shared_ptr<Errand> errand_;
};

template <typename T>
Task<T> RangeLister::RunErrand(std::shared_ptr<Errand> errand, Task<T> task) {
  auto token = asio::bind_cancellation_slot(errand->cancel.slot(), asio::use_awaitable);
  co_return co_await asio::co_spawn(errand->executor, std::move(task), token);
}

/// Runs `task` where the range's work is done; the caller goes on where it was. A cancellation of
/// the caller is not passed on by Asio, which would do so from this thread: Cancel does.
template <typename T>
Task<T> RangeLister::OnWork(std::uint32_t range, Task<T> task) {
  if (work_.empty()) co_return co_await std::move(task);
  const RunningErrand running(errands_, work_[range % work_.size()]);
  Task<T> errand = RunErrand(running.get(), std::move(task));
  auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
  co_return co_await asio::co_spawn(running.get()->executor, std::move(errand), token);
}

Task<Status> RangeLister::Run() {
  executor_ = co_await asio::this_coro::executor;
  if (!single_keys_.empty()) Begin(ListSingleKeys());
  if (!job_.keys_only) Begin(BeginRanges());
  for (;;) {
    Notifier::Ticket ticket = changed_.Enlist(executor_);
    if (running_ == 0) break;
    // Each call of the store has its own deadline; this one only renews the wait.
    (void)co_await ticket.Wait(Deadline::After(options_.wait.say_after));
  }
  if (error_) co_return Fail(*error_);
  co_return CheckCoverage();
}

/// Run waits for `work`.
void RangeLister::Begin(Task<void> work) {
  ++running_;
  cancels_.emplace_back();
  Spawn(executor_, std::move(work), cancels_.back().slot(), [self = shared_from_this()] {
    --self->running_;
    self->changed_.NotifyAll();
  });
}

void RangeLister::Cancel() {
  // First the reason: whoever is woken looks for it and waits for nothing more.
  Stop(Error{Code::kUnavailable, "the listing was interrupted"});
  for (asio::cancellation_signal& cancel : cancels_) cancel.emit(asio::cancellation_type::terminal);
  for (const std::shared_ptr<Errand>& errand : errands_) {
    asio::post(errand->executor,
               [errand] { errand->cancel.emit(asio::cancellation_type::terminal); });
  }
}

void RangeLister::Stop(Error error) {
  if (!error_) error_ = std::move(error);
  ended_ = true;
}

/// Goes on where an earlier listing stopped, or begins with one range of all.
Task<void> RangeLister::BeginRanges() {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  for (const ListedRange& found : job_.ranges) {
    auto range = std::make_shared<Range>();
    static_cast<ListedRange&>(*range) = found;
    next_id_ = std::max(next_id_, found.id + 1);
    ranges_.push_back(std::move(range));
  }
  if (ranges_.empty()) {
    auto all = std::make_shared<Range>();
    all->id = next_id_++;
    ranges_.push_back(all);
    std::vector<std::shared_ptr<Range>> parts = {all};
    Task<Status> begin = BeginInSink(std::move(parts));
    Status begun = co_await OnWork(all->id, std::move(begin));
    if (!begun) Stop(begun.error());
  }
  if (error_) co_return;
  for (const auto& range : ranges_) {
    if (!range->done) StartRange(range);
  }
}

Task<void> RangeLister::ListSingleKeys() {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  for (const std::string& key : single_keys_) {
    if (error_) break;
    ListRequest request;
    request.origin = job_.origin;
    request.prefix = key;
    request.max_keys = 1;
    Task<Result<ListPage>> fetch = Fetch(std::move(request));
    Result<ListPage> page = co_await std::move(fetch);
    if (error_) break;
    if (!page) {
      Stop(page.error());
      break;
    }
    // The key itself sorts before all that it is a prefix of.
    if (page->objects.empty() || page->objects.front().key != key || !Shows(key)) continue;
    progress_(1, page->objects.front().size);
    single_objects_.push_back(std::move(page->objects.front()));
  }
}

void RangeLister::StartRange(std::shared_ptr<Range> range) {
  ++lanes_;
  Begin(ListRange(std::move(range)));
}

Task<void> RangeLister::ListRange(std::shared_ptr<Range> range) {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  while (!error_ && !range->done) {
    Result<ListPage> page = co_await NextPage(range);
    if (error_) break;
    if (!page) {
      Stop(page.error());
      break;
    }
    Take(*range, *page);
    Task<Result<Kept>> keep = Keep(range->id, std::move(page->objects), range->done, range->until);
    Result<Kept> kept = co_await OnWork(range->id, std::move(keep));
    if (kept) progress_(kept->objects, kept->bytes);
    if (!kept) Stop(kept.error());
    MaybeSplit(range);
  }
  --lanes_;
}

Task<Result<ListPage>> RangeLister::NextPage(std::shared_ptr<Range> range) {
  ListRequest request;
  request.origin = job_.origin;
  request.prefix = job_.prefix;
  request.start_after = range->position;
  request.continuation = range->continuation;
  request.max_keys = options_.page_keys;
  Task<Result<ListPage>> fetch = Fetch(std::move(request));
  Result<ListPage> page = co_await OnWork(range->id, std::move(fetch));
  co_return page;
}

Task<Result<ListPage>> RangeLister::Fetch(ListRequest request) const {
  std::function<Task<Result<ListPage>>(Deadline)> ask = [this, request](Deadline deadline) {
    return NextKeys(store_, request, deadline);
  };
  Task<Result<ListPage>> asked = AskS3<ListPage>(options_.wait, ended_, std::move(ask));
  Result<ListPage> page = co_await std::move(asked);
  co_return page;
}

bool RangeLister::Shows(const std::string& key) const {
  return job_.filter.is_empty() || job_.filter.Shows(std::string_view(key).substr(job_.root_bytes));
}

/// Gives what is wanted of a page to the sink; then the range is as far as the page says, also
/// after a crash: what was left out behind the last key is looked at again.
Task<Result<RangeLister::Kept>> RangeLister::Keep(std::uint32_t range,
                                                  std::vector<ListedObject> objects, bool done,
                                                  std::optional<std::string> until) {
  std::erase_if(objects, [this](const ListedObject& object) { return !Shows(object.key); });
  Status added = sink_.Add(range, objects);
  if (added && done) added = sink_.Finish(range, until);
  if (!added) co_return Fail(added.error());
  Kept kept{.objects = objects.size()};
  for (const ListedObject& object : objects) kept.bytes += object.size;
  co_return kept;
}

/// Cuts the page at the range's end, which may have moved while it was on its way.
void RangeLister::Take(Range& range, ListPage& page) {
  if (range.until && !page.objects.empty() && page.objects.back().key > *range.until) {
    const auto behind =
        std::ranges::upper_bound(page.objects, *range.until, {}, &ListedObject::key);
    page.objects.erase(behind, page.objects.end());
    page.next.clear();
  }
  if (!page.objects.empty()) range.position = page.objects.back().key;
  range.continuation = page.next;
  range.done = page.next.empty() || (range.until && range.position == *range.until);
  ++range.pages_since_split;
  ++pages_;
}

void RangeLister::MaybeSplit(const std::shared_ptr<Range>& range) {
  const bool wanted = !error_ && !range->done && !range->splitting && lanes_ < options_.ranges &&
                      range->pages_since_split >= options_.pages_before_split &&
                      splits_running_ < kSplitsAtOnce &&
                      probes_ < kFreeProbes + pages_ / kPagesPerProbe && !range->position.empty();
  if (!wanted) return;
  range->pages_since_split = 0;
  range->splitting = true;
  const std::size_t parts = std::min(options_.ranges - lanes_, options_.probes_at_once);
  lanes_ += parts;
  ++splits_running_;
  Begin(Split(range, parts));
}

Task<void> RangeLister::Split(std::shared_ptr<Range> range, std::size_t wanted) {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  Result<Splits> splits = co_await SearchSplits(range, wanted);
  if (!splits) Stop(splits.error());
  if (splits && !error_) {
    // The range went on meanwhile: splits behind which it already is would list keys twice.
    std::erase_if(*splits, [&](const std::string& key) { return key <= range->position; });
    if (!splits->empty() && !range->done) {
      Status made = co_await MakeRanges(range, std::move(*splits));
      if (!made) Stop(made.error());
    }
  }
  range->splitting = false;
  --splits_running_;
  lanes_ -= wanted;
}

Task<Result<RangeLister::Splits>> RangeLister::SearchSplits(std::shared_ptr<Range> range,
                                                            std::size_t wanted) {
  UnlistedRange left{
      .prefix_bytes = job_.prefix.size(), .position = range->position, .until = range->until};
  const ProbeAll probe = [this, range](std::vector<std::string> markers) {
    return ProbeAt(range, std::move(markers));
  };
  Task<Result<Splits>> search = FindSplits(std::move(left), wanted, options_.probes_at_once, probe);
  Result<Splits> splits = co_await std::move(search);
  co_return splits;
}

/// The sink first hears of the parts, then that the range ends before them: after a crash in
/// between, parts that begin inside a range are known to hold nothing.
Task<Status> RangeLister::MakeRanges(std::shared_ptr<Range> range, Splits splits) {
  std::vector<std::shared_ptr<Range>> parts;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    auto part = std::make_shared<Range>();
    part->id = next_id_++;
    part->begin = part->position = splits[i];
    part->until = i + 1 < splits.size() ? std::optional(splits[i + 1]) : range->until;
    parts.push_back(std::move(part));
  }
  Task<Status> begin = BeginInSink(parts);
  Status kept = co_await OnWork(range->id, std::move(begin));
  if (!kept) co_return kept;
  if (error_ || range->done || range->position >= splits.front()) {
    Task<Status> drop = DropInSink(std::move(parts));
    kept = co_await OnWork(range->id, std::move(drop));
    co_return kept;
  }
  range->until = splits.front();
  Task<Status> end = SetEndInSink(range->id, splits.front());
  kept = co_await OnWork(range->id, std::move(end));
  if (!kept) co_return kept;
  for (const auto& part : parts) {
    ranges_.push_back(part);
    if (!error_) StartRange(part);
  }
  co_return kept;
}

Task<Status> RangeLister::BeginInSink(std::vector<std::shared_ptr<Range>> parts) {
  Status status;
  for (const auto& part : parts) {
    if (status) status = sink_.Begin(*part);
  }
  co_return status;
}

Task<Status> RangeLister::DropInSink(std::vector<std::shared_ptr<Range>> parts) {
  Status status;
  for (const auto& part : parts) {
    if (status) status = sink_.Drop(part->id);
  }
  co_return status;
}

Task<Status> RangeLister::SetEndInSink(std::uint32_t range, std::string until) {
  co_return sink_.SetEnd(range, until);
}

/// One round of probes. The first key behind each marker, when it lies inside the range and is not
/// its last one.
Task<Result<std::vector<std::optional<std::string>>>> RangeLister::ProbeAt(
    std::shared_ptr<Range> range, std::vector<std::string> markers) {
  auto probes = std::make_shared<Probes>();
  probes->found.resize(markers.size());
  probes->left = markers.size();
  for (std::size_t i = 0; i < markers.size(); ++i) {
    Begin(ProbeInto(probes, i, std::move(markers[i]), range));
  }
  for (;;) {
    Notifier::Ticket ticket = changed_.Enlist(executor_);
    if (probes->left == 0 || error_) break;
    (void)co_await ticket.Wait(Deadline::After(options_.wait.say_after));
  }
  if (error_) co_return Fail(*error_);
  co_return std::move(probes->found);
}

Task<void> RangeLister::ProbeInto(std::shared_ptr<Probes> probes, std::size_t index,
                                  std::string marker, std::shared_ptr<Range> range) {
  const std::shared_ptr<RangeLister> self = shared_from_this();
  ++probes_;
  ListRequest request;
  request.origin = job_.origin;
  request.prefix = job_.prefix;
  request.start_after = std::move(marker);
  request.max_keys = 1;
  Task<Result<ListPage>> fetch = Fetch(std::move(request));
  Result<ListPage> page = co_await OnWork(range->id, std::move(fetch));
  if (!page) {
    Stop(page.error());
  } else if (!page->objects.empty()) {
    std::string key = std::move(page->objects.front().key);
    if (!range->until || key < *range->until) probes->found[index] = std::move(key);
  }
  --probes->left;
}

/// The ranges, put in order, join each other without a gap and all reached their end.
Status RangeLister::CheckCoverage() const {
  std::vector<const Range*> ordered;
  ordered.reserve(ranges_.size());
  for (const auto& range : ranges_) ordered.push_back(range.get());
  std::ranges::sort(ordered, {}, [](const Range* range) { return range->begin; });
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    const bool last = i + 1 == ordered.size();
    const bool joins = last ? !ordered[i]->until : ordered[i]->until == ordered[i + 1]->begin;
    if (!joins || !ordered[i]->done) {
      return Fail(Code::kInternal, fmt::format("the listing of s3://{}/{} has a gap; link it again",
                                               job_.origin.bucket, job_.prefix));
    }
  }
  return {};
}

}  // namespace forebay
