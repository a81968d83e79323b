#include "common/s3/s3_metrics.h"

namespace forebay {

void ReportS3(const S3Counters& counters, MetricSamples& samples) {
  for (std::size_t op = 0; op < kS3Operations; ++op) {
    const std::string_view name = S3OperationName(static_cast<S3Operation>(op));
    samples.Set(metric::kS3Requests, {name, "ok"},
                static_cast<double>(counters.succeeded[op].load()));
    for (std::size_t code = 0; code < counters.failed[op].size(); ++code) {
      const auto failed = static_cast<double>(counters.failed[op][code].load());
      const std::string_view why = CodeName(static_cast<Code>(code + 1));
      if (failed > 0) samples.Set(metric::kS3Requests, {name, why}, failed);
    }
  }
  samples.Set(metric::kS3Checksums, {"match"},
              static_cast<double>(counters.checksums.matched.load()));
  samples.Set(metric::kS3Checksums, {"mismatch"},
              static_cast<double>(counters.checksums.differed.load()));
  for (std::size_t reason = 0; reason < kRetryReasons; ++reason) {
    samples.Set(metric::kS3Retries, {RetryReasonName(static_cast<RetryReason>(reason))},
                static_cast<double>(counters.retries[reason].load()));
  }
}

}  // namespace forebay
