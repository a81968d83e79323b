#include "coordinator/fill_budget.h"

#include <optional>
#include <string>
#include <utility>

#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr const char* kKey = "settings/fill_limits";

void Apply(const proto::SetFillLimitsRequest& request, std::int64_t now_unix_s,
           proto::ClusterFillLimits& limits) {
  // One budget at a time: bytes or requests.
  if (request.limit_case() != proto::SetFillLimitsRequest::LIMIT_NOT_SET) {
    limits.set_bytes_per_s(request.bytes_per_s());
    limits.set_requests_per_s(request.requests_per_s());
  }
  if (request.pause_case() == proto::SetFillLimitsRequest::PAUSE_NOT_SET) return;
  const bool is_paused = limits.paused_since_unix_s() != 0;
  if (request.paused() == is_paused) return;
  limits.set_paused_since_unix_s(request.paused() ? now_unix_s : 0);
}

}  // namespace

FillLimits ShareOf(const proto::FillLimitsRecord& record, double share) {
  return FillLimits{.bytes_per_s = share * static_cast<double>(record.limits().bytes_per_s()),
                    .requests_per_s = share * static_cast<double>(record.limits().requests_per_s()),
                    .paused_since_unix_s = record.limits().paused_since_unix_s(),
                    .version = record.version()};
}

Status FillBudget::Load() {
  Result<std::optional<std::string>> stored = store_.Get(kKey);
  if (!stored) return Fail(stored.error());
  if (!stored->has_value()) return {};
  const std::scoped_lock lock(mutex_);
  return DecodeRecord(**stored, record_);
}

Result<bool> FillBudget::Set(const proto::SetFillLimitsRequest& request, std::int64_t now_unix_s) {
  const std::scoped_lock changing(change_mutex_);
  proto::FillLimitsRecord next = record();
  const std::string before = next.limits().SerializeAsString();
  Apply(request, now_unix_s, *next.mutable_limits());
  if (next.limits().SerializeAsString() == before) return false;
  next.set_version(next.version() + 1);
  StateBatch batch;
  batch.Put(kKey, next.SerializeAsString());
  Status written = store_.Write(batch, fence_);
  if (!written) return Fail(written.error());
  const std::scoped_lock lock(mutex_);
  record_ = std::move(next);
  return true;
}

proto::FillLimitsRecord FillBudget::record() const {
  const std::scoped_lock lock(mutex_);
  return record_;
}

}  // namespace forebay
