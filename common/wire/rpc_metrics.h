#pragma once

#include "common/base/metrics.h"
#include "common/trust/tls.h"
#include "common/wire/server.h"

namespace forebay {

/// What a server has done, at one scrape: the forebay_rpc_… metrics.
void ReportRpc(const RpcServer::Counters& counters, MetricSamples& samples);

/// When the program's certificate ends, and whether it is renewed; nothing without one.
void ReportTrust(const Trust* trust, MetricSamples& samples);

}  // namespace forebay
