#include "common/s3/credential_cache.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>

namespace forebay {

void CredentialCache::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "s3-credentials");
    Loop();
  });
}

void CredentialCache::Stop() {
  {
    std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  finished_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void CredentialCache::Loop() {
  std::unique_lock lock(mutex_);
  const auto is_wanted = [](const auto& item) { return item.second.wanted > item.second.begun; };
  for (;;) {
    wanted_.wait(lock, [&] { return stopping_ || std::ranges::any_of(entries_, is_wanted); });
    if (stopping_) return;
    const auto next = std::ranges::find_if(entries_, is_wanted);
    const std::string profile = next->first;
    next->second.begun = next->second.wanted;
    lock.unlock();
    Result<S3Credentials> loaded = chain_.Load(profile);
    lock.lock();
    Entry& entry = entries_[profile];
    entry.failed = !loaded.has_value();
    if (entry.failed) {
      entry.error = std::move(loaded.error());
    } else if (!entry.good || !entry.good->SameKeys(*loaded)) {
      entry.good = std::make_shared<const S3Credentials>(*std::move(loaded));
    }
    entry.looked_at = Clock::now();
    entry.finished = entry.begun;
    finished_.NotifyAll();
  }
}

std::uint64_t CredentialCache::WantLook(Entry& entry) {
  if (entry.wanted == entry.begun) {
    ++entry.wanted;
    wanted_.notify_one();
  }
  return entry.wanted;
}

std::optional<Result<CredentialCache::Ptr>> CredentialCache::AnswerOf(const std::string& profile,
                                                                      std::uint64_t look,
                                                                      bool keep_good) {
  std::scoped_lock lock(mutex_);
  const Entry& entry = entries_[profile];
  if (entry.finished >= look) {
    if (entry.failed && !(keep_good && entry.good)) return Fail(entry.error);
    return entry.good;
  }
  if (stopping_) return Fail(Code::kUnavailable, "the S3 client is stopping");
  return std::nullopt;
}

Task<Result<CredentialCache::Ptr>> CredentialCache::AwaitLook(std::string profile,
                                                              std::uint64_t look, bool keep_good,
                                                              Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = finished_.Enlist(executor);
    std::optional<Result<Ptr>> answer = AnswerOf(profile, look, keep_good);
    if (answer) co_return *std::move(answer);
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) {
      co_return Fail(Code::kUnavailable, "the S3 credentials could not be read in time");
    }
  }
}

Task<Result<CredentialCache::Ptr>> CredentialCache::Get(std::string profile, Deadline deadline) {
  std::uint64_t look = 0;
  Ptr good;
  {
    std::scoped_lock lock(mutex_);
    Entry& entry = entries_[profile];
    const bool old = Clock::now() - entry.looked_at >= recheck_every_;
    if (!entry.good || old) look = WantLook(entry);
    good = entry.good;
  }
  if (good) co_return good;
  Task<Result<Ptr>> answer = AwaitLook(std::move(profile), look, true, deadline);
  co_return co_await std::move(answer);
}

Task<Result<CredentialCache::Ptr>> CredentialCache::Newer(std::string profile, Ptr used,
                                                          Deadline deadline) {
  std::uint64_t look = 0;
  {
    std::scoped_lock lock(mutex_);
    Entry& entry = entries_[profile];
    const bool changed = entry.good && used && !entry.good->SameKeys(*used);
    if (!changed) look = WantLook(entry);
  }
  Task<Result<Ptr>> answer = AwaitLook(std::move(profile), look, false, deadline);
  co_return co_await std::move(answer);
}

}  // namespace forebay
