#include "fuse-client/order/order_runner.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>
#include <utility>

namespace forebay {
namespace {

constexpr Duration kLookAtMemoryEvery = std::chrono::seconds(1);

struct Memory {
  std::uint64_t total = 0;
  std::uint64_t available = 0;
};

/// proc(5), "/proc/meminfo", in bytes; zeros where it cannot be read.
Memory MemoryOfMachine() {
  Memory memory;
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name == "MemTotal:") memory.total = kib << 10;
    if (name == "MemAvailable:") memory.available = kib << 10;
  }
  return memory;
}

}  // namespace

struct OrderRunner::Fetched {
  std::uint64_t nodeid = 0;
  std::uint64_t size = 0;
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
    --files;
    bytes -= fetched.size;
    done.push_back(std::move(fetched));
    changed.notify_one();
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
      shared_->changed.wait(lock, stop, [this] { return shared_->more || !shared_->done.empty(); });
      shared_->more = false;
      done.swap(shared_->done);
    }
    for (Fetched& fetched : done) Finish(std::move(fetched));
    if (!stop.stop_requested()) Fill();
  }
}

void OrderRunner::LookAtMemory() {
  const TimePoint now = Clock::now();
  if (now - memory_looked_ < kLookAtMemoryEvery) return;
  memory_looked_ = now;
  const Memory memory = MemoryOfMachine();
  window_bytes_ = std::clamp(memory.available / 16, kMinBytesAhead, kMaxBytesAhead);
  memory_allows_ = memory.total > 0 && memory.available >= memory.total / kFreePart;
}

void OrderRunner::Fill() {
  LookAtMemory();
  while (BeginOne()) {
  }
}

bool OrderRunner::BeginOne() {
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->files >= kFilesAtOnce || shared_->bytes >= parts_.bytes_at_once) return false;
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
  if (!next) return false;
  const AnnouncedOrder::Next& file = next->file;
  if (file.size == 0) return true;
  const bool push = parts_.push && !file.sign && memory_allows_ &&
                    file.size <= parts_.block_bytes && Clock::now() >= push_from_;
  const std::uint64_t held = push ? file.size : 0;
  {
    const std::scoped_lock lock(shared_->mutex);
    ++shared_->files;
    shared_->bytes += held;
  }
  parts_.fetch(
      {.nodeid = file.nodeid, .job = parts_.jobs.Open(next->job, parts_.link), .bytes = push},
      [shared = shared_, nodeid = file.nodeid, held, push](Result<std::vector<Slice>> slices) {
        shared->Land({.nodeid = nodeid, .size = held, .bytes = push, .slices = std::move(slices)});
      });
  return true;
}

void OrderRunner::Finish(Fetched fetched) {
  if (!fetched.slices) return parts_.stats.CountHinted(Hinted::kFailed);
  if (!fetched.bytes) return parts_.stats.CountHinted(Hinted::kFetched);
  if (parts_.session.Store(fetched.nodeid, *fetched.slices)) {
    unknown_ = 0;
    return parts_.stats.CountHinted(Hinted::kPushed);
  }
  parts_.stats.CountHinted(Hinted::kFetched);
  if (++unknown_ < kUnknownInARow) return;
  unknown_ = 0;
  push_from_ = Clock::now() + kPushAgainAfter;
}

}  // namespace forebay
