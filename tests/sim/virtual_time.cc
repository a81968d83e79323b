#include "tests/sim/virtual_time.h"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "common/base/alarm.h"
#include "common/base/executors.h"

namespace forebay {
namespace sim {
namespace {

thread_local World* current = nullptr;
// Some day, so that times near zero mean "never" as they do on a machine that has run for a while.
constexpr std::chrono::hours kBegin{1'000'000};

}  // namespace

Process::Process(World& world, std::string name)
    : world_(world), name_(std::move(name)), number_(world.NextProcess()) {}

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
  std::vector<std::move_only_function<void()>> events;
  events.swap(backlog_);
  for (auto& event : events) event();
  RunReady();
}

void Process::Deliver(std::move_only_function<void()> event) {
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
  // What ends with one may end others of them.
  for (std::size_t i = 0; i < slots_.size(); ++i)
    (void)Take(Key{static_cast<std::uint32_t>(i), slots_[i].number});
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

World::Key World::Add(TimePoint at, Event event) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const Key key{free_slots_.back(), next_++};
  free_slots_.pop_back();
  event.number = key.number;
  slots_[key.slot] = std::move(event);
  queue_.push(Due{std::max(at, now_), key.number, key.slot});
  return key;
}

// Nothing, where it has been taken already.
World::Event World::Take(const Key& key) {
  if (key.number == 0 || slots_[key.slot].number != key.number) return {};
  Event event = std::exchange(slots_[key.slot], Event());
  free_slots_.push_back(key.slot);
  return event;
}

void World::At(TimePoint at, std::move_only_function<void()> event) {
  Event entry;
  entry.happens = std::move(event);
  (void)Add(at, std::move(entry));
}

void World::RunUntil(TimePoint end) {
  while (!queue_.empty() && queue_.top().at <= end) {
    const Due due = queue_.top();
    queue_.pop();
    Event event = Take(Key{due.slot, due.number});
    if (event.number == 0) continue;
    now_ = std::max(now_, due.at);
    ++events_;
    Fire(std::move(event), true);
  }
  now_ = std::max(now_, end);
}

void World::Fire(Event event, bool came) {
  if (event.happens) {
    event.happens();
    return;
  }
  Process* process = event.process;
  auto wake = [loop = event.loop, ended = std::move(event.ended), came]() mutable {
    asio::post(loop->get_executor(), [ended = std::move(ended), came]() mutable { ended(came); });
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

asio::io_context& World::LoopOf(const asio::any_io_executor& executor) {
  asio::execution_context& context =
      asio::query(executor, asio::execution::context_as<asio::execution_context&>);
  return static_cast<asio::io_context&>(context);  // there is no other kind here
}

World::Key World::AddWait(TimePoint at, asio::io_context& loop, Ended ended) {
  Event entry;
  entry.process = &OwnerOf(loop);
  entry.loop = &loop;
  entry.ended = std::move(ended);
  return Add(at, std::move(entry));
}

void World::EndWait(const Key& key) {
  Event wait = Take(key);
  if (wait.number != 0) Fire(std::move(wait), false);
}

void World::DropWaitsOf(const Process& process) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].process == &process)
      keys.push_back(Key{static_cast<std::uint32_t>(i), slots_[i].number});
  }
  // What ends with one may end others of them.
  for (const Key& key : keys) (void)Take(key);
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
        world.AddWait(at, sim::World::LoopOf(impl_->executor), std::move(handler));
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
    // One thread for everything: no locks.
    contexts_.push_back(std::make_unique<asio::io_context>(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE));
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

// The linker puts these in the place of the clocks and of the machine's own randomness, which takes
// long to begin (tests/sim/CMakeLists.txt). Both clocks are the time of the world: it is 2084
// there.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's --wrap asks for these names
void __wrap__ZNSt13random_device7_M_initERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    void*, const void*) {}
void __wrap__ZNSt13random_device7_M_finiEv(void*) {}
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
