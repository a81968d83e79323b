#pragma once

#include "common/base/metrics.h"
#include "common/s3/s3_client.h"

namespace forebay {

/// What an S3 client has done, at one scrape: forebay_s3_requests_total and
/// forebay_s3_retries_total.
void ReportS3(const S3Counters& counters, MetricSamples& samples);

}  // namespace forebay
