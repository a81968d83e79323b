#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "tests/component/s3/s3_fixture.h"
#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;
using fakes::S3Answer;
using fakes::S3RequestSeen;
using fakes::ScriptedS3;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void SetHeader(S3Answer& answer, const std::string& name, const std::string& value) {
  std::erase_if(answer.headers, [&](const auto& header) { return header.first == name; });
  if (!value.empty()) answer.headers.emplace_back(name, value);
}

// An answer that must never count, bent from the right one; 50,000 bytes at 1,000 of 100,000.
struct BadAnswer {
  const char* name;
  std::function<void(S3Answer&)> bend;
  int sink_attempts;  // that the sink hears of: bodies that break, whose headers were right
  bool slow = false;  // it ends by a time-out
};

const std::vector<BadAnswer> kBadAnswers = {
    {"WrongRange", [](S3Answer& a) { SetHeader(a, "Content-Range", "bytes 1001-51000/100000"); },
     0},
    {"WrongTotal", [](S3Answer& a) { SetHeader(a, "Content-Range", "bytes 1000-50999/100001"); },
     0},
    {"NoRange", [](S3Answer& a) { SetHeader(a, "Content-Range", ""); }, 0},
    {"NoETag", [](S3Answer& a) { SetHeader(a, "ETag", ""); }, 0},
    {"Status200", [](S3Answer& a) { a.status = 200; }, 0},
    {"Status304", [](S3Answer& a) { a.status = 304; }, 0},
    {"OneByteMore", [](S3Answer& a) { a.body += 'x'; }, 0},
    {"OneByteMoreUnannounced",
     [](S3Answer& a) {
       a.body += 'x';
       a.no_length = true;
     },
     1},
    {"OneByteLess", [](S3Answer& a) { a.body.pop_back(); }, 0},
    {"OneByteLessUnannounced",
     [](S3Answer& a) {
       a.body.pop_back();
       a.no_length = true;
     },
     1},
    {"CutShort", [](S3Answer& a) { a.end_after = 30'000; }, 1},
    {"CutBeforeTheBody", [](S3Answer& a) { a.end_after = 0; }, 1},
    {"Reset",
     [](S3Answer& a) {
       a.end_after = 0;
       a.reset = true;
     },
     -1},  // the RST may overtake the headers
    {"Stall", [](S3Answer& a) { a.stall_after = 30'000; }, 1, true},
    {"StallBeforeTheBody", [](S3Answer& a) { a.stall_after = 0; }, 1, true},
    {"Silence", [](S3Answer& a) { a.silent = true; }, 0, true},
    {"ErrorUnder200", [](S3Answer& a) { a = ScriptedS3::Error(200, "InternalError"); }, 0},
    {"ErrorUnder206", [](S3Answer& a) { a.body = ScriptedS3::Error(206, "InternalError").body; },
     0},
    {"ServerError", [](S3Answer& a) { a = ScriptedS3::Error(500, "InternalError"); }, 0},
    {"Html404",
     [](S3Answer& a) {
       a = S3Answer{};
       a.status = 404;
       a.body = "<html>not here</html>";
     },
     0},
};

class BadAnswerOnce : public S3ClientTest, public testing::WithParamInterface<BadAnswer> {};

TEST_P(BadAnswerOnce, IsRetriedAndLeavesNoByteBehind) {
  const std::string body = Bytes(100'000);
  const GetRequest request = Stored("k", body, 1000, 50'000);
  std::atomic<bool> first{true};
  server_.SetHandler([&](const S3RequestSeen& seen) -> std::optional<S3Answer> {
    if (!first.exchange(false)) return std::nullopt;
    S3Answer answer = server_.Truth(seen);
    GetParam().bend(answer);
    return answer;
  });
  if (GetParam().slow) Restart(ImpatientOptions());
  TextSink sink;
  const TimePoint begin = Clock::now();
  const Status status = Get(request, sink);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_TRUE(sink.text == body.substr(1000, 50'000));
  EXPECT_LT(Clock::now() - begin, 5s) << "a stall of 200 ms ends about then";
  if (GetParam().slow) {
    EXPECT_GE(stats_.attempts, 2U);
    EXPECT_GE(Retries(RetryReason::kTimeout), 1U);
    return;
  }
  EXPECT_EQ(stats_.attempts, 2U);
  if (GetParam().sink_attempts >= 0) {
    EXPECT_EQ(sink.attempts, GetParam().sink_attempts + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(S3ClientTest, BadAnswerOnce, testing::ValuesIn(kBadAnswers),
                         [](const auto& tested) { return tested.param.name; });

Task<bool> Answer(bool word) { co_return word; }

Task<Status> MayRetry(bool may) {
  if (may) co_return Status();
  co_return Fail(Code::kTimeout, "not now");
}

TEST_F(S3ClientTest, AnAnswerThatStaysWrongIsCorruptAndNeverReachesTheSink) {
  const GetRequest request = Stored("k", Bytes(100), 10, 20);
  server_.SetHandler([&](const S3RequestSeen& seen) -> std::optional<S3Answer> {
    S3Answer answer = server_.Truth(seen);
    SetHeader(answer, "Content-Range", "bytes 0-19/100");
    return answer;
  });
  TextSink sink;
  const Status status = Get(request, sink);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("'bytes 0-19/100' where 'bytes 10-29/100'"));
  EXPECT_EQ(sink.attempts, 0);
  EXPECT_EQ(stats_.attempts, 3U);
  EXPECT_EQ(Retries(RetryReason::kBadAnswer), 2U);
  EXPECT_EQ(Failed(S3Operation::kGet, Code::kCorrupt), 1U);
}

TEST_F(S3ClientTest, AnotherVersionIsStaleAtOnce) {
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  server_.Put("data", "k", "9876543210");
  TextSink sink;
  EXPECT_EQ(Get(request, sink).error().code, Code::kStale);
  // A store that does not look at If-Match:
  S3Answer other;
  other.status = 206;
  other.headers = {{"ETag", "\"other\""}, {"Content-Range", "bytes 0-4/10"}};
  other.body = "98765";
  server_.Next(other);
  EXPECT_EQ(Get(request, sink).error().code, Code::kStale);
  server_.Next(ScriptedS3::Error(416, "InvalidRange"));
  EXPECT_EQ(Get(request, sink).error().code, Code::kStale);
  EXPECT_EQ(stats_.attempts, 3U);
  EXPECT_EQ(sink.attempts, 0);
}

TEST_F(S3ClientTest, ThrottlingIsOutlastedAndCounted) {
  GetRequest request = Stored("k", "0123456789", 0, 5);
  for (int i = 0; i < 5; ++i) server_.Next(ScriptedS3::Error(503, "SlowDown"));
  int heard = 0;
  request.on_throttled = [&] { ++heard; };
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  EXPECT_EQ(heard, 5);
  EXPECT_EQ(sink.text, "01234");
  EXPECT_EQ(stats_.attempts, 6U);
  EXPECT_EQ(stats_.throttled, 5U);
  EXPECT_EQ(Retries(RetryReason::kThrottled), 5U);
  EXPECT_EQ(Client().counters().succeeded[0], 1U);
}

TEST_F(S3ClientTest, EachRetryAsksItsCallerFirstAndARefusalEndsTheCall) {
  GetRequest request = Stored("k", "0123456789", 0, 5);
  for (int i = 0; i < 3; ++i) server_.Next(ScriptedS3::Error(503, "SlowDown"));
  int asked = 0;
  int allowed = 3;
  request.before_retry = [&](Deadline) { return MayRetry(++asked <= allowed); };
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(stats_.attempts, 4U);
  server_.SetHandler([](const S3RequestSeen&) { return ScriptedS3::Error(503, "SlowDown"); });
  asked = 0;
  allowed = 1;
  stats_ = {};
  EXPECT_EQ(Get(request, sink).error().message, "not now");
  EXPECT_EQ(stats_.attempts, 2U);
}

TEST_F(S3ClientTest, WhoeverAsksHearsOfEachFailureBeforeThePauseAndMayEndTheCall) {
  GetRequest request = Stored("k", "0123456789", 0, 5);
  for (int i = 0; i < 2; ++i) server_.Next(ScriptedS3::Error(500, "InternalError"));
  std::vector<RetryReason> heard;
  std::size_t enough = 9;
  const auto note = [&](RetryReason why) {
    heard.push_back(why);
    return heard.size() == enough;
  };
  request.before_pause = [&](RetryReason why) { return Answer(note(why)); };
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  const std::vector<RetryReason> twice(2, RetryReason::kServerError);
  EXPECT_EQ(heard, twice);
  heard.clear();
  enough = 2;
  stats_ = {};
  server_.SetHandler([](const S3RequestSeen&) { return ScriptedS3::Error(500, "InternalError"); });
  EXPECT_EQ(Get(request, sink).error().code, Code::kUnavailable);
  EXPECT_EQ(heard, twice);
  EXPECT_EQ(stats_.attempts, 2U);
}

/// Lets so many requests through.
class CountingGovernor final : public RequestGovernor {
 public:
  Task<Status> Pass(LinkOrigin origin, Deadline) override {
    ++passed;
    bucket = origin.bucket;
    co_return allowed-- > 0 ? Status() : Fail(Code::kOverloaded, "not now");
  }
  void NoteThrottled(const LinkOrigin&) override { ++throttled; }

  int allowed = 100;
  int passed = 0;
  int throttled = 0;
  std::string bucket;
};

TEST_F(S3ClientTest, EveryAttemptOfAListingAndOfAHeadPassesTheGovernor) {
  CountingGovernor governor;
  S3Options options = FastOptions();
  options.governor = &governor;
  Restart(options);
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  for (int i = 0; i < 3; ++i) server_.Next(ScriptedS3::Error(503, "SlowDown"));
  ASSERT_TRUE(List(Listing("")));
  EXPECT_EQ(governor.passed, 4);
  EXPECT_EQ(governor.throttled, 3);
  EXPECT_EQ(governor.bucket, "data");
  ASSERT_TRUE(Head("k"));
  EXPECT_EQ(governor.passed, 5);
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  EXPECT_EQ(governor.passed, 5) << "a GET brings its own bound";
  governor.allowed = 0;
  EXPECT_EQ(Head("k").error().message, "not now");
  client_->Stop();
}

TEST_F(S3ClientTest, ThrottlingUntilTheDeadlineIsOverloaded) {
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  server_.SetHandler([](const S3RequestSeen&) { return ScriptedS3::Error(503, "SlowDown"); });
  TextSink sink;
  const Status status = Get(request, sink, 300ms);
  EXPECT_EQ(status.error().code, Code::kOverloaded);
  EXPECT_THAT(status.error().message, HasSubstr("SlowDown"));
  EXPECT_GT(stats_.throttled, 2U);
}

TEST_F(S3ClientTest, AnUnreachableEndpointIsTriedUntilTheDeadlineAndNamed) {
  GetRequest request = Stored("k", "0123456789", 0, 5);
  request.origin.endpoint = "http://127.0.0.1:1";
  TextSink sink;
  const TimePoint begin = Clock::now();
  const Status status = Get(request, sink, 300ms);
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("http://127.0.0.1:1"));
  EXPECT_GT(stats_.attempts, 2U);
  EXPECT_GT(Clock::now() - begin, 200ms);
  request.origin.endpoint = "http://no-such-host.invalid";
  EXPECT_EQ(Get(request, sink, 500ms).error().code, Code::kUnavailable);
}

TEST_F(S3ClientTest, ASilentServerIsGivenUpAtTheDeadline) {
  S3Options options = FastOptions();
  options.http.first_byte_timeout = 1h;
  Restart(options);
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  S3Answer silent;
  silent.silent = true;
  server_.Next(silent);
  TextSink sink;
  const TimePoint begin = Clock::now();
  EXPECT_EQ(Get(request, sink, 200ms).error().code, Code::kUnavailable);
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_TRUE(server_.WaitForClosed(1)) << "the connection is not left behind";
}

TEST_F(S3ClientTest, ABrokenConnectionIsNotUsedAgain) {
  Restart(ImpatientOptions());
  const GetRequest request = Stored("k", Bytes(40'000), 0, 40'000);
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  S3Answer stalls = server_.Truth(server_.requests().at(0));
  stalls.stall_after = 100;
  server_.Next(stalls);
  ASSERT_TRUE(Get(request, sink));
  EXPECT_GE(server_.connections(), 2U);
  EXPECT_GE(Retries(RetryReason::kTimeout), 1U);
}

TEST_F(S3ClientTest, AbsentIsWhatS3SaysIsAbsent) {
  GetRequest request = Stored("k", "0123456789", 0, 5);
  request.key = "absent";
  TextSink sink;
  EXPECT_EQ(Get(request, sink).error().code, Code::kNotFound);
  EXPECT_EQ(Head("absent").error().code, Code::kNotFound);
  ListRequest listing = Listing("");
  listing.origin.bucket = "nobucket";
  const Result<ListPage> page = List(listing);
  EXPECT_EQ(page.error().code, Code::kInvalid);
  EXPECT_THAT(page.error().message, HasSubstr("there is no bucket 'nobucket'"));
}

TEST_F(S3ClientTest, ARedirectIsNotFollowed) {
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  S3Answer moved = ScriptedS3::Error(301, "PermanentRedirect");
  fakes::ScriptedS3 foreign;
  moved.headers.emplace_back("Location", foreign.endpoint() + "/data/k");
  moved.headers.emplace_back("x-amz-bucket-region", "eu-west-1");
  server_.Next(moved);
  TextSink sink;
  const Status status = Get(request, sink);
  EXPECT_EQ(status.error().code, Code::kInvalid);
  EXPECT_THAT(status.error().message, HasSubstr("in region eu-west-1"));
  EXPECT_EQ(server_.requests().size(), 1U);
  EXPECT_EQ(foreign.connections(), 0U) << "a signature goes to no host that was not meant";
}

TEST_F(S3ClientTest, AnArchivedObjectIsSaidToBeArchived) {
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  server_.Next(ScriptedS3::Error(403, "InvalidObjectState"));
  TextSink sink;
  const Status status = Get(request, sink);
  EXPECT_EQ(status.error().code, Code::kInvalid);
  EXPECT_THAT(status.error().message, HasSubstr("archived"));
  EXPECT_EQ(stats_.attempts, 1U);
}

TEST_F(S3ClientTest, ARefusalNamesTheKeyAndNotTheSecret) {
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  server_.Next(ScriptedS3::Error(403, "SignatureDoesNotMatch"));
  TextSink sink;
  const Status status = Get(request, sink);
  EXPECT_EQ(status.error().code, Code::kDenied);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("AKTEST"), HasSubstr("the environment"),
                    HasSubstr(server_.endpoint()), Not(HasSubstr("secret"))));
  EXPECT_EQ(server_.requests().size(), 1U) << "the keys are the same, so it is not asked again";
}

TEST_F(S3ClientTest, NoCredentialsAreDeniedWithoutAskingS3) {
  Restart(FastOptions(), AwsEnvironment({}));
  TextSink sink;
  const Status status = Get(Stored("k", "0123456789", 0, 5), sink);
  EXPECT_EQ(status.error().code, Code::kDenied);
  EXPECT_THAT(status.error().message, HasSubstr("AWS_ACCESS_KEY_ID is not set"));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(S3ClientTest, NewerKeysThanExpiredOnesAreWaitedForAndS3IsNotAskedMeanwhile) {
  TempFiles files;
  const auto write = [&](const std::string& id) {
    return files.Write("credentials", fmt::format("[default]\naws_access_key_id = {}\n"
                                                  "aws_secret_access_key = s\n",
                                                  id));
  };
  S3Options options = FastOptions();
  options.credentials_recheck = 1h;
  Restart(options, AwsEnvironment({{"AWS_SHARED_CREDENTIALS_FILE", write("AKOLD")}}));
  server_.SetHandler([&](const S3RequestSeen& seen) -> std::optional<S3Answer> {
    if (seen.Header("authorization").find("AKNEW") != std::string::npos) return std::nullopt;
    return ScriptedS3::Error(400, "ExpiredToken");
  });
  const GetRequest request = Stored("k", "0123456789", 0, 5);
  TextSink sink;
  for (int i = 0; i < 3; ++i) {
    const Status waited = Get(request, sink, 100ms);
    ASSERT_FALSE(waited.has_value());
    EXPECT_EQ(waited.error().code, Code::kUnavailable) << waited.error().message;
    EXPECT_THAT(waited.error().message, HasSubstr("ExpiredToken"));
    EXPECT_THAT(waited.error().message, HasSubstr("key id AKOLD"));
    EXPECT_EQ(stats_.attempts, 1U) << "one question for all who wait";
  }
  write("AKALSOOLD");
  EXPECT_EQ(Get(request, sink, 100ms).error().code, Code::kUnavailable);
  EXPECT_EQ(stats_.attempts, 2U) << "these are others";
  write("AKNEW");
  const Status status = Get(request, sink);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(sink.text, "01234");
  EXPECT_EQ(stats_.attempts, 3U);
  EXPECT_EQ(Retries(RetryReason::kCredentials), 0U) << "each call asked once at most";
}

TEST_F(S3ClientTest, AListWithFewerKeysThanItCountsIsAskedForAgain) {
  server_.Put("data", "k", "x");
  const auto short_list = [] {
    S3Answer answer;
    answer.body =
        "<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>1</KeyCount>"
        "</ListBucketResult>";
    return answer;
  };
  server_.Next(short_list());
  ListRequest request = Listing("");
  request.stats = &stats_;
  const Result<ListPage> page = List(request);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(stats_.attempts, 2U);
  for (int i = 0; i < 10; ++i) server_.Next(short_list());
  const Result<ListPage> never = List(request);
  ASSERT_FALSE(never.has_value());
  EXPECT_EQ(never.error().code, Code::kCorrupt);
  EXPECT_THAT(never.error().message, HasSubstr("its KeyCount is 1, and it has 0 keys"));
}

TEST_F(S3ClientTest, AListThatTurnsIntoAnErrorIsRetried) {
  server_.Put("data", "k", "x");
  server_.Next(ScriptedS3::Error(200, "SlowDown"));
  S3Answer cut = ScriptedS3::Error(200, "x");
  cut.body = "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTrunc";
  server_.Next(cut);
  ListRequest request = Listing("");
  request.stats = &stats_;
  const Result<ListPage> page = List(request);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(stats_.attempts, 3U);
  EXPECT_EQ(stats_.throttled, 1U);
}

TEST_F(S3ClientTest, AListThatStaysBrokenIsCorrupt) {
  server_.SetHandler([](const S3RequestSeen&) {
    S3Answer answer;
    answer.body = "<html>Please log in</html>";
    return answer;
  });
  const Result<ListPage> page = List(Listing(""));
  EXPECT_EQ(page.error().code, Code::kCorrupt);
  EXPECT_EQ(server_.requests().size(), 3U);
  EXPECT_EQ(Failed(S3Operation::kList, Code::kCorrupt), 1U);
}

}  // namespace
}  // namespace forebay
