#include "fuse-client/order/order_runner.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace forebay {
namespace {

constexpr Duration kLookAtMemoryEvery = std::chrono::seconds(1);

}  // namespace

struct OrderRunner::Fetched {
  Wanted wanted;
  std::uint64_t held = 0;  ///< Bytes.
  bool bytes = false;
  Result<std::vector<Slice>> slices;
};

struct OrderRunner::Shared {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<Fetched> done;
  bool more = true;       // what an earlier process was told
  std::size_t files = 0;  // under way
  std::uint64_t bytes = 0;

  void Wake() {
    const std::scoped_lock lock(mutex);
    more = true;
    changed.notify_one();
  }
  void Land(Fetched fetched) {
    const std::scoped_lock lock(mutex);
    done.push_back(std::move(fetched));
    changed.notify_one();
  }
  /// It is pushed, on the list of what was refused, or counted: before that it may be any of them.
  void End(std::uint64_t held) {
    const std::scoped_lock lock(mutex);
    --files;
    bytes -= held;
  }
};

OrderRunner::OrderRunner(Parts parts)
    : parts_(std::move(parts)), shared_(std::make_shared<Shared>()) {
  parts_.book.OnMore([shared = shared_] { shared->Wake(); });
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

OrderRunner::~OrderRunner() = default;

void OrderRunner::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::deque<Fetched> done;
    {
      std::unique_lock lock(shared_->mutex);
      const auto changed = [this] { return shared_->more || !shared_->done.empty(); };
      if (pauses_) {
        shared_->changed.wait_until(lock, stop, again_at_, changed);
      } else {
        shared_->changed.wait(lock, stop, changed);
      }
      shared_->more = false;
      done.swap(shared_->done);
    }
    for (Fetched& fetched : done) {
      const std::uint64_t held = fetched.held;
      Finish(std::move(fetched));
      shared_->End(held);
    }
    if (!stop.stop_requested()) Fill();
  }
}

void OrderRunner::LookAtMemory() {
  const TimePoint now = Clock::now();
  if (now - memory_looked_ < kLookAtMemoryEvery) return;
  memory_looked_ = now;
  const FreeMemory memory = parts_.memory();
  window_bytes_ = std::clamp(memory.available / 16, kMinBytesAhead, kMaxBytesAhead);
  memory_allows_ = memory.total > 0 && memory.available >= memory.total / kFreePart;
}

void OrderRunner::Fill() {
  LookAtMemory();
  pauses_ = false;
  while (BeginOne()) {
  }
}

bool OrderRunner::HasRoom() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->files < kFilesAtOnce && shared_->bytes < parts_.bytes_at_once;
}

// What was refused comes first. Nothing comes from the book before all of that has been asked for
// again: its bounds are those of the wait.
std::optional<OrderRunner::Wanted> OrderRunner::TakeNext() {
  if (!refused_.empty()) {
    pauses_ = Clock::now() < again_at_;
    if (pauses_) return std::nullopt;
    Wanted wanted = std::move(refused_.front());
    refused_.pop_front();
    return wanted;
  }
  // What another generation shows is read by nobody who opens it from now on.
  const std::shared_ptr<const GenerationView> view = parts_.files.view();
  const auto size_of = [&](std::uint64_t nodeid) -> std::optional<std::uint64_t> {
    const std::optional<GenerationView::Found> found = view->Find(nodeid);
    if (!found || !found->current) return std::nullopt;
    return found->row.size;
  };
  std::optional<OrderBook::Next> next =
      parts_.book.Take({.files = kFilesAhead, .bytes = window_bytes_}, size_of);
  if (!next) return std::nullopt;
  return Wanted{.next = std::move(*next)};
}

bool OrderRunner::BeginOne() {
  if (!HasRoom()) return false;
  std::optional<Wanted> wanted = TakeNext();
  if (!wanted) return false;
  if (wanted->refused && !parts_.book.IsAhead(wanted->next)) {
    parts_.stats.CountHinted(Hinted::kRefused);
  } else if (wanted->next.file.size > 0) {
    Begin(std::move(*wanted));
  }
  return true;
}

bool OrderRunner::IsToPush(const Wanted& wanted) const {
  const AnnouncedOrder::Next& file = wanted.next.file;
  if (!parts_.push || file.sign || !memory_allows_ || file.size > parts_.block_bytes) return false;
  return parts_.files.KernelKnows(file.nodeid) || Clock::now() >= push_unknown_from_;
}

void OrderRunner::Begin(Wanted wanted) {
  const std::uint64_t nodeid = wanted.next.file.nodeid;
  const bool push = IsToPush(wanted);
  const std::uint64_t held = push ? wanted.next.file.size : 0;
  {
    const std::scoped_lock lock(shared_->mutex);
    ++shared_->files;
    shared_->bytes += held;
  }
  std::shared_ptr<JobReads> job = parts_.jobs.Open(wanted.next.job, parts_.link);
  parts_.fetch(
      {.nodeid = nodeid, .job = std::move(job), .bytes = push},
      [shared = shared_, wanted = std::move(wanted), held,
       push](Result<std::vector<Slice>> slices) {
        shared->Land({.wanted = wanted, .held = held, .bytes = push, .slices = std::move(slices)});
      });
}

void OrderRunner::Finish(Fetched fetched) {
  if (!fetched.slices) return Refused(std::move(fetched.wanted), fetched.slices.error());
  pause_ = kFirstPause;
  if (!fetched.bytes) return parts_.stats.CountHinted(Hinted::kFetched);
  const std::uint64_t nodeid = fetched.wanted.next.file.nodeid;
  const bool stored = parts_.store(nodeid, *fetched.slices);
  parts_.stats.CountHinted(stored ? Hinted::kPushed : Hinted::kFetched);
  if (!stored) return NoteUnknown(nodeid);
  unknown_ = 0;
}

void OrderRunner::Refused(Wanted wanted, const Error& error) {
  const bool silent = error.code == Code::kUnavailable || error.code == Code::kTimeout;
  if (silent && ++wanted.silent >= kTriesMax) return parts_.stats.CountHinted(Hinted::kFailed);
  if (!silent && error.code != Code::kOverloaded) return parts_.stats.CountHinted(Hinted::kFailed);
  wanted.refused = true;
  refused_.push_back(std::move(wanted));
  const TimePoint now = Clock::now();
  if (now < again_at_) return;  // one of several that were asked for at once
  again_at_ = now + pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
}

void OrderRunner::NoteUnknown(std::uint64_t nodeid) {
  if (parts_.files.KernelKnows(nodeid) || ++unknown_ < kUnknownInARow) return;
  unknown_ = 0;
  push_unknown_from_ = Clock::now() + kPushAgainAfter;
}

}  // namespace forebay
