#include "common/s3/credential_cache.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

namespace forebay {
namespace {

using SystemClock = std::chrono::system_clock;

// So many profiles can be asked for at once: a slow one does not hold up the others.
constexpr std::size_t kThreads = 4;
// The AWS SDKs renew five minutes ahead.
constexpr SystemClock::duration kAhead = std::chrono::minutes(5);

bool HasExpired(const S3Credentials& credentials) {
  return credentials.expires && SystemClock::now() >= *credentials.expires;
}

}  // namespace

void CredentialCache::Start() {
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "s3-credentials");
      Loop();
    });
  }
}

void CredentialCache::Stop() {
  {
    std::scoped_lock lock(mutex_);
    stopping_.request_stop();
  }
  wanted_.notify_all();
  finished_.NotifyAll();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void CredentialCache::Reload() {
  std::scoped_lock lock(mutex_);
  for (auto& [profile, entry] : entries_) WantLook(entry, true);
}

void CredentialCache::Loop() {
  std::unique_lock lock(mutex_);
  const auto is_wanted = [](const auto& item) {
    return item.second.wanted > item.second.begun && !item.second.running;
  };
  for (;;) {
    wanted_.wait(lock, [&] {
      return stopping_.stop_requested() || std::ranges::any_of(entries_, is_wanted);
    });
    if (stopping_.stop_requested()) return;
    const std::string profile = std::ranges::find_if(entries_, is_wanted)->first;
    Look(profile, lock);
  }
}

void CredentialCache::Look(const std::string& profile, std::unique_lock<std::mutex>& lock) {
  Entry& entry = entries_[profile];  // entries are never removed
  entry.begun = entry.wanted;
  entry.running = true;
  const bool forced = std::exchange(entry.forced, false) || !entry.good || entry.good->local ||
                      (entry.good->expires && SystemClock::now() >= entry.renew_at);
  const std::string before = entry.stamp;
  lock.unlock();
  // Before the files are read: what changes from now on is seen by the next look.
  std::string stamp = chain_.Stamp();
  std::optional<Result<S3Credentials>> loaded;
  if (forced || stamp != before) loaded = chain_.Load(profile, stopping_.get_token());
  lock.lock();
  if (loaded) {
    if (*loaded) entry.stamp = std::move(stamp);
    Keep(entry, *std::move(loaded), profile);
  }
  entry.looked_at = Clock::now();
  entry.finished = entry.begun;
  entry.running = false;
  finished_.NotifyAll();
  wanted_.notify_all();  // somebody may have wanted another look meanwhile
}

void CredentialCache::Keep(Entry& entry, Result<S3Credentials> loaded, const std::string& profile) {
  const bool failed_before = std::exchange(entry.failed, !loaded.has_value());
  if (entry.failed) {
    entry.error = std::move(loaded.error());
    if (entry.good && !failed_before) {
      spdlog::warn(
          "{}; the keys in use (key id {} from {}) stay until they expire or S3 refuses "
          "them",
          entry.error.message, entry.good->key_id, entry.good->provider);
    }
    return;
  }
  if (entry.good && failed_before) {
    spdlog::info("the S3 credentials{} can be read again: key id {} from {}",
                 profile.empty() ? "" : fmt::format(" of profile '{}'", profile), loaded->key_id,
                 loaded->provider);
  }
  entry.loaded_at = Clock::now();
  if (loaded->expires) {
    const SystemClock::time_point now = SystemClock::now();
    const SystemClock::duration life = *loaded->expires - now;
    entry.renew_at = *loaded->expires - std::min(kAhead, life / 4);
  }
  const bool same =
      entry.good && entry.good->SameKeys(*loaded) && entry.good->expires == loaded->expires;
  if (!same) entry.good = std::make_shared<const S3Credentials>(*std::move(loaded));
}

std::uint64_t CredentialCache::WantLook(Entry& entry, bool forced) {
  entry.forced |= forced;
  if (entry.wanted == entry.begun) {
    ++entry.wanted;
    wanted_.notify_all();
  }
  return entry.wanted;
}

std::optional<Result<CredentialCache::Ptr>> CredentialCache::AnswerOf(const std::string& profile,
                                                                      std::uint64_t look) {
  std::scoped_lock lock(mutex_);
  const Entry& entry = entries_[profile];
  if (entry.finished >= look) {
    if (entry.failed) return Fail(entry.error);
    return entry.good;
  }
  if (stopping_.stop_requested()) return Fail(Code::kUnavailable, "the S3 client is stopping");
  return std::nullopt;
}

Task<Result<CredentialCache::Ptr>> CredentialCache::AwaitLook(std::string profile,
                                                              std::uint64_t look,
                                                              Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (;;) {
    Notifier::Ticket ticket = finished_.Enlist(executor);
    std::optional<Result<Ptr>> answer = AnswerOf(profile, look);
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
  bool useless = false;
  {
    std::scoped_lock lock(mutex_);
    Entry& entry = entries_[profile];
    good = entry.good;
    const bool old = Clock::now() - entry.looked_at >= recheck_every_;
    // Expired keys that came so from their source a moment ago are for S3 to judge: this machine's
    // clock may be wrong.
    useless = !good || (HasExpired(*good) && (old || entry.failed));
    if (useless || old) look = WantLook(entry, useless);
  }
  if (!useless) co_return good;
  Task<Result<Ptr>> answer = AwaitLook(std::move(profile), look, deadline);
  Result<Ptr> found = co_await std::move(answer);
  if (!found && good) {
    // Where there were good keys, whatever is wrong with their source may pass: it may be late, or
    // in the middle of being written.
    const Error error = found.error().Within(
        fmt::format("the keys in use (key id {} from {}) have expired and there are no newer ones",
                    good->key_id, good->provider));
    co_return Fail(Code::kUnavailable, error.message);
  }
  co_return found;
}

Task<Result<CredentialCache::Ptr>> CredentialCache::Newer(std::string profile, Ptr used,
                                                          Deadline deadline) {
  std::uint64_t look = 0;
  Ptr good;
  {
    std::scoped_lock lock(mutex_);
    Entry& entry = entries_[profile];
    good = entry.good;
    const bool changed = good && used && !good->SameKeys(*used);
    // Refused requests must not become a storm of questions to those who hand out keys.
    const bool fresh = good && !good->local && Clock::now() - entry.loaded_at < recheck_every_;
    if (!changed && !fresh) look = WantLook(entry, true);
    if (look == 0 && good) co_return good;
  }
  Task<Result<Ptr>> answer = AwaitLook(std::move(profile), look, deadline);
  co_return co_await std::move(answer);
}

}  // namespace forebay
