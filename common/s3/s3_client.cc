#include "common/s3/s3_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "common/s3/answer_readers.h"
#include "common/s3/s3_request.h"

namespace forebay {
namespace {

// Error bodies are a few hundred bytes; of anything longer the beginning says what it is.
constexpr std::size_t kMaxErrorBytes = std::size_t{64} * 1024;
// Answers that contradict themselves are rarely better the next time.
constexpr int kBadAnswersMax = 3;

double UniformRandom() {
  thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

// What a request says about its further attempts; null where its kind says nothing.
struct RequestPace {
  const std::function<Task<Status>(Deadline)>* before_retry = nullptr;
  const std::function<void()>* on_throttled = nullptr;
  const std::function<Task<bool>(RetryReason)>* before_pause = nullptr;
};

}  // namespace

// One call with all its attempts. Lives in the frame of the call's coroutine.
struct S3Client::Call {
  S3Operation operation;
  const LinkOrigin& origin;
  std::string_view key;  // the prefix of a LIST
  const S3Request& request;
  AnswerReader& reader;
  CallStats* stats;
  RetrySchedule& schedule;
  RequestPace pace;           // of who asks
  RequestGovernor* governor;  // of all who ask so; null: nobody bounds them

  asio::any_io_executor executor = {};  // the caller's
  CredentialCache::Ptr credentials = nullptr;
  std::string ca_bundle = {};
  std::optional<Failure> failure = std::nullopt;  // of the attempt before
  int bad_answers = 0;
  bool asked_for_newer_credentials = false;
  bool has_asked = false;  // S3, at least once
  std::string why_none_newer = {};
  const TimePoint began = Clock::now();
  std::optional<S3Waits::Place> waits = std::nullopt;

  // Nothing when there is to be no retry. Counts the failure.
  std::optional<Duration> WaitBeforeRetry() {
    if (failure->reason == RetryReason::kThrottled) {
      if (stats != nullptr) ++stats->throttled;
      if (pace.on_throttled != nullptr && *pace.on_throttled) (*pace.on_throttled)();
      if (governor != nullptr) governor->NoteThrottled(origin);
    }
    switch (failure->next) {
      case NextStep::kGiveUp:
        return std::nullopt;
      case NextStep::kNewCredentials:
        return Duration::zero();
      case NextStep::kAwaitNewerCredentials:
        // They may be there already.
        if (!std::exchange(asked_for_newer_credentials, true)) return Duration::zero();
        break;
      case NextStep::kRetryFewTimes:
        if (++bad_answers >= kBadAnswersMax) return std::nullopt;
        break;
      case NextStep::kRetry:
        break;
    }
    return schedule.Next(failure->reason, Clock::now());
  }

  // The caller's answer, where there is no further attempt.
  Error LastError() {
    Error error = std::move(failure->error);
    const bool awaits = failure->next == NextStep::kAwaitNewerCredentials;
    if (awaits && !why_none_newer.empty())
      error.message += "; looking for newer ones: " + why_none_newer;
    return error;
  }

  S3Question Question() const { return {operation, origin, key, credentials.get()}; }
};

// Hears of one attempt. What it heard is read after the transfer was detached, on the caller's
// side.
class S3Client::Attempt final : public HttpListener {
 public:
  explicit Attempt(AnswerReader& reader) : reader_(reader) {}

  Notifier::Ticket Enlist(const asio::any_io_executor& executor) { return ended_.Enlist(executor); }

  bool OnHead(const ResponseHead& head) override {
    head_ = head;
    if (Succeeded()) verdict_ = reader_.OnHead(head);
    return verdict_.has_value();
  }
  bool OnBody(ByteView bytes) override {
    if (Succeeded()) {
      verdict_ = reader_.OnBody(bytes);
    } else if (error_text_.size() < kMaxErrorBytes) {
      AppendText(error_text_, bytes);
    }
    return verdict_.has_value();
  }
  void OnEnd(TransportEnd end) override {
    end_ = std::move(end);
    ended_.NotifyAll();
  }

  bool Ended() const { return end_.has_value(); }
  // For want of the right file of certificates. Only when it has ended.
  bool FoundNoTrust() const {
    return end_->kind == TransportEnd::Kind::kUntrusted ||
           end_->kind == TransportEnd::Kind::kNoBundle;
  }

  // Nothing when the reader has the whole, right answer. Only when it has ended.
  std::optional<Failure> Judge(const S3Question& question) {
    if (!verdict_) return FailureOfContent(question, verdict_.error());
    if (end_->kind != TransportEnd::Kind::kComplete) return FailureOfTransport(question, *end_);
    if (!Succeeded()) return FailureOfAnswer(question, head_, ParseErrorBody(error_text_));
    const Status finished = reader_.Finish();
    if (finished) return std::nullopt;
    if (IsErrorBody(reader_.Text())) {
      return FailureOfAnswer(question, head_, ParseErrorBody(reader_.Text()));
    }
    return FailureOfContent(question, finished.error());
  }

 private:
  bool Succeeded() const { return head_.status >= 200 && head_.status < 300; }

  AnswerReader& reader_;
  Notifier ended_;
  ResponseHead head_;
  Status verdict_;
  std::string error_text_;
  std::optional<TransportEnd> end_;
};

S3Client::S3Client(S3Options options, CredentialChain chain)
    : options_(std::move(options)),
      credentials_(std::move(chain), options_.credentials_recheck),
      expired_(options_.credentials_recheck),
      bundles_(options_.ca_bundle_of, options_.credentials_recheck),
      engine_(options_.http) {}

S3Client::~S3Client() { Stop(); }

void S3Client::Start() {
  credentials_.Start();
  bundles_.Start();
  engine_.Start();
}

void S3Client::Stop() {
  stopping_.store(true, std::memory_order_release);
  stopped_.NotifyAll();
  engine_.Stop();
  bundles_.Stop();
  credentials_.Stop();
}

RetryTokens& S3Client::TokensOf(const LinkOrigin& origin) {
  std::scoped_lock lock(tokens_mutex_);
  return tokens_[{origin.endpoint, origin.bucket}];
}

void S3Client::CountEnd(S3Operation operation, const Status& status) {
  const auto index = static_cast<std::size_t>(operation);
  if (status) {
    counters_.succeeded[index].fetch_add(1, std::memory_order_relaxed);
  } else {
    const auto code = static_cast<std::size_t>(status.error().code) - 1;
    counters_.failed[index][code].fetch_add(1, std::memory_order_relaxed);
  }
}

void S3Client::NoteWaiting(Call& call, RetryReason reason, const std::string& why) {
  if (reason == RetryReason::kThrottled) {
    call.waits.reset();
    return;
  }
  if (!call.waits) call.waits.emplace(waits_, call.origin, call.began);
  call.waits->Note(why);
}

Task<std::optional<Failure>> S3Client::TryOnce(Call& call, Deadline deadline) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  HttpRequest http = SignedRequest(call.request, call.credentials.get(), now);
  http.fresh_connection = call.failure && (call.failure->reason == RetryReason::kNetwork ||
                                           call.failure->reason == RetryReason::kDns ||
                                           call.failure->reason == RetryReason::kTimeout);
  http.ca_bundle = call.ca_bundle;
  if (call.stats != nullptr) ++call.stats->attempts;
  Attempt attempt(call.reader);
  Notifier::Ticket ticket = attempt.Enlist(call.executor);
  CurlEngine::Transfer transfer = engine_.Submit(std::move(http), attempt);
  co_await ticket.Wait(deadline);
  transfer.Detach();
  if (attempt.Ended()) {
    // Who corrects it wants the next call to see it.
    if (attempt.FoundNoTrust()) bundles_.Forget(call.origin.profile);
    co_return attempt.Judge(call.Question());
  }

  Failure failure;
  if (!deadline.Expired()) {
    failure.error = Error{Code::kTimeout, "the S3 request was cancelled"};
  } else if (call.failure) {
    failure.error = call.LastError();
  } else {
    failure = FailureOfTransport(call.Question(),
                                 {TransportEnd::Kind::kStopped, "no answer until the deadline"});
  }
  co_return failure;
}

Task<Status> S3Client::UseNewerCredentials(Call& call, Deadline deadline) {
  if (call.asked_for_newer_credentials) co_return Fail(call.failure->error);
  call.asked_for_newer_credentials = true;
  Task<Result<CredentialCache::Ptr>> look =
      credentials_.Newer(call.origin.profile, call.credentials, deadline);
  Result<CredentialCache::Ptr> newer = co_await std::move(look);
  if (!newer) {
    Error error = call.failure->error;
    error.message += "; looking for newer ones: " + newer.error().message;
    co_return Fail(std::move(error));
  }
  if ((*newer)->SameKeys(*call.credentials)) co_return Fail(call.failure->error);
  call.credentials = *std::move(newer);
  co_return Status{};
}

Task<Status> S3Client::AwaitNewerCredentials(Call& call, Duration wait, Deadline deadline) {
  // A look is cheap, and one serves all who wait.
  if (options_.credentials_recheck > Duration::zero())
    wait = std::min(wait, options_.credentials_recheck);
  Status waited = co_await WaitFor(call, wait);
  if (!waited) co_return waited;
  Task<Result<CredentialCache::Ptr>> look =
      credentials_.Newer(call.origin.profile, call.credentials, deadline);
  Result<CredentialCache::Ptr> found = co_await std::move(look);
  const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none)
    co_return Fail(Code::kTimeout, "the S3 request was cancelled");
  // Whatever is wrong with the source: it may be in the middle of being written.
  // A look that our own patience has ended says no more than that; the one before said why.
  const bool cut = !found && deadline.Expired() && !call.why_none_newer.empty();
  if (!cut) call.why_none_newer = found ? "" : found.error().message;
  if (found) call.credentials = *std::move(found);
  co_return Status{};
}

Task<Status> S3Client::WaitFor(Call& call, Duration wait) {
  const Deadline until = Deadline::After(wait);
  Notifier::Ticket ticket = stopped_.Enlist(call.executor);
  bool stopped = stopping_.load(std::memory_order_acquire);
  if (!stopped) stopped = co_await ticket.Wait(until);
  if (stopped) co_return Fail(Code::kUnavailable, "the S3 client is stopping");
  if (!until.Expired()) co_return Fail(Code::kTimeout, "the S3 request was cancelled");
  co_return Status{};
}

Task<Status> S3Client::FindCredentials(Call& call, Deadline deadline) {
  for (;;) {
    Task<Result<CredentialCache::Ptr>> look = credentials_.Get(call.origin.profile, deadline);
    Result<CredentialCache::Ptr> found = co_await std::move(look);
    if (found) {
      call.credentials = *std::move(found);
      co_return Status{};
    }
    // Who hands out keys may be away like S3 itself: readers wait.
    std::optional<Duration> wait;
    if (found.error().code == Code::kUnavailable) {
      wait = call.schedule.Next(RetryReason::kCredentials, Clock::now());
    }
    if (!wait) {
      co_return Fail(found.error().Within(
          fmt::format("s3://{} at {}", call.origin.bucket, call.origin.endpoint)));
    }
    NoteWaiting(call, RetryReason::kCredentials, found.error().message);
    const bool is_over = co_await IsOver(call, RetryReason::kCredentials);
    if (is_over) co_return Fail(std::move(found.error()));
    Status waited = co_await WaitFor(call, *wait);
    if (!waited) co_return waited;
  }
}

// The caller has what it wanted, or wants it no more.
Task<bool> S3Client::IsOver(Call& call, RetryReason reason) {
  if (call.pace.before_pause == nullptr || !*call.pace.before_pause) co_return false;
  const bool is_over = co_await (*call.pace.before_pause)(reason);
  if (is_over) call.schedule.Drop();
  co_return is_over;
}

Task<Status> S3Client::FindBundle(Call& call, Deadline deadline) {
  if (call.request.scheme != "https") co_return Status{};
  Task<Result<std::string>> look = bundles_.Of(call.origin.profile, deadline);
  Result<std::string> bundle = co_await std::move(look);
  if (!bundle) {
    co_return Fail(bundle.error().Within(
        fmt::format("s3://{} at {}", call.origin.bucket, call.origin.endpoint)));
  }
  call.ca_bundle = *std::move(bundle);
  co_return Status{};
}

Task<Status> S3Client::MayAsk(Call& call, Deadline deadline) {
  Status may;
  if (call.governor != nullptr) {
    may = co_await call.governor->Pass(call.origin, deadline);
  } else if (call.has_asked && call.pace.before_retry != nullptr && *call.pace.before_retry) {
    may = co_await (*call.pace.before_retry)(deadline);
  }
  co_return may;
}

Task<Status> S3Client::Ask(Call& call, Deadline deadline) {
  // Calls that wait for newer keys do not all ask S3 with the old ones.
  if (call.credentials && expired_.Holds(call.origin, *call.credentials)) {
    const bool was_told = call.failure && call.failure->next == NextStep::kAwaitNewerCredentials;
    if (!was_told) call.failure = FailureOfExpiredKeys(call.Question());
    co_return Status{};
  }
  Status may = co_await MayAsk(call, deadline);
  if (!may) co_return may;
  if (call.has_asked) {
    const auto reason = static_cast<std::size_t>(call.failure->reason);
    counters_.retries[reason].fetch_add(1, std::memory_order_relaxed);
  }
  const bool was_expired = call.failure && call.failure->next == NextStep::kAwaitNewerCredentials;
  call.has_asked = true;
  call.failure = co_await TryOnce(call, deadline);
  const bool is_expired = call.failure && call.failure->next == NextStep::kAwaitNewerCredentials;
  if (is_expired) expired_.Note(call.origin, call.credentials);
  if (was_expired && !call.failure) expired_.Forget(call.origin);
  co_return Status{};
}

Task<Status> S3Client::Run(Call& call, Deadline deadline) {
  call.executor = co_await asio::this_coro::executor;
  if (call.origin.sign) {
    Status found = co_await FindCredentials(call, deadline);
    if (!found) co_return found;
  }
  Status found = co_await FindBundle(call, deadline);
  if (!found) co_return found;
  for (;;) {
    Status asked = co_await Ask(call, deadline);
    if (!asked) co_return asked;
    if (!call.failure) break;
    const std::optional<Duration> wait = call.WaitBeforeRetry();
    // No co_await from here to the end of a call that was cancelled: it would throw.
    if (!wait) co_return Fail(call.LastError());
    NoteWaiting(call, call.failure->reason, call.failure->error.message);
    if (*wait > Duration::zero()) {
      const bool is_over = co_await IsOver(call, call.failure->reason);
      if (is_over) co_return Fail(call.LastError());
    }
    Status ready;
    if (call.failure->next == NextStep::kNewCredentials) {
      ready = co_await UseNewerCredentials(call, deadline);
    } else if (call.failure->next == NextStep::kAwaitNewerCredentials) {
      ready = co_await AwaitNewerCredentials(call, *wait, deadline);
    } else {
      ready = co_await WaitFor(call, *wait);
      // A call may outlive the keys that it began with.
      if (ready && call.origin.sign) ready = co_await FindCredentials(call, deadline);
    }
    if (!ready) co_return ready;
  }
  call.schedule.Succeeded();
  co_return Status{};
}

Task<Status> S3Client::Get(GetRequest request, BodySink& sink, Deadline deadline) {
  Result<S3Request> built = GetObjectRequest(request);
  const S3Operation operation =
      request.version.empty() ? S3Operation::kGet : S3Operation::kGetVersion;
  Status status;
  if (built) {
    GetReader reader(request, sink, counters_.checksums);
    RetrySchedule schedule(options_.retry, TokensOf(request.origin), deadline, UniformRandom);
    Call call{operation,   request.origin,
              request.key, *built,
              reader,      request.stats,
              schedule,    {&request.before_retry, &request.on_throttled, &request.before_pause},
              nullptr};
    status = co_await Run(call, deadline);
  } else {
    status = Fail(std::move(built.error()));
  }
  CountEnd(operation, status);
  if (status) counters_.get_bytes.fetch_add(request.length, std::memory_order_relaxed);
  co_return status;
}

Task<Result<ListPage>> S3Client::List(ListRequest request, Deadline deadline) {
  Result<S3Request> built = ListObjectsRequest(request);
  ListReader reader(request);
  Status status;
  if (built) {
    RetrySchedule schedule(options_.retry, TokensOf(request.origin), deadline, UniformRandom);
    Call call{S3Operation::kList,
              request.origin,
              request.prefix,
              *built,
              reader,
              request.stats,
              schedule,
              {},
              options_.governor};
    status = co_await Run(call, deadline);
  } else {
    status = Fail(std::move(built.error()));
  }
  CountEnd(S3Operation::kList, status);
  if (!status) co_return Fail(std::move(status.error()));
  co_return reader.Take();
}

Task<Result<VersionPage>> S3Client::ListVersions(VersionsRequest request, Deadline deadline) {
  Result<S3Request> built = ListVersionsRequest(request);
  VersionsReader reader(request);
  Status status;
  if (built) {
    RetrySchedule schedule(options_.retry, TokensOf(request.origin), deadline, UniformRandom);
    Call call{S3Operation::kVersions,
              request.origin,
              request.key,
              *built,
              reader,
              request.stats,
              schedule,
              {&request.before_retry, &request.on_throttled},
              options_.governor};
    status = co_await Run(call, deadline);
  } else {
    status = Fail(std::move(built.error()));
  }
  CountEnd(S3Operation::kVersions, status);
  if (!status) co_return Fail(std::move(status.error()));
  co_return reader.Take();
}

Task<Result<ObjectHead>> S3Client::Head(HeadRequest request, Deadline deadline) {
  Result<S3Request> built = HeadObjectRequest(request);
  const S3Operation operation =
      request.version.empty() ? S3Operation::kHead : S3Operation::kHeadVersion;
  HeadReader reader;
  Status status;
  if (built) {
    RetrySchedule schedule(options_.retry, TokensOf(request.origin), deadline, UniformRandom);
    Call call{operation, request.origin, request.key, *built,           reader,
              nullptr,   schedule,       {},          options_.governor};
    status = co_await Run(call, deadline);
  } else {
    status = Fail(std::move(built.error()));
  }
  CountEnd(operation, status);
  if (!status) co_return Fail(std::move(status.error()));
  co_return reader.Take();
}

}  // namespace forebay
