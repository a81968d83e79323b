#include "common/s3/s3_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace forebay {
namespace {

enum class AnswerKind {
  kThrottled,
  kServerError,
  kExpired,
  kOldCredentials,
  kDenied,
  kNoKey,
  kNoBucket,
  kArchived,
  kOtherVersion,
  kOtherRegion,
  kWrongClock,
  kNotFromS3,
  kInvalid,
};

using CodeKind = std::pair<std::string_view, AnswerKind>;

// From "Error Responses" of the Amazon S3 API Reference; a code that is not here follows the
// status.
constexpr auto kCodes = std::to_array<CodeKind>({
    {"SlowDown", AnswerKind::kThrottled},
    {"ServiceUnavailable", AnswerKind::kThrottled},
    {"RequestLimitExceeded", AnswerKind::kThrottled},
    {"BandwidthLimitExceeded", AnswerKind::kThrottled},
    {"Throttling", AnswerKind::kThrottled},
    {"ThrottlingException", AnswerKind::kThrottled},
    {"TooManyRequests", AnswerKind::kThrottled},
    {"InternalError", AnswerKind::kServerError},
    {"RequestTimeout", AnswerKind::kServerError},
    {"OperationAborted", AnswerKind::kServerError},
    {"ExpiredToken", AnswerKind::kExpired},
    {"ExpiredTokenException", AnswerKind::kExpired},
    {"TokenRefreshRequired", AnswerKind::kExpired},
    {"InvalidToken", AnswerKind::kOldCredentials},
    {"InvalidAccessKeyId", AnswerKind::kOldCredentials},
    {"SignatureDoesNotMatch", AnswerKind::kOldCredentials},
    {"AccessDenied", AnswerKind::kDenied},
    {"AllAccessDisabled", AnswerKind::kDenied},
    {"AccountProblem", AnswerKind::kDenied},
    {"RequestTimeTooSkewed", AnswerKind::kWrongClock},
    {"NoSuchKey", AnswerKind::kNoKey},
    {"NoSuchVersion", AnswerKind::kNoKey},
    {"NoSuchBucket", AnswerKind::kNoBucket},
    {"InvalidBucketName", AnswerKind::kNoBucket},
    {"InvalidObjectState", AnswerKind::kArchived},
    {"NotImplemented", AnswerKind::kInvalid},  // a 501, which asking again does not change
    {"PreconditionFailed", AnswerKind::kOtherVersion},
    {"InvalidRange", AnswerKind::kOtherVersion},
    {"AuthorizationHeaderMalformed", AnswerKind::kOtherRegion},
    {"PermanentRedirect", AnswerKind::kOtherRegion},
    {"TemporaryRedirect", AnswerKind::kOtherRegion},
    {"IllegalLocationConstraintException", AnswerKind::kOtherRegion},
});

AnswerKind KindOfStatus(S3Operation operation, int status) {
  // A HEAD's error has no body and so no code: 400 and 403 may then be a token that expired.
  const bool silent = operation == S3Operation::kHead || operation == S3Operation::kHeadVersion;
  switch (status) {
    case 301:
    case 302:
    case 307:
    case 308:
      return AnswerKind::kOtherRegion;
    case 400:
      return silent ? AnswerKind::kOldCredentials : AnswerKind::kInvalid;
    case 401:
    case 403:
      return silent ? AnswerKind::kOldCredentials : AnswerKind::kDenied;
    case 404:
      // "Unknown is not absent": a 404 that S3 did not write says nothing about the object. That to
      // a HEAD has no body, by which to know it: see IsFromS3.
      return silent ? AnswerKind::kNoKey : AnswerKind::kNotFromS3;
    case 408:
      return AnswerKind::kServerError;
    case 412:
    case 416:  // the object became shorter, on a store that does not look at If-Match
      return AnswerKind::kOtherVersion;
    case 429:
    case 503:
      return AnswerKind::kThrottled;
    default:
      break;
  }
  if (status >= 500) return AnswerKind::kServerError;
  // 304 answers a question that was not asked; so do unknown 2xx and 3xx.
  return status >= 400 ? AnswerKind::kInvalid : AnswerKind::kNotFromS3;
}

// S3 and all that speak like it number their answers, or describe them as XML even without a body.
// A load balancer before them does neither.
bool IsFromS3(const ResponseHead& head) {
  return !head.request_id.empty() || head.content_type.starts_with("application/xml");
}

AnswerKind KindOf(S3Operation operation, const ResponseHead& head, std::string_view code) {
  const auto* known = std::ranges::find(kCodes, code, &CodeKind::first);
  if (known != kCodes.end()) return known->second;
  const AnswerKind kind = KindOfStatus(operation, head.status);
  return kind == AnswerKind::kNoKey && !IsFromS3(head) ? AnswerKind::kNotFromS3 : kind;
}

std::string Where(const S3Question& question) {
  return fmt::format("{} of s3://{}/{} at {}", S3OperationName(question.operation),
                     question.origin.bucket, Printable(question.key), question.origin.endpoint);
}

// What says which file of certificates vouches for S3, first things first.
std::string BundleSettings(const S3Question& question) {
  const std::string& profile = question.origin.profile;
  if (profile.empty()) return "--s3-ca-bundle or AWS_CA_BUNDLE";
  return fmt::format(
      "--s3-ca-bundle, AWS_CA_BUNDLE or ca_bundle of profile '{}' in the AWS files of this "
      "program's user",
      profile);
}

std::string Said(const ResponseHead& head, const S3ErrorBody& body) {
  std::string said = fmt::format("S3 answered {}", head.status);
  if (!body.code.empty()) said += " " + body.code;
  if (!body.message.empty()) said += fmt::format(" ({})", body.message);
  return said;
}

std::string Who(const S3Question& question) {
  if (question.used == nullptr) return "an anonymous request";
  return fmt::format("key id {} from {}, region {}", question.used->key_id, question.used->provider,
                     question.origin.region);
}

Failure GiveUp(Code code, std::string message) {
  return {.error = Error{code, std::move(message)}, .next = NextStep::kGiveUp, .reason = {}};
}

Failure Retry(RetryReason reason, Code code, std::string message) {
  return {.error = Error{code, std::move(message)}, .next = NextStep::kRetry, .reason = reason};
}

// Without path and query, which may hold a signature.
std::string_view HostOfUrl(std::string_view url) {
  const std::size_t scheme = url.find("://");
  return url.substr(0, url.find_first_of("/?#", scheme == std::string_view::npos ? 0 : scheme + 3));
}

// S3 denies an object whose key of KMS the reader may not use with words of its own: "... is not
// authorized to perform: kms:Decrypt on resource: arn:aws:kms:...", or "The ciphertext refers to a
// customer master key that ... you are not allowed to access."
bool SpeaksOfKms(std::string_view message) {
  return message.find("kms:") != std::string_view::npos ||
         message.find("KMS") != std::string_view::npos ||
         message.find("ciphertext refers to") != std::string_view::npos;
}

// What to look at when S3 denies something, saying `message`.
std::string DeniedAdvice(const S3Question& question, std::string_view message) {
  const std::string_view action = S3ActionOf(question.operation);
  if (question.used == nullptr) {
    return fmt::format(
        "it does not allow {} to everybody; link without --no-sign-request, for keys "
        "that may",
        action);
  }
  if (SpeaksOfKms(message)) {
    return fmt::format(
        "the object is encrypted with a key of KMS: besides {} its readers need kms:Decrypt for "
        "that key, by their own policy and by the key's",
        action);
  }
  std::string advice = fmt::format("check the keys, and that they allow {}", action);
  if (!question.origin.expected_owner.empty()) {
    advice +=
        fmt::format(", and that the bucket belongs to account {}", question.origin.expected_owner);
  }
  // S3 says the same of a bucket that wants its readers to pay.
  if (!question.origin.requester_pays)
    advice += "; if its requesters pay, link with --requester-pays";
  return advice;
}

Failure KeysExpired(const S3Question& question, std::string_view said) {
  Failure failure =
      Retry(RetryReason::kCredentials, Code::kUnavailable,
            fmt::format("{} to {}: these keys have expired; put newer ones where they come from",
                        said, Who(question)));
  // A request without keys has none that could be renewed.
  failure.next = question.used != nullptr ? NextStep::kAwaitNewerCredentials : NextStep::kGiveUp;
  return failure;
}

// What to do about a bucket that lies in `region`, where S3 said one, and was asked as one in
// `used`.
std::string RegionAdvice(const std::string& region, const std::string& used) {
  if (region.empty()) {
    return fmt::format("link it with the bucket's own --region and --endpoint-url, not {}", used);
  }
  if (region == used) {
    return fmt::format("the bucket is in region {}: link it with the endpoint of that region",
                       Printable(region));
  }
  return fmt::format("the bucket is in region {}: link it with --region {}, not {}",
                     Printable(region), Printable(region), used);
}

Failure OtherRegion(const S3Question& question, const ResponseHead& head, const S3ErrorBody& body) {
  const std::string& region = head.bucket_region.empty() ? body.region : head.bucket_region;
  std::string said = Said(head, body);
  if (!head.location.empty()) {
    // The keys were meant for the link's own endpoint and for nobody that it points to.
    said += fmt::format(" and pointed to {}, where no request is sent",
                        Printable(HostOfUrl(head.location)));
  }
  return GiveUp(Code::kInvalid, fmt::format("{}: {}; {}", Where(question), said,
                                            RegionAdvice(region, question.origin.region)));
}

// Who reads an older version takes kDenied for a right that is missing. Keys that have expired and
// clocks that are wrong say nothing about the version. A HEAD does not say which of these it is.
Code RefusalOf(S3Operation operation) {
  const bool is_old = operation == S3Operation::kGetVersion || operation == S3Operation::kVersions;
  return is_old ? Code::kUnavailable : Code::kDenied;
}

}  // namespace

std::string_view S3OperationName(S3Operation operation) {
  switch (operation) {
    case S3Operation::kGet:
      return "GET";
    case S3Operation::kList:
      return "LIST";
    case S3Operation::kHead:
      return "HEAD";
    case S3Operation::kGetVersion:
      return "GET_VERSION";
    case S3Operation::kVersions:
      return "VERSIONS";
    case S3Operation::kHeadVersion:
      return "HEAD_VERSION";
  }
  return "?";
}

std::string_view S3ActionOf(S3Operation operation) {
  switch (operation) {
    case S3Operation::kGet:
    case S3Operation::kHead:
      return "s3:GetObject";
    case S3Operation::kList:
      return "s3:ListBucket";
    case S3Operation::kGetVersion:
    case S3Operation::kHeadVersion:
      return "s3:GetObjectVersion";
    case S3Operation::kVersions:
      return "s3:ListBucketVersions";
  }
  return "?";
}

Failure FailureOfAnswer(const S3Question& question, const ResponseHead& head,
                        const S3ErrorBody& body) {
  const std::string said = fmt::format("{}: {}", Where(question), Said(head, body));
  switch (KindOf(question.operation, head, body.code)) {
    case AnswerKind::kThrottled:
      return Retry(RetryReason::kThrottled, Code::kOverloaded, said);
    case AnswerKind::kServerError:
      return Retry(RetryReason::kServerError, Code::kUnavailable, said);
    case AnswerKind::kExpired:
      return KeysExpired(question, said);
    case AnswerKind::kOldCredentials: {
      std::string advice = "check the keys, they may be wrong or expired";
      if (question.used == nullptr) {
        advice = DeniedAdvice(question, body.message);
      } else if (body.code.empty()) {  // the answer to a HEAD has no room for the reason
        advice += fmt::format(", or not allow {}", S3ActionOf(question.operation));
      }
      Failure failure = GiveUp(RefusalOf(question.operation),
                               fmt::format("{} to {}: {}", said, Who(question), advice));
      failure.reason = RetryReason::kCredentials;
      if (question.used != nullptr) failure.next = NextStep::kNewCredentials;
      return failure;
    }
    case AnswerKind::kDenied:
      return GiveUp(Code::kDenied, fmt::format("{} to {}: {}", said, Who(question),
                                               DeniedAdvice(question, body.message)));
    case AnswerKind::kWrongClock:
      return GiveUp(RefusalOf(question.operation),
                    fmt::format("{} to {}: the clock of this machine or of S3 is wrong; set it, by "
                                "NTP (chronyd, systemd-timesyncd)",
                                said, Who(question)));
    case AnswerKind::kNoKey:
      if (question.operation == S3Operation::kList) break;
      return GiveUp(Code::kNotFound, said);
    case AnswerKind::kNoBucket:
      if (question.operation != S3Operation::kList) return GiveUp(Code::kNotFound, said);
      return GiveUp(Code::kInvalid,
                    fmt::format("{}: there is no bucket '{}' there; check its name, and that the "
                                "endpoint is the one it is at (--endpoint-url, AWS_ENDPOINT_URL)",
                                said, question.origin.bucket));
    case AnswerKind::kArchived:
      return GiveUp(Code::kInvalid,
                    fmt::format("{}: the object is archived; restore it first", said));
    case AnswerKind::kOtherVersion:
      return GiveUp(Code::kStale, fmt::format("{}: the object has changed", said));
    case AnswerKind::kOtherRegion:
      return OtherRegion(question, head, body);
    case AnswerKind::kNotFromS3: {
      Failure failure =
          Retry(RetryReason::kBadAnswer, Code::kUnavailable,
                fmt::format("{}, which is no answer of S3: is that an S3 endpoint?", said));
      failure.next = NextStep::kRetryFewTimes;
      return failure;
    }
    case AnswerKind::kInvalid:
      break;
  }
  // Some stores say no more of a session token that they cannot read (Ceph: InvalidArgument).
  const bool has_token = question.used != nullptr && !question.used->session_token.Reveal().empty();
  if (head.status == 400 && has_token) {
    return GiveUp(
        Code::kInvalid,
        fmt::format("{} to {}: check the keys, their session token may be wrong or expired", said,
                    Who(question)));
  }
  return GiveUp(Code::kInvalid, said);
}

Failure FailureOfExpiredKeys(const S3Question& question) {
  return KeysExpired(question, Where(question) + ": S3 answered ExpiredToken a moment ago");
}

Failure FailureOfContent(const S3Question& question, const Error& error) {
  Failure failure;
  failure.error = error.Within(Where(question));
  failure.reason = RetryReason::kBadAnswer;
  failure.next = error.code == Code::kCorrupt ? NextStep::kRetryFewTimes : NextStep::kGiveUp;
  return failure;
}

Failure FailureOfTransport(const S3Question& question, const TransportEnd& end) {
  const std::string what = fmt::format("{}: {}", Where(question), end.detail);
  switch (end.kind) {
    case TransportEnd::Kind::kNoFirstByte:
    case TransportEnd::Kind::kStalled:
      return Retry(RetryReason::kTimeout, Code::kUnavailable, what);
    case TransportEnd::Kind::kNoName:
      return Retry(RetryReason::kDns, Code::kUnavailable,
                   what +
                       "; check the name of the endpoint (--endpoint-url, AWS_ENDPOINT_URL) or of "
                       "the proxy, and the name service of this machine");
    case TransportEnd::Kind::kNoConnection:
      return Retry(RetryReason::kNetwork, Code::kUnavailable,
                   what +
                       "; check the endpoint (--endpoint-url, AWS_ENDPOINT_URL), and that "
                       "firewall and proxy let it through");
    case TransportEnd::Kind::kBroken:
      return Retry(RetryReason::kNetwork, Code::kUnavailable, what);
    case TransportEnd::Kind::kUntrusted:
      return GiveUp(Code::kInvalid,
                    fmt::format("{}: its certificate is not trusted; give the right {}", what,
                                BundleSettings(question)));
    case TransportEnd::Kind::kNoBundle:
      return GiveUp(Code::kInvalid,
                    fmt::format("{}: the file of certificates cannot be used; correct it, or give "
                                "another one as {}",
                                what, BundleSettings(question)));
    case TransportEnd::Kind::kUnusable:
      return GiveUp(Code::kInvalid, what);
    case TransportEnd::Kind::kStopped:
      return GiveUp(Code::kUnavailable, what);
    case TransportEnd::Kind::kQueueFull:
      return GiveUp(Code::kOverloaded, what);
    case TransportEnd::Kind::kComplete:
    case TransportEnd::Kind::kRefused:
      break;
  }
  return GiveUp(Code::kInternal, fmt::format("{}: a complete answer is no failure", what));
}

}  // namespace forebay
