#pragma once

#include "common/base/metrics.h"
#include "common/wire/server.h"

namespace forebay {

/// What a server has done, at one scrape: the forebay_rpc_… metrics.
void ReportRpc(const RpcServer::Counters& counters, MetricSamples& samples);

}  // namespace forebay
