#include "tests/fakes/memory_object_store.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

namespace forebay {
namespace {

/// A token of an empty page: how many more come, and what stands behind them.
constexpr char kEmptyPage = '\x02';

struct EmptyToken {
  int left = 0;
  std::string behind;
};

EmptyToken ReadToken(const std::string& token, int left_at_first) {
  if (!token.starts_with(kEmptyPage)) return {.left = left_at_first, .behind = token};
  const std::size_t colon = token.find(':');
  return {.left = std::stoi(token.substr(1, colon - 1)), .behind = token.substr(colon + 1)};
}

}  // namespace

void MemoryObjectStore::Put(std::string key, std::uint64_t size, std::string etag) {
  std::scoped_lock lock(mutex_);
  ListedObject object;
  object.key = key;
  object.size = size;
  object.etag = etag.empty() ? "d41d8cd98f00b204e9800998ecf8427e" : std::move(etag);
  object.mtime_s = 1'700'000'000;
  object.storage_class = "STANDARD";
  objects_.insert_or_assign(std::move(key), std::move(object));
}

void MemoryObjectStore::Erase(const std::string& key) {
  std::scoped_lock lock(mutex_);
  objects_.erase(key);
}

std::size_t MemoryObjectStore::size() const {
  std::scoped_lock lock(mutex_);
  return objects_.size();
}

void MemoryObjectStore::SetListFault(Fault fault) {
  std::scoped_lock lock(mutex_);
  fault_ = std::move(fault);
}

void MemoryObjectStore::FailHeads(std::optional<Error> error) {
  std::scoped_lock lock(mutex_);
  head_error_ = std::move(error);
  good_heads_ = 0;
}

void MemoryObjectStore::FailHeadsAfter(int count, Error error) {
  std::scoped_lock lock(mutex_);
  head_error_ = std::move(error);
  good_heads_ = count;
}

void MemoryObjectStore::PutText(const std::string& key, const std::string& text) {
  Put(key, text.size());
  std::scoped_lock lock(mutex_);
  texts_[key] = text;
}

void MemoryObjectStore::ListBackwards() {
  std::scoped_lock lock(mutex_);
  backwards_ = true;
}

void MemoryObjectStore::ListEmptyPages(int count) {
  std::scoped_lock lock(mutex_);
  empty_pages_ = count;
}

void MemoryObjectStore::HangAfter(std::uint64_t lists) {
  std::scoped_lock lock(mutex_);
  hang_after_ = lists_ + lists;
}

void MemoryObjectStore::HangAfterHeads(std::uint64_t heads) {
  std::scoped_lock lock(mutex_);
  hang_after_heads_ = heads_ + heads;
}

void MemoryObjectStore::SetPosix(const std::string& key, PosixAttributes posix) {
  std::scoped_lock lock(mutex_);
  posix_[key] = posix;
  ++objects_.at(key).mtime_s;
}

std::uint64_t MemoryObjectStore::heads() const {
  std::scoped_lock lock(mutex_);
  return heads_;
}

void MemoryObjectStore::Interrupt() {
  {
    std::scoped_lock lock(mutex_);
    hang_after_.reset();
    hang_after_heads_.reset();
    hanging_ = false;
    heads_hanging_ = 0;
    ++interrupts_;
  }
  interrupted_.NotifyAll();
}

bool MemoryObjectStore::WaitUntilHanging() const {
  return WaitUntil([this] { return hanging_; });
}

bool MemoryObjectStore::WaitUntilHeadsHang(std::uint64_t count) const {
  return WaitUntil([this, count] { return heads_hanging_ >= count; });
}

bool MemoryObjectStore::WaitUntil(const std::function<bool()>& holds) const {
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (!deadline.Expired()) {
    {
      std::scoped_lock lock(mutex_);
      if (holds()) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

std::uint64_t MemoryObjectStore::most_heads_hanging() const {
  std::scoped_lock lock(mutex_);
  return most_heads_hanging_;
}

/// True when the call hung and was interrupted.
Task<bool> MemoryObjectStore::Hang(const std::optional<std::uint64_t>& after,
                                   const std::uint64_t& calls) {
  std::uint64_t before = 0;
  {
    std::scoped_lock lock(mutex_);
    if (!after || calls < *after) co_return false;
    hanging_ = true;
    before = interrupts_;
    if (&calls == &heads_) most_heads_hanging_ = std::max(most_heads_hanging_, ++heads_hanging_);
  }
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = interrupted_.Enlist(executor);
    {
      std::scoped_lock lock(mutex_);
      if (interrupts_ != before) co_return true;
    }
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
}

std::uint64_t MemoryObjectStore::lists() const {
  std::scoped_lock lock(mutex_);
  return lists_;
}

Task<void> MemoryObjectStore::Yield() {
  std::uint64_t times = 0;
  {
    std::scoped_lock lock(mutex_);
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    times = (random_ >> 33) % 4;
  }
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (std::uint64_t i = 0; i < times; ++i) co_await asio::post(executor, asio::use_awaitable);
}

Task<Status> MemoryObjectStore::Get(GetRequest request, BodySink& sink, Deadline) {
  co_await Yield();
  const Buffer zeros(request.length);
  std::optional<std::string> text;
  {
    std::scoped_lock lock(mutex_);
    const auto known = texts_.find(request.key);
    if (known != texts_.end()) text = known->second.substr(request.offset, request.length);
  }
  sink.OnAttempt();
  sink.OnData(text ? std::as_bytes(std::span(*text)) : zeros.view());
  co_return Status();
}

Task<Result<ListPage>> MemoryObjectStore::List(ListRequest request, Deadline) {
  co_await Yield();
  const bool interrupted = co_await Hang(hang_after_, lists_);
  if (interrupted) co_return Fail(Code::kUnavailable, "the store was interrupted");
  Result<ListPage> page = Page(request);
  co_await Yield();
  co_return page;
}

Result<ListPage> MemoryObjectStore::Page(const ListRequest& request) {
  std::scoped_lock lock(mutex_);
  ++lists_;
  if (fault_) {
    std::optional<Error> error = fault_(request);
    if (error) return Fail(std::move(*error));
  }
  if (request.origin.bucket != bucket_) {
    return Fail(Code::kNotFound, "there is no bucket '" + request.origin.bucket + "'");
  }
  ListPage page;
  const auto [left, continuation] = ReadToken(request.continuation, empty_pages_);
  if (left > 0) {
    page.next = kEmptyPage + std::to_string(left - 1) + ":" + continuation;
    return page;
  }
  const std::string& after =
      std::max(continuation.empty() ? request.start_after : continuation, request.prefix);
  for (auto it = objects_.lower_bound(after); it != objects_.end(); ++it) {
    const bool skipped = it->first == request.start_after || it->first == continuation;
    if (skipped) continue;
    if (!it->first.starts_with(request.prefix)) break;
    if (page.objects.size() == request.max_keys) {
      page.next = page.objects.back().key;
      break;
    }
    page.objects.push_back(it->second);
  }
  if (backwards_) std::ranges::reverse(page.objects);
  return page;
}

Task<Result<VersionPage>> MemoryObjectStore::ListVersions(VersionsRequest, Deadline) {
  co_return Fail(Code::kInvalid, "this store keeps no versions");
}

Task<Result<ObjectHead>> MemoryObjectStore::Head(HeadRequest request, Deadline) {
  const std::string key = std::move(request.key);
  co_await Yield();
  const bool interrupted = co_await Hang(hang_after_heads_, heads_);
  if (interrupted) co_return Fail(Code::kUnavailable, "the store was interrupted");
  std::scoped_lock lock(mutex_);
  ++heads_;
  if (head_error_ && good_heads_-- <= 0) co_return Fail(*head_error_);
  const auto object = objects_.find(key);
  if (object == objects_.end()) co_return Fail(Code::kNotFound, "there is no object '" + key + "'");
  ObjectHead head;
  head.size = object->second.size;
  head.etag = object->second.etag;
  head.mtime_s = object->second.mtime_s;
  if (const auto posix = posix_.find(key); posix != posix_.end()) head.posix = posix->second;
  co_return head;
}

}  // namespace forebay
