#include "common/s3/s3_client.h"

#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "common/s3/list_parser.h"
#include "common/s3/object_checksum.h"
#include "common/s3/response_checks.h"
#include "common/s3/s3_request.h"

namespace forebay {
namespace {

// A page of 1000 keys of 1 KiB, every byte escaped, is 4 MB.
constexpr std::size_t kMaxListBytes = std::size_t{16} << 20;
// Error bodies are a few hundred bytes; of anything longer the beginning says what it is.
constexpr std::size_t kMaxErrorBytes = std::size_t{64} * 1024;
// Answers that contradict themselves are rarely better the next time.
constexpr int kBadAnswersMax = 3;

double UniformRandom() {
  thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

void AppendText(std::string& text, ByteView bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Takes a successful answer, attempt after attempt. OnHead and OnBody run on the engine's thread
// and refuse what must not be used; Finish runs on the caller's, after the last byte.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual Status OnHead(const ResponseHead& head) = 0;
  virtual Status OnBody(ByteView bytes) = 0;
  virtual Status Finish() = 0;
  // The body, where it is kept: it may be an error after all.
  virtual std::string_view Text() const { return {}; }
};

class GetReader final : public AnswerReader {
 public:
  GetReader(const GetRequest& request, BodySink& sink, ChecksumCounters& counters)
      : request_(request), sink_(sink), counters_(counters) {}

  Status OnHead(const ResponseHead& head) override {
    Status good = CheckGetHead(head, request_);
    if (!good) return good;
    received_ = 0;
    sum_ = nullptr;
    const bool is_known = head.checksum && !head.has_composite_checksum;
    if (WantsWholeObject(request_) && is_known) {
      expected_ = *head.checksum;
      sum_ = BeginChecksum(expected_.kind);
    }
    sink_.OnAttempt();
    if (sum_) sink_.HoldBack();
    return {};
  }
  Status OnBody(ByteView bytes) override {
    if (bytes.size() > request_.length - received_) {
      return Fail(Code::kCorrupt, "the body is longer than its headers say");
    }
    received_ += bytes.size();
    if (sum_) sum_->Update(bytes);
    sink_.OnData(bytes);
    return {};
  }
  Status Finish() override {
    if (received_ == request_.length) return CompareChecksum();
    return Fail(Code::kCorrupt,
                fmt::format("the body ended after {} of {} bytes", received_, request_.length));
  }

 private:
  Status CompareChecksum() {
    if (!sum_) return {};
    const ObjectChecksum found = sum_->Finish();
    if (found == expected_) {
      counters_.matched.fetch_add(1, std::memory_order_relaxed);
      return {};
    }
    counters_.differed.fetch_add(1, std::memory_order_relaxed);
    return Fail(Code::kCorrupt, fmt::format("the body's {} is {} where the object's is {}",
                                            ChecksumName(expected_.kind), ChecksumText(found),
                                            ChecksumText(expected_)));
  }

  const GetRequest& request_;
  BodySink& sink_;
  ChecksumCounters& counters_;
  std::unique_ptr<ChecksumSum> sum_;  // null: there is nothing to compare with
  ObjectChecksum expected_;
  std::uint64_t received_ = 0;
};

// `Parse` of a whole body of XML.
template <typename Request, typename Page, Result<Page> (*Parse)(std::string_view, const Request&)>
class PageReader final : public AnswerReader {
 public:
  explicit PageReader(const Request& request) : request_(request) {}

  Status OnHead(const ResponseHead& head) override {
    body_.clear();
    if (head.status == 200) return {};
    return Fail(Code::kCorrupt,
                fmt::format("the answer has status {} where 200 was due", head.status));
  }
  Status OnBody(ByteView bytes) override {
    if (body_.size() + bytes.size() > kMaxListBytes) {
      return Fail(Code::kCorrupt, "the list is longer than any list of S3");
    }
    AppendText(body_, bytes);
    return {};
  }
  Status Finish() override {
    Result<Page> page = Parse(body_, request_);
    if (!page) return Fail(std::move(page.error()));
    page_ = *std::move(page);
    return {};
  }
  std::string_view Text() const override { return body_; }
  Page Take() { return std::move(page_); }

 private:
  const Request& request_;
  std::string body_;
  Page page_;
};

using ListReader = PageReader<ListRequest, ListPage, &ParseListPage>;
using VersionsReader = PageReader<VersionsRequest, VersionPage, &ParseVersionPage>;

class HeadReader final : public AnswerReader {
 public:
  Status OnHead(const ResponseHead& head) override {
    Result<ObjectHead> checked = CheckHeadAnswer(head);
    if (!checked) return Fail(std::move(checked.error()));
    head_ = *std::move(checked);
    return {};
  }
  Status OnBody(ByteView /*bytes*/) override {
    return Fail(Code::kCorrupt, "the answer to a HEAD has a body");
  }
  Status Finish() override { return {}; }
  ObjectHead Take() { return std::move(head_); }

 private:
  ObjectHead head_;
};

// What a request says about its further attempts; null where its kind says nothing.
struct RequestPace {
  const std::function<Task<Status>(Deadline)>* before_retry = nullptr;
  const std::function<void()>* on_throttled = nullptr;
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
  std::optional<Failure> failure = std::nullopt;  // of the attempt before
  int bad_answers = 0;
  bool asked_for_newer_credentials = false;

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
      case NextStep::kRetryFewTimes:
        if (++bad_answers >= kBadAnswersMax) return std::nullopt;
        break;
      case NextStep::kRetry:
        break;
    }
    return schedule.Next(failure->reason, Clock::now());
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
      engine_(options_.http) {}

S3Client::~S3Client() { Stop(); }

void S3Client::Start() {
  credentials_.Start();
  engine_.Start();
}

void S3Client::Stop() {
  stopping_.store(true, std::memory_order_release);
  stopped_.NotifyAll();
  engine_.Stop();
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

Task<std::optional<Failure>> S3Client::TryOnce(Call& call, Deadline deadline) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  HttpRequest http = SignedRequest(call.request, call.credentials.get(), now);
  http.fresh_connection = call.failure && (call.failure->reason == RetryReason::kNetwork ||
                                           call.failure->reason == RetryReason::kDns ||
                                           call.failure->reason == RetryReason::kTimeout);
  if (call.stats != nullptr) ++call.stats->attempts;
  Attempt attempt(call.reader);
  Notifier::Ticket ticket = attempt.Enlist(call.executor);
  CurlEngine::Transfer transfer = engine_.Submit(std::move(http), attempt);
  co_await ticket.Wait(deadline);
  transfer.Detach();
  if (attempt.Ended()) co_return attempt.Judge(call.Question());

  Failure failure;
  if (!deadline.Expired()) {
    failure.error = Error{Code::kTimeout, "the S3 request was cancelled"};
  } else if (call.failure) {
    failure.error = call.failure->error;
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
    Status waited = co_await WaitFor(call, *wait);
    if (!waited) co_return waited;
  }
}

Task<Status> S3Client::MayAsk(Call& call, Deadline deadline) {
  Status may;
  if (call.governor != nullptr) {
    may = co_await call.governor->Pass(call.origin, deadline);
  } else if (call.failure && call.pace.before_retry != nullptr && *call.pace.before_retry) {
    may = co_await (*call.pace.before_retry)(deadline);
  }
  co_return may;
}

Task<Status> S3Client::Run(Call& call, Deadline deadline) {
  call.executor = co_await asio::this_coro::executor;
  if (call.origin.sign) {
    Status found = co_await FindCredentials(call, deadline);
    if (!found) co_return found;
  }
  for (;;) {
    Status may = co_await MayAsk(call, deadline);
    if (!may) co_return may;
    if (call.failure) {
      const auto reason = static_cast<std::size_t>(call.failure->reason);
      counters_.retries[reason].fetch_add(1, std::memory_order_relaxed);
    }
    call.failure = co_await TryOnce(call, deadline);
    if (!call.failure) break;
    const std::optional<Duration> wait = call.WaitBeforeRetry();
    // No co_await from here to the end of a call that was cancelled: it would throw.
    if (!wait) co_return Fail(std::move(call.failure->error));
    if (call.failure->next == NextStep::kNewCredentials) {
      Status renewed = co_await UseNewerCredentials(call, deadline);
      if (!renewed) co_return renewed;
    } else {
      Status waited = co_await WaitFor(call, *wait);
      if (!waited) co_return waited;
      // A call may outlive the keys that it began with.
      if (call.origin.sign) {
        Status found = co_await FindCredentials(call, deadline);
        if (!found) co_return found;
      }
    }
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
    Call call{
        operation, request.origin, request.key, *built,
        reader,    request.stats,  schedule,    {&request.before_retry, &request.on_throttled},
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

Task<Result<ObjectHead>> S3Client::Head(LinkOrigin origin, std::string key, Deadline deadline) {
  Result<S3Request> built = HeadObjectRequest(origin, key);
  HeadReader reader;
  Status status;
  if (built) {
    RetrySchedule schedule(options_.retry, TokensOf(origin), deadline, UniformRandom);
    Call call{S3Operation::kHead, origin, key, *built, reader, nullptr, schedule, {},
              options_.governor};
    status = co_await Run(call, deadline);
  } else {
    status = Fail(std::move(built.error()));
  }
  CountEnd(S3Operation::kHead, status);
  if (!status) co_return Fail(std::move(status.error()));
  co_return reader.Take();
}

}  // namespace forebay
