#include <fmt/chrono.h>

#include <atomic>
#include <chrono>

#include "common/s3/auth/credential_answers.h"
#include "common/s3/auth/default_chain.h"
#include "tests/component/s3/auth/auth_fixture.h"
#include "tests/component/s3/s3_fixture.h"

namespace forebay {
namespace {

using fakes::S3Answer;
using fakes::S3RequestSeen;
using fakes::ScriptedS3;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

// A client whose keys come from a container endpoint: "AK1", then "AK2" …
class RenewalTest : public S3ClientTest {
 protected:
  RenewalTest() {
    container_.SetHandler([this](const S3RequestSeen&) {
      S3Answer answer;
      if (away_ > 0) {
        --away_;
        answer.status = 500;
        return answer;
      }
      if (late_refusals_ > 0) {
        if (std::chrono::system_clock::now() >= expiry_.load()) --late_refusals_;
        answer.status = 403;
        return answer;
      }
      const auto expires =
          std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now() + life_);
      expiry_ = expires;
      answer.body =
          fmt::format(R"({{"AccessKeyId":"AK{}","SecretAccessKey":"hunter2","Token":"hunter2",)"
                      R"("Expiration":"{:%Y-%m-%dT%H:%M:%S}Z"}})",
                      ++issued_, fmt::gmtime(std::chrono::system_clock::to_time_t(expires)));
      return answer;
    });
    S3Options options = FastOptions();
    options.credentials_recheck = Duration::zero();
    Restart(options,
            AwsEnvironment({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", container_.endpoint() + "/keys"},
                            {"AWS_CONFIG_FILE", "/no/such/file"},
                            {"AWS_SHARED_CREDENTIALS_FILE", "/no/such/file"}}));
  }
  ~RenewalTest() override { client_.reset(); }

  // S3 takes this key and calls any other's token expired.
  void Accept(const std::string& key_id) {
    server_.SetHandler([key_id](const S3RequestSeen& seen) -> std::optional<S3Answer> {
      if (seen.Header("authorization").find("Credential=" + key_id + "/") != std::string::npos) {
        return std::nullopt;
      }
      return ScriptedS3::Error(400, "ExpiredToken");
    });
  }

  std::atomic<int> issued_{0};
  std::atomic<int> away_{0};
  std::atomic<bool> was_away_{false};
  std::atomic<int> late_refusals_{0};  // so many after the last keys expired, and all before
  std::atomic<std::chrono::sys_seconds> expiry_{};
  std::chrono::seconds life_ = 1h;
  ScriptedS3 container_;  // last: its threads use the others
};

TEST_F(RenewalTest, AnExpiredTokenIsRenewedOnceAndTheRequestRepeated) {
  Accept("AK2");
  TextSink sink;
  const Status status = Get(Stored("k", "0123456789", 0, 10), sink);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(sink.text, "0123456789");
  EXPECT_EQ(stats_.attempts, 2U);
  EXPECT_EQ(issued_, 2);
  EXPECT_EQ(Retries(RetryReason::kCredentials), 1U);
}

TEST_F(RenewalTest, NewerKeysAreWaitedForWhoeverBringsThemLate) {
  Accept("AK5");
  TextSink sink;
  const Status status = Get(Stored("k", "0123456789", 0, 10), sink);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(sink.text, "0123456789");
  EXPECT_EQ(stats_.attempts, 5U) << "once with each";
}

TEST_F(RenewalTest, AListingWaitsToo) {
  Accept("AK5");
  server_.Put("data", "k", "x");
  const Result<ListPage> page = List(Listing(""));
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->objects.size(), 1U);
}

TEST_F(RenewalTest, ASourceThatIsAwayOrBrokenMeanwhileIsAskedAgain) {
  TextSink sink;
  const GetRequest request = Stored("k", "0123456789", 0, 10);
  server_.SetHandler([this](const S3RequestSeen& seen) -> std::optional<S3Answer> {
    if (seen.Header("authorization").find("Credential=AK1/") == std::string::npos) {
      return std::nullopt;
    }
    // Its keys end, and just then nobody gives others.
    if (!was_away_.exchange(true)) away_ = 3;
    return ScriptedS3::Error(400, "ExpiredToken");
  });
  const Status status = Get(request, sink);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(issued_, 2);
}

TEST_F(RenewalTest, ATokenThatStaysExpiredNamesKeyProviderRegionAndEndpoint) {
  Accept("nobody");
  TextSink sink;
  const Status status = Get(Stored("k", "0123456789", 0, 10), sink, 300ms);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kUnavailable) << "as for an S3 that does not answer";
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("ExpiredToken"), HasSubstr("key id AK"), HasSubstr("put newer ones"),
                    HasSubstr("the container endpoint " + container_.endpoint()),
                    HasSubstr("region us-east-1"), HasSubstr("at " + server_.endpoint()),
                    Not(HasSubstr("hunter2"))));
  EXPECT_GT(stats_.attempts, 2U);
}

TEST_F(RenewalTest, ReadersWaitForWhoeverHandsOutKeys) {
  Accept("AK1");
  away_ = 3;
  TextSink sink;
  const Status status = Get(Stored("k", "0123456789", 0, 10), sink);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(container_.requests().size(), 4U);
  EXPECT_EQ(stats_.attempts, 1U) << "S3 was asked without keys";
}

TEST_F(RenewalTest, ReadersWaitForASourceThatIsRefusedWhenItsKeysHaveExpired) {
  life_ = 2s;
  TextSink sink;
  const GetRequest request = Stored("k", "0123456789", 0, 10);
  ASSERT_TRUE(Get(request, sink));
  life_ = 1h;
  late_refusals_ = 3;
  const Deadline soon = Deadline::After(20s);
  while (issued_ < 2 && !soon.Expired()) {
    const Status status = Get(request, sink);
    ASSERT_TRUE(status) << status.error().message;
  }
  EXPECT_EQ(issued_, 2);
}

TEST_F(RenewalTest, ALongCallGoesOnWithTheKeysThatReplaceItsFirst) {
  life_ = 2s;
  // An S3 that does not say what it does not like.
  server_.SetHandler([](const S3RequestSeen& seen) -> std::optional<S3Answer> {
    if (seen.Header("authorization").find("Credential=AK1/") == std::string::npos) {
      return std::nullopt;
    }
    return ScriptedS3::Error(500, "InternalError");
  });
  TextSink sink;
  const Status status = Get(Stored("k", "0123456789", 0, 10), sink);
  EXPECT_TRUE(status) << status.error().message;
}

TEST_F(RenewalTest, ARenewalThatFailsIsSaid) {
  Accept("nobody");
  TextSink sink;
  const GetRequest request = Stored("k", "0123456789", 0, 10);
  ASSERT_FALSE(Get(request, sink, 100ms).has_value());  // later keys are in use now
  away_ = 1'000'000;
  const Status status = Get(request, sink, 300ms);
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("ExpiredToken"), HasSubstr("looking for newer ones"),
                    HasSubstr("answered 500")));
}

TEST_F(RenewalTest, NoSignatureGoesWhereS3PointsTo) {
  ScriptedS3 other;
  for (const int status : {301, 307}) {
    server_.SetHandler([&other, status](const S3RequestSeen&) -> std::optional<S3Answer> {
      S3Answer answer = ScriptedS3::Error(status, "TemporaryRedirect");
      answer.headers.emplace_back("Location", other.endpoint() + "/data/k");
      return answer;
    });
    TextSink sink;
    const Status read = Get(Stored("k", "0123456789", 0, 10), sink);
    EXPECT_EQ(read.error().code, Code::kInvalid);
    EXPECT_THAT(read.error().message, HasSubstr("pointed to " + other.endpoint()));
  }
  EXPECT_EQ(other.connections(), 0U);
}

TEST_F(RenewalTest, RequestsNameTheExpectedOwnerAndThePayer) {
  Accept("AK1");
  GetRequest request = Stored("k", "0123456789", 0, 10);
  request.origin.expected_owner = "123456789012";
  request.origin.requester_pays = true;
  TextSink sink;
  ASSERT_TRUE(Get(request, sink));
  const S3RequestSeen seen = server_.requests().at(0);
  EXPECT_EQ(seen.Header("x-amz-expected-bucket-owner"), "123456789012");
  EXPECT_EQ(seen.Header("x-amz-request-payer"), "requester");
  EXPECT_THAT(seen.Header("authorization"),
              HasSubstr("x-amz-expected-bucket-owner;x-amz-request-payer"));
}

}  // namespace
}  // namespace forebay
