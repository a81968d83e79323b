#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/link.h"
#include "common/s3/credentials.h"
#include "common/s3/curl_engine.h"
#include "common/s3/list_parser.h"
#include "common/s3/response_checks.h"
#include "common/s3/retry.h"

namespace forebay {

/// kGetVersion and kHeadVersion ask for a version by its id, kVersions is a list of one key's
/// versions: they need rights of their own.
enum class S3Operation : std::uint8_t {
  kGet = 0,
  kList = 1,
  kHead = 2,
  kGetVersion = 3,
  kVersions = 4,
  kHeadVersion = 5
};
inline constexpr std::size_t kS3Operations = 6;
std::string_view S3OperationName(S3Operation operation);  ///< "GET".
/// The right that it needs, as AWS policies name it: "s3:GetObject". ops/iam-policy.json gives
/// these and no others.
std::string_view S3ActionOf(S3Operation operation);

/// What was asked of whom: the words of every message.
struct S3Question {
  S3Operation operation = S3Operation::kGet;
  const LinkOrigin& origin;
  std::string_view key;                 ///< The prefix of a LIST.
  const S3Credentials* used = nullptr;  ///< Null = anonymous.
};

/// What the client does about an attempt that failed.
enum class NextStep : std::uint8_t {
  kGiveUp,
  kRetry,                  ///< As long as the deadline allows.
  kRetryFewTimes,          ///< It may be a passing fault, but more likely it is always so.
  kNewCredentials,         ///< Look for newer keys; without any, give up.
  kAwaitNewerCredentials,  ///< Look for newer keys as long as the deadline allows.
};

struct Failure {
  Error error;  ///< The answer to the caller if this attempt was the last.
  NextStep next = NextStep::kGiveUp;
  RetryReason reason = RetryReason::kNetwork;
};

/// The one table from S3's answers to ours: for an answer that is no success.
Failure FailureOfAnswer(const S3Question& question, const ResponseHead& head,
                        const S3ErrorBody& body);

/// For a request that is not made, since S3 has just called the keys that it would use expired.
Failure FailureOfExpiredKeys(const S3Question& question);

/// For a success that is not what was asked for; `error` from CheckGetHead, ParseListPage ….
Failure FailureOfContent(const S3Question& question, const Error& error);

/// For an attempt without a complete answer. `end.kind` is neither kComplete nor kRefused.
Failure FailureOfTransport(const S3Question& question, const TransportEnd& end);

}  // namespace forebay
