#include "tests/sim/virtual_time.h"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <stdexcept>

#include "common/base/alarm.h"
#include "common/base/executors.h"

namespace forebay {
namespace sim {
namespace {

thread_local World* current = nullptr;
// Some day, so that times near zero mean "never" as they do on a machine that has run for a while.
constexpr std::chrono::hours kBegin{1'000'000};

}  // namespace

Process::Process(World& world, std::string name) : world_(world), name_(std::move(name)) {}

Process::~Process() { Kill(); }

void Process::RunReady() {
  bool ran = !stopped_;
  while (ran) {
    ran = false;
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      loops_[i]->restart();
      if (loops_[i]->poll() > 0) ran = true;
    }
  }
}

void Process::Stop() {
  if (stopped_) return;
  stopped_ = true;
  stopped_since_ = world_.now();
}

void Process::Continue() {
  if (!stopped_) return;
  stopped_ = false;
  std::vector<std::function<void()>> events;
  events.swap(backlog_);
  for (const std::function<void()>& event : events) event();
  RunReady();
}

void Process::Deliver(std::function<void()> event) {
  if (stopped_) {
    backlog_.push_back(std::move(event));
    return;
  }
  event();
  RunReady();
}

void Process::Kill() {
  backlog_.clear();
  world_.DropWaitsOf(*this);
}

World::World(std::uint64_t seed) : now_(kBegin), random_(seed * 0x9E3779B97F4A7C15ULL + 1) {
  if (current != nullptr) throw std::logic_error("there is one world at a time");
  current = this;
}

World::~World() {
  queue_.clear();
  current = nullptr;
}

World* World::Current() { return current; }

// SplitMix64: small, and the same everywhere.
std::uint64_t World::Random(std::uint64_t below) {
  random_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t mixed = random_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
  mixed ^= mixed >> 31U;
  return below == 0 ? 0 : mixed % below;
}

bool World::Chance(double probability) {
  constexpr std::uint64_t kSteps = 1ULL << 32U;
  return static_cast<double>(Random(kSteps)) < probability * static_cast<double>(kSteps);
}

Duration World::Between(Duration least, Duration most) {
  const auto range = static_cast<std::uint64_t>((most - least).count()) + 1;
  return least + Duration(static_cast<Duration::rep>(Random(range)));
}

void World::At(TimePoint at, std::function<void()> event) {
  Event entry;
  entry.happens = std::move(event);
  queue_.emplace(Key{std::max(at, now_), next_++}, std::move(entry));
}

void World::RunUntil(TimePoint end) {
  while (!queue_.empty() && queue_.begin()->first.first <= end) {
    auto first = queue_.extract(queue_.begin());
    now_ = std::max(now_, first.key().first);
    ++events_;
    Fire(std::move(first.mapped()), true);
  }
  now_ = std::max(now_, end);
}

void World::Fire(Event event, bool came) {
  if (event.happens) {
    event.happens();
    return;
  }
  Process* process = event.process;
  auto wake = [event = std::make_shared<Event>(std::move(event)), came] {
    asio::post(event->executor, [ended = std::move(event->ended), came]() mutable { ended(came); });
  };
  if (came) {
    process->Deliver(std::move(wake));
  } else {
    wake();  // by the process itself, which runs
  }
}

void World::AddLoop(asio::io_context& loop) {
  if (builder_ == nullptr) throw std::logic_error("an IoPool belongs to a process");
  builder_->loops_.push_back(&loop);
  owners_[&loop] = builder_;
}

void World::RemoveLoop(asio::io_context& loop) {
  const auto owner = owners_.find(&loop);
  if (owner == owners_.end()) return;
  std::erase(owner->second->loops_, &loop);
  owners_.erase(owner);
}

Process& World::OwnerOf(const asio::any_io_executor& executor) {
  return *owners_.at(&asio::query(executor, asio::execution::context_as<asio::execution_context&>));
}

World::Key World::AddWait(TimePoint at, Process& process, asio::any_io_executor executor,
                          Ended ended) {
  const Key key{std::max(at, now_), next_++};
  Event entry;
  entry.process = &process;
  entry.executor = std::move(executor);
  entry.ended = std::move(ended);
  queue_.emplace(key, std::move(entry));
  return key;
}

void World::EndWait(const Key& key) {
  auto wait = queue_.extract(key);
  if (!wait.empty()) Fire(std::move(wait.mapped()), false);
}

void World::DropWaitsOf(const Process& process) {
  std::vector<Key> keys;
  for (const auto& [key, event] : queue_) {
    if (event.process == &process) keys.push_back(key);
  }
  // What ends with one may end others of them.
  for (const Key& key : keys) (void)queue_.extract(key);
}

}  // namespace sim

// The waits of programs, without time.

class Alarm::Impl {
 public:
  explicit Impl(asio::any_io_executor own) : executor(std::move(own)) {}

  const asio::any_io_executor executor;
  std::optional<sim::World::Key> armed;
};

Alarm::Alarm(asio::any_io_executor executor) : impl_(std::make_unique<Impl>(std::move(executor))) {}

Alarm::~Alarm() = default;

const asio::any_io_executor& Alarm::executor() const { return impl_->executor; }

Task<bool> Alarm::WaitUntil(TimePoint at) {
  auto initiate = [this, at](auto handler) {
    sim::World& world = *sim::World::Current();
    auto slot = asio::get_associated_cancellation_slot(handler);
    const sim::World::Key key =
        world.AddWait(at, world.OwnerOf(impl_->executor), impl_->executor, std::move(handler));
    impl_->armed = key;
    if (slot.is_connected())
      slot.assign([key](asio::cancellation_type) { sim::World::Current()->EndWait(key); });
  };
  const bool came = co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(bool)>(
      initiate, asio::use_awaitable);
  impl_->armed.reset();
  co_return came;
}

void Alarm::Cancel() {
  if (impl_->armed) sim::World::Current()->EndWait(*impl_->armed);
}

// The loops of programs, without threads.

struct IoPool::WorkGuards {};

IoPool::IoPool(std::string name, std::size_t threads) : name_(std::move(name)) {
  for (std::size_t i = 0; i < std::max<std::size_t>(threads, 1); ++i) {
    contexts_.push_back(std::make_unique<asio::io_context>(1));
    sim::World::Current()->AddLoop(*contexts_.back());
  }
}

IoPool::~IoPool() { Stop(); }

void IoPool::Start() {}

void IoPool::Stop() {
  for (const auto& context : contexts_) sim::World::Current()->RemoveLoop(*context);
}

std::string IoPool::ThreadName(std::size_t i) const { return name_ + std::to_string(i); }

asio::io_context& IoPool::Next() { return At(next_.fetch_add(1, std::memory_order_relaxed)); }

}  // namespace forebay

// The linker puts these in the place of the clocks and of the machine's own randomness
// (tests/sim/CMakeLists.txt). Both clocks are the time of the world: it is 2084 there.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's --wrap asks for these names
unsigned __wrap__ZNSt13random_device9_M_getvalEv(void*) {
  forebay::sim::World* world = forebay::sim::World::Current();
  return world == nullptr ? 4 : static_cast<unsigned>(world->Random(1ULL << 32U));
}
std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  const forebay::sim::World* world = forebay::sim::World::Current();
  return world == nullptr ? 0 : world->now().time_since_epoch().count();
}
std::int64_t __wrap__ZNSt6chrono3_V212system_clock3nowEv() {
  return __wrap__ZNSt6chrono3_V212steady_clock3nowEv();
}
// NOLINTEND(bugprone-reserved-identifier): as above
}
