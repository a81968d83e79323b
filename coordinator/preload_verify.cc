#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/wire/messages.h"
#include "coordinator/preload_records.h"
#include "coordinator/preloader.h"
#include "coordinator/upload_check.h"

namespace forebay {

/// After all is cached: is it what was uploaded?
Task<Status> Preloader::CheckUploads(JobPtr job, PlanPtr plan) {
  const std::optional<Link> link = parts_.links.FindById(UuidFromBytes(job->record.link()));
  if (!link) co_return Fail(Code::kNotFound, "the link was removed");
  UploadCheck::Parts parts{.call = parts_.call,
                           .origin = parts_.origin,
                           .offload = parts_.offload,
                           .nodes = parts_.membership.UpNodes(),
                           .stopped = [this, job] { return stopping_ || job->cancelled; },
                           .patience = parts_.patience};
  const auto check = std::make_shared<UploadCheck>(std::move(parts), link->spec, plan);
  Status checked = co_await check->Run();
  if (!checked) co_return checked;
  PreloadCounts counts = job->run->progress().counts;
  std::vector<PreloadLedger::FailedObject> failed;
  for (const UploadCheck::Failure& failure : check->failures()) {
    failed.push_back({.row = failure.row, .reason = failure.reason});
    counts.objects -= std::min<std::uint64_t>(counts.objects, 1);
    counts.failed += 1;
    counts.bytes -= std::min(counts.bytes, failure.bytes);
    counts.failed_bytes += failure.bytes;
  }
  proto::TaskVerification& verification = *job->task.mutable_verification();
  verification.set_verified(check->counts().verified);
  verification.set_without_checksum(check->counts().without);
  verification.set_mismatched(check->counts().mismatched);
  verification.set_not_cached(check->counts().not_cached);
  job->verified_counts = counts;
  if (failed.empty()) co_return Status();
  auto note = [this, plan, id = job->task.id(), failed = std::move(failed)]() -> Status {
    parts_.tasks.AddFailures(id, Describe(*plan->snapshot, failed));
    return {};
  };
  Status noted = co_await parts_.offload.Run(std::move(note));
  co_return noted;
}

}  // namespace forebay
