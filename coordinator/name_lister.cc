#include "coordinator/name_lister.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <iterator>
#include <utility>

#include "common/base/executors.h"
#include "coordinator/next_keys.h"

namespace forebay {
namespace {

/// A lane for fewer keys is not worth its first request.
constexpr std::size_t kKeysOfALane = 64;
/// A page shrinks where it has less than an eighth of what is wanted, and grows elsewhere.
constexpr std::uint32_t kPageFactor = 4;
constexpr std::size_t kThin = 8;

}  // namespace

std::shared_ptr<NameLister> NameLister::Create(ObjectStore& store, Job job,
                                               NameListerOptions options, Progress progress) {
  return std::shared_ptr<NameLister>(
      new NameLister(store, std::move(job), options, std::move(progress)));
}

NameLister::NameLister(ObjectStore& store, Job job, NameListerOptions options, Progress progress)
    : store_(store), job_(std::move(job)), options_(options), progress_(std::move(progress)) {}

Task<Status> NameLister::Run() {
  executor_ = co_await asio::this_coro::executor;
  const std::size_t keys = job_.keys.size();
  const std::size_t wanted = (keys + kKeysOfALane - 1) / kKeysOfALane;
  const std::size_t lanes = std::clamp<std::size_t>(wanted, 1, options_.lanes);
  for (std::size_t i = 0; i < lanes; ++i) {
    auto lane = std::make_shared<Lane>();
    lane->next = keys * i / lanes;
    lane->end = keys * (i + 1) / lanes;
    lane->page_keys = options_.page_keys;
    lanes_.push_back(lane);
  }
  for (const auto& lane : lanes_) Begin(ListLane(lane));
  for (;;) {
    Notifier::Ticket ticket = changed_.Enlist(executor_);
    if (running_ == 0) break;
    // Each call of the store has its own deadline; this one only renews the wait.
    (void)co_await ticket.Wait(Deadline::After(options_.wait.say_after));
  }
  if (error_) co_return Fail(*error_);
  co_return Status();
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
  while (!error_ && lane->next < lane->end) {
    const std::size_t before = lane->next;
    Status listed = co_await NextPage(lane);
    // Much lies before it that nobody wants.
    if (listed && !error_ && lane->next == before) listed = co_await LookUpNext(lane);
    if (!listed) Stop(listed.error());
  }
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
  std::string after = std::max(lane->position, Before(job_.keys[lane->next]));
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
    while (lane.next < lane.end && job_.keys[lane.next] < object.key)
      lane.missing.push_back(lane.next++);
    if (lane.next == lane.end) break;
    lane.position = object.key;
    if (job_.keys[lane.next] != object.key) continue;
    ++objects;
    bytes += object.size;
    lane.found.push_back(std::move(object));
    ++lane.next;
  }
  if (page.next.empty()) {
    while (lane.next < lane.end) lane.missing.push_back(lane.next++);
  }
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
  lane->position = key;
  if (is_there) {
    progress_(1, page->objects.front().size);
    lane->found.push_back(std::move(page->objects.front()));
  } else {
    lane->missing.push_back(lane->next);
  }
  ++lane->next;
  co_return Status();
}

std::vector<ListedObject> NameLister::TakeObjects() {
  std::vector<ListedObject> objects;
  for (const auto& lane : lanes_) {
    std::ranges::move(lane->found, std::back_inserter(objects));
    lane->found = {};
  }
  return objects;
}

std::vector<std::size_t> NameLister::Missing() const {
  std::vector<std::size_t> missing;
  for (const auto& lane : lanes_) std::ranges::copy(lane->missing, std::back_inserter(missing));
  return missing;
}

}  // namespace forebay
