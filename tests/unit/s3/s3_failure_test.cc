#include "common/s3/s3_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class S3FailureTest : public testing::Test {
 protected:
  Failure Answer(S3Operation operation, int status, const std::string& code = "",
                 const std::string& region = "") {
    ResponseHead head;
    head.status = status;
    head.bucket_region = region;
    return FailureOfAnswer({operation, origin_, "a\nkey", &credentials_}, head,
                           {.code = code, .message = "words", .region = "", .request_id = ""});
  }
  void Expect(const Failure& failure, Code code, NextStep next) {
    EXPECT_EQ(CodeName(failure.error.code), CodeName(code)) << failure.error.message;
    EXPECT_EQ(failure.next, next) << failure.error.message;
  }

  LinkOrigin origin_{.bucket = "data",
                     .prefix = "",
                     .endpoint = "http://s3.lab",
                     .region = "home-1",
                     .profile = ""};
  S3Credentials credentials_{.key_id = "AKID",
                             .secret_key = Secret("hunter2"),
                             .session_token = Secret("hunter3"),
                             .provider = "profile 'x'"};
};

constexpr S3Operation kGet = S3Operation::kGet;
constexpr S3Operation kList = S3Operation::kList;
constexpr S3Operation kHead = S3Operation::kHead;

TEST_F(S3FailureTest, OnlyS3sOwn404MeansAbsent) {
  Expect(Answer(kGet, 404, "NoSuchKey"), Code::kNotFound, NextStep::kGiveUp);
  Expect(Answer(kGet, 404), Code::kUnavailable, NextStep::kRetryFewTimes);
  Expect(Answer(kGet, 404, "NoSuchBucket"), Code::kNotFound, NextStep::kGiveUp);
  const Failure no_bucket = Answer(kList, 404, "NoSuchBucket");
  Expect(no_bucket, Code::kInvalid, NextStep::kGiveUp);
  EXPECT_THAT(no_bucket.error.message,
              HasSubstr("there is no bucket 'data' there; check its name"));
}

TEST_F(S3FailureTest, AnotherVersionIsStale) {
  Expect(Answer(kGet, 412, "PreconditionFailed"), Code::kStale, NextStep::kGiveUp);
  Expect(Answer(kGet, 412), Code::kStale, NextStep::kGiveUp);
  Expect(Answer(kGet, 416, "InvalidRange"), Code::kStale, NextStep::kGiveUp);
}

TEST_F(S3FailureTest, KeysThatExpiredAndClocksSayNothingAboutOlderVersions) {
  for (const S3Operation old : {S3Operation::kGetVersion, S3Operation::kVersions}) {
    Expect(Answer(old, 403, "InvalidToken"), Code::kUnavailable, NextStep::kNewCredentials);
    Expect(Answer(old, 403, "RequestTimeTooSkewed"), Code::kUnavailable, NextStep::kGiveUp);
    Expect(Answer(old, 403, "AccessDenied"), Code::kDenied, NextStep::kGiveUp);
  }
  Expect(Answer(kGet, 403, "InvalidToken"), Code::kDenied, NextStep::kNewCredentials);
  Expect(Answer(kGet, 403, "RequestTimeTooSkewed"), Code::kDenied, NextStep::kGiveUp);
}

TEST_F(S3FailureTest, ThrottlingIsRetriedSlowly) {
  for (const Failure& failure : {Answer(kGet, 503), Answer(kGet, 503, "SlowDown"),
                                 Answer(kGet, 429), Answer(kList, 200, "SlowDown")}) {
    Expect(failure, Code::kOverloaded, NextStep::kRetry);
    EXPECT_EQ(failure.reason, RetryReason::kThrottled);
  }
}

TEST_F(S3FailureTest, ServerErrorsAreRetried) {
  for (const Failure& failure :
       {Answer(kGet, 500), Answer(kGet, 502), Answer(kGet, 504),
        Answer(kGet, 400, "RequestTimeout"), Answer(kList, 200, "InternalError")}) {
    Expect(failure, Code::kUnavailable, NextStep::kRetry);
    EXPECT_EQ(failure.reason, RetryReason::kServerError);
  }
}

TEST_F(S3FailureTest, RefusalsNameEverythingButTheSecret) {
  const Failure failure = Answer(kGet, 403, "AccessDenied");
  Expect(failure, Code::kDenied, NextStep::kGiveUp);
  EXPECT_THAT(failure.error.message,
              AllOf(HasSubstr("AKID"), HasSubstr("profile 'x'"), HasSubstr("home-1"),
                    HasSubstr("http://s3.lab"), HasSubstr("AccessDenied"), HasSubstr("a\\x0akey"),
                    Not(HasSubstr("hunter"))));
}

TEST_F(S3FailureTest, AWrongClockIsSaidLikeOtherRefusalsAndWhatToDo) {
  EXPECT_EQ(Answer(kGet, 403, "RequestTimeTooSkewed").error.message,
            "GET of s3://data/a\\x0akey at http://s3.lab: S3 answered 403 RequestTimeTooSkewed "
            "(words) to key id AKID from profile 'x', region home-1: the clock of this machine or "
            "of S3 is wrong; set it, by NTP (chronyd, systemd-timesyncd)");
}

TEST_F(S3FailureTest, ARefusalSaysWhatMayBeWrongWithTheLink) {
  EXPECT_THAT(Answer(kList, 403, "AccessDenied").error.message,
              AllOf(HasSubstr("they allow s3:ListBucket; if its requesters pay, link with "
                              "--requester-pays"),
                    Not(HasSubstr("account"))));
  origin_.requester_pays = true;
  origin_.expected_owner = "123456789012";
  EXPECT_THAT(Answer(kList, 403, "AccessDenied").error.message,
              AllOf(HasSubstr("and that the bucket belongs to account 123456789012"),
                    Not(HasSubstr("--requester-pays"))));
  ResponseHead head;
  head.status = 403;
  EXPECT_THAT(FailureOfAnswer({kGet, origin_, "k", nullptr}, head, {}).error.message,
              AllOf(HasSubstr("an anonymous request"), HasSubstr("without --no-sign-request"),
                    Not(HasSubstr("check the keys"))));
}

TEST_F(S3FailureTest, ARefusalThatSpeaksOfKmsNamesTheRightToItsKey) {
  ResponseHead head;
  head.status = 403;
  const auto said = [&](std::string message) {
    S3ErrorBody body;
    body.code = "AccessDenied";
    body.message = std::move(message);
    return FailureOfAnswer({kGet, origin_, "k", &credentials_}, head, body).error.message;
  };
  for (const char* message :
       {"User: arn:aws:iam::1:user/x is not authorized to perform: kms:Decrypt on resource: "
        "arn:aws:kms:eu-west-1:1:key/2 because no identity-based policy allows it",
        "The ciphertext refers to a customer master key that ..., or you are not allowed "
        "to access."}) {
    EXPECT_THAT(said(message),
                AllOf(HasSubstr(message), HasSubstr("need kms:Decrypt"),
                      HasSubstr("besides s3:GetObject"), Not(HasSubstr("--requester-pays"))));
  }
  EXPECT_THAT(said("Access Denied"), Not(HasSubstr("kms")));
}

TEST_F(S3FailureTest, ARefusedVersionNamesTheRightThatIsMissing) {
  const Failure list = Answer(S3Operation::kVersions, 403, "AccessDenied");
  Expect(list, Code::kDenied, NextStep::kGiveUp);
  EXPECT_THAT(list.error.message, AllOf(HasSubstr("VERSIONS of s3://data/"),
                                        HasSubstr("that they allow s3:ListBucketVersions")));
  const Failure get = Answer(S3Operation::kGetVersion, 403, "AccessDenied");
  EXPECT_THAT(get.error.message, HasSubstr("that they allow s3:GetObjectVersion"));
  // The answer to a HEAD has no room for the reason.
  const Failure head = Answer(S3Operation::kHeadVersion, 403, "");
  Expect(head, Code::kDenied, NextStep::kNewCredentials);
  EXPECT_THAT(head.error.message, AllOf(HasSubstr("HEAD_VERSION of s3://data/"),
                                        HasSubstr("not allow s3:GetObjectVersion")));
  Expect(Answer(S3Operation::kGetVersion, 404, "NoSuchVersion"), Code::kNotFound,
         NextStep::kGiveUp);
}

TEST_F(S3FailureTest, AStoreThatKnowsNoVersionsIsNotAskedAgain) {
  Expect(Answer(S3Operation::kVersions, 501, "NotImplemented"), Code::kInvalid, NextStep::kGiveUp);
}

TEST_F(S3FailureTest, KeysThatMayBeOldAreLookedAtAgain) {
  for (const Failure& failure :
       {Answer(kGet, 403, "InvalidAccessKeyId"), Answer(kGet, 403, "SignatureDoesNotMatch"),
        Answer(kHead, 403), Answer(kHead, 400)}) {
    Expect(failure, Code::kDenied, NextStep::kNewCredentials);
  }
  EXPECT_THAT(Answer(kHead, 403).error.message, HasSubstr("or not allow s3:GetObject"));
  ResponseHead head;
  head.status = 403;
  const Failure anonymous = FailureOfAnswer({kHead, origin_, "k", nullptr}, head, {});
  Expect(anonymous, Code::kDenied, NextStep::kGiveUp);
  EXPECT_THAT(anonymous.error.message, HasSubstr("it does not allow s3:GetObject to everybody"));
}

TEST_F(S3FailureTest, ANotFoundToAHeadIsBelievedFromS3Alone) {
  ResponseHead head;
  head.status = 404;
  const S3Question question{kHead, origin_, "k", &credentials_};
  head.content_type = "text/html";  // of what stands before S3
  Expect(FailureOfAnswer(question, head, {}), Code::kUnavailable, NextStep::kRetryFewTimes);
  head.content_type = "application/xml";
  Expect(FailureOfAnswer(question, head, {}), Code::kNotFound, NextStep::kGiveUp);
  head.content_type = "";
  Expect(FailureOfAnswer(question, head, {}), Code::kUnavailable, NextStep::kRetryFewTimes);
  head.request_id = "1";
  Expect(FailureOfAnswer(question, head, {}), Code::kNotFound, NextStep::kGiveUp);
}

TEST_F(S3FailureTest, NewerKeysThanExpiredOnesAreWaitedFor) {
  for (const char* code : {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}) {
    const Failure failure = Answer(kGet, 400, code);
    Expect(failure, Code::kUnavailable, NextStep::kAwaitNewerCredentials);
    EXPECT_EQ(failure.reason, RetryReason::kCredentials);
  }
  ResponseHead head;
  head.status = 400;
  S3ErrorBody body;
  body.code = "ExpiredToken";
  Expect(FailureOfAnswer({kGet, origin_, "k", nullptr}, head, body), Code::kUnavailable,
         NextStep::kGiveUp);
}

TEST_F(S3FailureTest, ABadRequestWithASessionTokenNamesTheKeys) {
  const Failure failure = Answer(kList, 400, "InvalidArgument");
  Expect(failure, Code::kInvalid, NextStep::kGiveUp);
  EXPECT_THAT(failure.error.message, AllOf(HasSubstr("key id AKID from profile 'x'"),
                                           HasSubstr("session token may be wrong or expired")));
  credentials_.session_token = Secret("");
  EXPECT_THAT(Answer(kList, 400, "InvalidArgument").error.message, Not(HasSubstr("AKID")));
}

TEST_F(S3FailureTest, AnArchivedObjectIsNotRetried) {
  const Failure failure = Answer(kGet, 403, "InvalidObjectState");
  Expect(failure, Code::kInvalid, NextStep::kGiveUp);
  EXPECT_THAT(failure.error.message, HasSubstr("archived"));
}

TEST_F(S3FailureTest, ARedirectNamesTheRegion) {
  const Failure moved = Answer(kGet, 301, "PermanentRedirect", "eu-west-1");
  Expect(moved, Code::kInvalid, NextStep::kGiveUp);
  EXPECT_THAT(moved.error.message, HasSubstr("the bucket is in region eu-west-1: link it with "
                                             "--region eu-west-1, not home-1"));
  EXPECT_THAT(Answer(kGet, 301, "PermanentRedirect", "home-1").error.message,
              HasSubstr("the bucket is in region home-1: link it with the endpoint of that region"))
      << "it was found out already";
  Expect(Answer(kHead, 307), Code::kInvalid, NextStep::kGiveUp);
  Expect(Answer(kGet, 400, "AuthorizationHeaderMalformed"), Code::kInvalid, NextStep::kGiveUp);
}

TEST_F(S3FailureTest, NonsenseIsTriedAgainAFewTimes) {
  Expect(Answer(kGet, 304), Code::kUnavailable, NextStep::kRetryFewTimes);
  Expect(FailureOfContent({kGet, origin_, "k", nullptr}, Error{Code::kCorrupt, "x"}),
         Code::kCorrupt, NextStep::kRetryFewTimes);
  Expect(FailureOfContent({kGet, origin_, "k", nullptr}, Error{Code::kStale, "x"}), Code::kStale,
         NextStep::kGiveUp);
}

TEST_F(S3FailureTest, EveryBrokenTransportHasItsNextStep) {
  using Kind = TransportEnd::Kind;
  const auto of = [&](Kind kind) {
    return FailureOfTransport({kGet, origin_, "k", nullptr}, {kind, "detail"});
  };
  for (const Kind kind :
       {Kind::kNoName, Kind::kNoConnection, Kind::kBroken, Kind::kNoFirstByte, Kind::kStalled}) {
    Expect(of(kind), Code::kUnavailable, NextStep::kRetry);
    EXPECT_THAT(of(kind).error.message, AllOf(HasSubstr("http://s3.lab"), HasSubstr("detail")));
  }
  EXPECT_THAT(of(Kind::kNoConnection).error.message, HasSubstr("check the endpoint"));
  EXPECT_EQ(of(Kind::kStalled).reason, RetryReason::kTimeout);
  EXPECT_EQ(of(Kind::kNoName).reason, RetryReason::kDns);
  EXPECT_THAT(of(Kind::kNoName).error.message, HasSubstr("the name service of this machine"));
  Expect(of(Kind::kUntrusted), Code::kInvalid, NextStep::kGiveUp);
  Expect(of(Kind::kNoBundle), Code::kInvalid, NextStep::kGiveUp);
  Expect(of(Kind::kUnusable), Code::kInvalid, NextStep::kGiveUp);
  Expect(of(Kind::kStopped), Code::kUnavailable, NextStep::kGiveUp);
  Expect(of(Kind::kQueueFull), Code::kOverloaded, NextStep::kGiveUp);
}

TEST_F(S3FailureTest, ADenialNamesTheRightThatItNeedsAndTheOwner) {
  EXPECT_THAT(Answer(kList, 403, "AccessDenied").error.message,
              AllOf(HasSubstr("allow s3:ListBucket"), Not(HasSubstr("s3:GetObject"))));
  origin_.expected_owner = "123456789012";
  EXPECT_THAT(Answer(kGet, 403, "AccessDenied").error.message,
              AllOf(HasSubstr("allow s3:GetObject"), HasSubstr("account 123456789012"),
                    HasSubstr("key id AKID from profile 'x', region home-1"),
                    HasSubstr("at http://s3.lab"), Not(HasSubstr("hunter"))));
}

TEST_F(S3FailureTest, ARedirectNamesTheHostAndNoMoreOfIt) {
  ResponseHead head;
  head.status = 307;
  head.location = "https://elsewhere.example/data/key?X-Amz-Signature=hunter4";
  const Failure failure =
      FailureOfAnswer({kGet, origin_, "key", &credentials_}, head, ParseErrorBody(""));
  Expect(failure, Code::kInvalid, NextStep::kGiveUp);
  EXPECT_THAT(failure.error.message,
              AllOf(HasSubstr("pointed to https://elsewhere.example, where no request is sent"),
                    Not(HasSubstr("hunter"))));
}

}  // namespace
}  // namespace forebay
