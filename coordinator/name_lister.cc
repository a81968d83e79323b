#include "coordinator/name_lister.h"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "common/base/executors.h"
#include "coordinator/next_keys.h"

namespace forebay {
namespace {

/// A lane for fewer keys is not worth its first request.
constexpr std::size_t kKeysOfALane = 64;
/// A page, and the key alone.
constexpr std::uint32_t kAnswersOfALook = 2;
/// A page shrinks where it has less than an eighth of what is wanted, and grows elsewhere.
constexpr std::uint32_t kPageFactor = 4;
constexpr std::size_t kThin = 8;

}  // namespace

std::shared_ptr<NameLister> NameLister::Create(ObjectStore& store, Job job,
                                               NameListerOptions options, RangeSink& sink,
                                               std::vector<asio::any_io_executor> work,
                                               Progress progress) {
  return std::shared_ptr<NameLister>(
      new NameLister(store, std::move(job), options, sink, std::move(work), std::move(progress)));
}

NameLister::NameLister(ObjectStore& store, Job job, NameListerOptions options, RangeSink& sink,
                       std::vector<asio::any_io_executor> work, Progress progress)
    : store_(store),
      job_(std::move(job)),
      options_(options),
      sink_(sink),
      work_(std::move(work)),
      progress_(std::move(progress)) {}

Task<Status> NameLister::Run() {
  executor_ = co_await asio::this_coro::executor;
  Begin(ListAll());
  for (;;) {
    Notifier::Ticket ticket = changed_.Enlist(executor_);
    if (running_ == 0) break;
    // Each call of the store has its own deadline; this one only renews the wait.
    (void)co_await ticket.Wait(Deadline::After(options_.wait.say_after));
  }
  if (error_) co_return Fail(*error_);
  co_return Status();
}

/// Each a range from behind the last key of the one before to its own last key.
void NameLister::MakeLanes() {
  const std::size_t keys = job_.keys.size();
  const std::size_t keys_of_a_lane = job_.each_alone ? 1 : kKeysOfALane;
  const std::size_t wanted = (keys + keys_of_a_lane - 1) / keys_of_a_lane;
  const std::size_t lanes = std::clamp<std::size_t>(wanted, 1, options_.lanes);
  for (std::size_t i = 0; i < lanes; ++i) {
    auto lane = std::make_shared<Lane>();
    lane->id = static_cast<std::uint32_t>(i);
    lane->next = keys * i / lanes;
    lane->end = keys * (i + 1) / lanes;
    if (i > 0) lane->begin = *lanes_.back()->until;
    lane->position = lane->begin;
    if (i + 1 < lanes) lane->until = job_.keys[lane->end - 1];
    lanes_.push_back(std::move(lane));
  }
}

/// Those that an earlier look left.
void NameLister::TakeLanes() {
  const std::vector<std::string>& keys = job_.keys;
  for (const ListedRange& range : job_.ranges) {
    auto lane = std::make_shared<Lane>();
    static_cast<ListedRange&>(*lane) = range;
    const auto behind = [&](const std::string& key) {
      return static_cast<std::size_t>(std::ranges::upper_bound(keys, key) - keys.begin());
    };
    lane->next = behind(lane->position);
    lane->end = lane->until ? behind(*lane->until) : keys.size();
    lanes_.push_back(std::move(lane));
  }
}

Task<Status> NameLister::Call(std::function<Status()> call) { co_return call(); }

/// The sink is told to the end also where the caller is cancelled.
Task<Status> NameLister::OnWork(std::uint32_t range, std::function<Status()> call) {
  if (work_.empty()) co_return call();
  Task<Status> task = Call(std::move(call));
  auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
  Status done = co_await asio::co_spawn(work_[range % work_.size()], std::move(task), token);
  co_return done;
}

Task<void> NameLister::ListAll() {
  const std::shared_ptr<NameLister> self = shared_from_this();
  if (job_.ranges.empty()) {
    MakeLanes();
    // All of them before the first answer: a sink with a gap is one that begins anew.
    std::function<Status()> begin = [self] {
      Status begun;
      for (const auto& lane : self->lanes_) {
        if (begun) begun = self->sink_.Begin(*lane);
      }
      return begun;
    };
    Status begun = co_await OnWork(0, std::move(begin));
    if (!begun) Stop(begun.error());
  } else {
    TakeLanes();
  }
  if (error_) co_return;
  for (const auto& lane : lanes_) {
    lane->listed_until = lane->position;
    lane->page_keys = options_.page_keys;
    if (!lane->done) Begin(ListLane(lane));
  }
}

/// Run waits for `work`.
void NameLister::Begin(Task<void> work) {
  ++running_;
  cancels_.emplace_back();
  Spawn(executor_, std::move(work), cancels_.back().slot(), [self = shared_from_this()] {
    --self->running_;
    self->changed_.NotifyAll();
  });
}

void NameLister::Cancel() {
  // First the reason: whoever is woken looks for it and waits for nothing more.
  Stop(Error{Code::kUnavailable, "the listing was interrupted"});
  for (asio::cancellation_signal& cancel : cancels_) cancel.emit(asio::cancellation_type::terminal);
}

void NameLister::Stop(Error error) {
  if (!error_) error_ = std::move(error);
  ended_ = true;
}

Task<void> NameLister::ListLane(std::shared_ptr<Lane> lane) {
  const std::shared_ptr<NameLister> self = shared_from_this();
  while (!error_ && !lane->done) {
    Status listed;
    if (lane->next < lane->end) listed = co_await LookUp(lane);
    const bool is_due = lane->next == lane->end ||
                        lane->answers + kAnswersOfALook > options_.kept_together ||
                        lane->found.size() >= options_.page_keys;
    if (listed && !error_ && is_due) listed = co_await Keep(lane);
    if (!listed) Stop(listed.error());
  }
}

/// At least the next key of the lane.
Task<Status> NameLister::LookUp(std::shared_ptr<Lane> lane) {
  const std::size_t before = lane->next;
  Status listed;
  if (!job_.each_alone) listed = co_await NextPage(lane);
  // Much lies before it that nobody wants.
  if (listed && !error_ && lane->next == before) listed = co_await LookUpNext(lane);
  co_return listed;
}

/// Gives the sink what was found since the last time, and says how far that is.
Task<Status> NameLister::Keep(std::shared_ptr<Lane> lane) {
  std::function<Status()> keep = [self = shared_from_this(), lane] {
    RangeSink& sink = self->sink_;
    Status kept = sink.Add(lane->id, lane->found);
    const bool moved = kept && lane->position > lane->begin;
    const bool is_behind = lane->found.empty() || lane->found.back().key < lane->position;
    if (moved && is_behind) kept = sink.Pass(lane->id, lane->position);
    if (kept && lane->next == lane->end) kept = sink.Finish(lane->id, lane->until);
    return kept;
  };
  if (lane->next > 0) lane->position = std::max(lane->begin, job_.keys[lane->next - 1]);
  Status kept = co_await OnWork(lane->id, std::move(keep));
  lane->found.clear();
  lane->answers = 0;
  lane->done = lane->next == lane->end;
  co_return kept;
}

Task<Result<ListPage>> NameLister::Fetch(std::string prefix, std::string start_after,
                                         std::uint32_t keys) {
  ListRequest request;
  request.origin = job_.origin;
  request.prefix = std::move(prefix);
  request.start_after = std::move(start_after);
  request.max_keys = keys;
  std::function<Task<Result<ListPage>>(Deadline)> ask = [this, request](Deadline deadline) {
    return NextKeys(store_, request, deadline);
  };
  Task<Result<ListPage>> asked = AskS3<ListPage>(options_.wait, ended_, std::move(ask));
  Result<ListPage> page = co_await std::move(asked);
  co_return page;
}

/// A key a little before `key`, with few between them: without its last character. "" where that
/// would be before the prefix.
std::string NameLister::Before(const std::string& key) const {
  std::size_t length = key.size() - 1;
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(key[at]) & 0xC0U) == 0x80U;
  };
  while (length > 0 && is_inside(length)) --length;
  return length <= job_.prefix.size() ? "" : key.substr(0, length);
}

Task<Status> NameLister::NextPage(std::shared_ptr<Lane> lane) {
  std::string after = std::max(lane->listed_until, Before(job_.keys[lane->next]));
  Result<ListPage> page = co_await Fetch(job_.prefix, std::move(after), lane->page_keys);
  if (!page) co_return Fail(page.error());
  if (!error_) Take(*lane, *page);
  co_return Status();
}

/// What a page says about the next keys that are wanted.
void NameLister::Take(Lane& lane, ListPage& page) {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  for (ListedObject& object : page.objects) {
    while (lane.next < lane.end && job_.keys[lane.next] < object.key) ++lane.next;
    if (lane.next == lane.end) break;
    lane.listed_until = object.key;
    if (job_.keys[lane.next] != object.key) continue;
    ++objects;
    bytes += object.size;
    lane.found.push_back(std::move(object));
    ++lane.next;
  }
  if (page.next.empty()) lane.next = lane.end;
  ++lane.answers;
  const bool is_thin = objects * kThin < page.objects.size();
  lane.page_keys = is_thin ? std::max<std::uint32_t>(lane.page_keys / kPageFactor, 1)
                           : std::min(lane.page_keys * kPageFactor, options_.page_keys);
  progress_(objects, bytes);
}

Task<Status> NameLister::LookUpNext(std::shared_ptr<Lane> lane) {
  const std::string& key = job_.keys[lane->next];
  Result<ListPage> page = co_await Fetch(key, "", 1);
  if (!page) co_return Fail(page.error());
  if (error_) co_return Status();
  // The key itself sorts before all that it is a prefix of.
  const bool is_there = !page->objects.empty() && page->objects.front().key == key;
  lane->listed_until = key;
  if (is_there) {
    progress_(1, page->objects.front().size);
    lane->found.push_back(std::move(page->objects.front()));
  }
  ++lane->next;
  ++lane->answers;
  co_return Status();
}

}  // namespace forebay
