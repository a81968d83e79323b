#include "tests/fakes/scripted_object_store.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/executors.h"
#include "tests/fakes/sample_link.h"

namespace forebay::fakes {
namespace {

// Pieces that end in the middle of cells.
constexpr std::uint64_t kPiece = 30'000;

}  // namespace

void ScriptedObjectStore::OnGet(std::function<GetScript(const GetRequest&)> script) {
  const std::scoped_lock lock(mutex_);
  script_ = std::move(script);
  released_ = false;
}

void ScriptedObjectStore::OnVersions(Versions versions) {
  const std::scoped_lock lock(mutex_);
  versions_ = std::move(versions);
}

void ScriptedObjectStore::OnHead(std::function<Status()> script) {
  const std::scoped_lock lock(mutex_);
  head_ = std::move(script);
}

void ScriptedObjectStore::Release() {
  {
    const std::scoped_lock lock(mutex_);
    released_ = true;
  }
  changed_.NotifyAll();
}

void ScriptedObjectStore::Interrupt() {
  {
    const std::scoped_lock lock(mutex_);
    interrupted_ = true;
  }
  changed_.NotifyAll();
}

void ScriptedObjectStore::Resume() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = false;
}

bool ScriptedObjectStore::WaitForHeld(std::uint64_t count) const {
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (held_.load() < count) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::optional<GetRequest> ScriptedObjectStore::last() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

std::vector<ScriptedObjectStore::Range> ScriptedObjectStore::ranges() const {
  const std::scoped_lock lock(mutex_);
  return ranges_;
}

Task<Status> ScriptedObjectStore::Hold(Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  held_.fetch_add(1);
  for (;;) {
    Notifier::Ticket ticket = changed_.Enlist(executor);
    {
      const std::scoped_lock lock(mutex_);
      if (interrupted_) co_return Fail(Code::kUnavailable, "the store is stopping");
      if (released_) co_return Status();
    }
    const bool changed = co_await ticket.Wait(deadline);
    if (!changed) co_return Fail(Code::kUnavailable, "S3 at test does not answer");
  }
}

Task<Status> ScriptedObjectStore::Deliver(const GetRequest& request, const GetScript& script,
                                          BodySink& sink, Deadline deadline) {
  if (script.broken_attempt > 0) {
    Buffer wrong(script.broken_attempt);
    std::fill_n(wrong.data(), wrong.size(), std::byte{0xEE});
    sink.OnAttempt();
    sent_bytes_ += wrong.size();
    sink.OnData(wrong.view());
    if (request.stats != nullptr) request.stats->attempts = 2;
    if (request.before_retry) {
      Status may = co_await request.before_retry(deadline);
      if (!may) co_return may;
    }
  }
  sink.OnAttempt();
  bool held = false;
  for (std::uint64_t done = 0; done < request.length;) {
    if (!held && done >= script.hold_after) {
      held = true;
      Status go_on = co_await Hold(deadline);
      if (!go_on) co_return go_on;
      if (script.error) co_return Fail(*script.error);
    }
    const std::uint64_t until = held ? request.length : std::min(request.length, script.hold_after);
    const std::uint64_t size = std::min(kPiece, until - done);
    const auto bytes = SampleLink::Bytes(request.key, request.offset + done, size);
    sent_bytes_ += size;
    sink.OnData(bytes->view());
    done += size;
  }
  co_return Status();
}

Task<bool> ScriptedObjectStore::FindS3(const GetRequest* request, const GetScript* script,
                                       Deadline deadline) {
  for (std::uint64_t attempt = 0; attempt < script->unanswered; ++attempt) {
    if (request->before_pause) {
      const bool is_over = co_await request->before_pause(script->why_unanswered);
      if (is_over) co_return false;
    }
    if (request->stats != nullptr) ++request->stats->attempts;
    co_await SleepFor(std::chrono::milliseconds(1));
    if (deadline.Expired()) co_return false;
  }
  co_return true;
}

Task<Status> ScriptedObjectStore::Get(GetRequest request, BodySink& sink, Deadline deadline) {
  GetScript script;
  {
    const std::scoped_lock lock(mutex_);
    last_ = request;
    ranges_.push_back({request.offset, request.length});
    if (interrupted_) co_return Fail(Code::kUnavailable, "the store is stopping");
    if (script_) script = script_(request);
  }
  gets_.fetch_add(1);
  const std::uint64_t running = running_.fetch_add(1) + 1;
  std::uint64_t most = most_.load();
  while (running > most && !most_.compare_exchange_weak(most, running)) {
  }
  if (request.stats != nullptr) request.stats->attempts = 1;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_await asio::post(executor, asio::use_awaitable);
  Status done;
  const bool found = co_await FindS3(&request, &script, deadline);
  if (!found) {
    done = Fail(Code::kUnavailable, "S3 at test does not answer");
  } else if (script.error && script.hold_after == GetScript::kNever) {
    done = Fail(*script.error);
  } else {
    done = co_await Deliver(request, script, sink, deadline);
  }
  running_.fetch_sub(1);
  co_return done;
}

Task<Result<ListPage>> ScriptedObjectStore::List(ListRequest, Deadline) {
  co_return Fail(Code::kInvalid, "this store cannot list");
}

Task<Result<VersionPage>> ScriptedObjectStore::ListVersions(VersionsRequest request, Deadline) {
  version_lists_.fetch_add(1);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_await asio::post(executor, asio::use_awaitable);
  const std::scoped_lock lock(mutex_);
  co_return versions_ ? versions_(request) : VersionPage();
}

Task<Result<ObjectHead>> ScriptedObjectStore::Head(HeadRequest, Deadline) {
  heads_.fetch_add(1);
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_await asio::post(executor, asio::use_awaitable);
  const std::scoped_lock lock(mutex_);
  Status head = Fail(Code::kInvalid, "this store knows no HEAD");
  if (head_) head = head_();
  if (!head) co_return Fail(head.error());
  co_return ObjectHead();
}

}  // namespace forebay::fakes
