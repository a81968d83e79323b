#include "common/wire/rpc_metrics.h"

namespace forebay {

void ReportRpc(const RpcServer::Counters& counters, MetricSamples& samples) {
  const auto number = [](const std::atomic<std::uint64_t>& count) {
    return static_cast<double>(count.load(std::memory_order_relaxed));
  };
  samples.Set(metric::kRpcConnections, {}, number(counters.connections));
  samples.Set(metric::kRpcRequests, {}, number(counters.calls));
  samples.Set(metric::kAdminActions, {"done"}, number(counters.audited_done));
  samples.Set(metric::kAdminActions, {"failed"}, number(counters.audited_failed));
  samples.Set(metric::kRpcRefused, {"handshake"}, number(counters.handshakes_refused));
  samples.Set(metric::kRpcRefused, {"request"}, number(counters.calls_denied));
  samples.Set(metric::kRpcRefused, {"overload"}, number(counters.calls_overloaded));
  samples.Set(metric::kRpcRefused, {"frame"}, number(counters.protocol_errors));
}

void ReportTrust(const Trust* trust, MetricSamples& samples) {
  if (trust == nullptr) return;
  samples.Set(metric::kCertificateExpiry, {}, static_cast<double>(trust->ends_unix_s()));
  samples.Set(metric::kRenewalFailing, {}, trust->renewal_failure().empty() ? 0 : 1);
}

}  // namespace forebay
