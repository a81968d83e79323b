#include "coordinator/preload_records.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "common/s3/list_parser.h"

namespace forebay {
namespace {

/// A report of 1,000 failures stays below a megabyte.
constexpr std::size_t kMaxReasonBytes = 300;

}  // namespace

std::string PreloadKey(const std::string& task_id) { return "preload/" + task_id; }

bool IsSamePreload(const proto::PreloadRecord& a, const proto::PreloadRecord& b) {
  const bool same_lists = a.names_file().empty() == b.names_file().empty() &&
                          a.order_file().empty() == b.order_file().empty() &&
                          a.names_digest() == b.names_digest() &&
                          a.order_digest() == b.order_digest();
  return same_lists && a.link() == b.link() && a.path() == b.path() && a.verify() == b.verify() &&
         a.bytes_per_second() == b.bytes_per_second() && a.until_ratio() == b.until_ratio() &&
         a.spare() == b.spare();
}

void PutCounts(proto::TaskState& task, const PreloadCounts& counts) {
  task.set_done(counts.objects);
  task.set_bytes(counts.bytes);
  task.set_failed(counts.failed);
  task.set_failed_bytes(counts.failed_bytes);
  task.set_not_kept(counts.not_kept);
  task.set_not_kept_bytes(counts.not_kept_bytes);
  task.set_fetched_blocks(counts.fetched_blocks);
  task.set_fetched_bytes(counts.fetched_bytes);
}

PreloadCounts CountsOf(const proto::TaskState& task) {
  return PreloadCounts{.objects = task.done(),
                       .bytes = task.bytes(),
                       .failed = task.failed(),
                       .failed_bytes = task.failed_bytes(),
                       .not_kept = task.not_kept(),
                       .not_kept_bytes = task.not_kept_bytes(),
                       .fetched_blocks = task.fetched_blocks(),
                       .fetched_bytes = task.fetched_bytes()};
}

std::string FailureText(const proto::TaskState& task, const proto::TaskFailures& failures) {
  if (task.failed() == 0) return "";
  std::string text =
      fmt::format("{} of {} objects could not be fetched", task.failed(), task.total());
  if (!failures.failures().empty()) {
    const proto::TaskFailure& first = failures.failures(0);
    text += fmt::format(", the first of them '{}': {}", Printable(first.key()), first.reason());
  }
  return text;
}

std::vector<proto::TaskFailure> Describe(const Snapshot& snapshot,
                                         const std::vector<PreloadLedger::FailedObject>& failed) {
  std::vector<proto::TaskFailure> failures;
  for (const PreloadLedger::FailedObject& object : failed) {
    const std::optional<SnapshotRow> row = snapshot.RowAt(object.row);
    if (!row) continue;
    proto::TaskFailure failure;
    failure.set_key(snapshot.KeyOf(*row));
    failure.set_reason(object.reason.substr(0, kMaxReasonBytes));
    failures.push_back(std::move(failure));
  }
  return failures;
}

void ReportPreloads(const TaskBook& tasks, MetricSamples& samples) {
  // The sum of those that run; where none does, the one that began last.
  struct Sum {
    bool running = false;
    std::uint64_t total = 0, done = 0, not_kept = 0, failed = 0;
  };
  std::map<std::string, Sum> links;
  for (const proto::TaskState& task : tasks.All()) {
    if (task.kind() != kPreloadKind) continue;
    Sum& sum = links[task.link()];
    const bool running = task.ended_unix_s() == 0;
    if (sum.running && !running) continue;
    if (!sum.running) sum = Sum();
    sum.running = running;
    sum.total += task.total_bytes();
    sum.done += task.bytes();
    sum.not_kept += task.not_kept_bytes();
    sum.failed += task.failed_bytes();
  }
  for (const auto& [link, sum] : links) {
    samples.Set(metric::kPreloadBytes, {link, "total"}, static_cast<double>(sum.total));
    samples.Set(metric::kPreloadBytes, {link, "done"}, static_cast<double>(sum.done));
    samples.Set(metric::kPreloadBytes, {link, "not_kept"}, static_cast<double>(sum.not_kept));
    samples.Set(metric::kPreloadBytes, {link, "failed"}, static_cast<double>(sum.failed));
  }
}

std::vector<SnapshotRow> RootsOf(const proto::PreloadRecord& record, const PreloadPlan& plan) {
  std::vector<SnapshotRow> roots;
  const auto add = [&](const std::optional<SnapshotRow>& row) {
    if (row) roots.push_back(*row);
  };
  if (record.names_file().empty()) {
    add(plan.snapshot->Resolve(record.path()));
    return roots;
  }
  for (const RowRange& rows : plan.rows) {
    for (std::uint32_t index = rows.begin; index < rows.end; ++index) {
      const std::optional<SnapshotRow> row = plan.snapshot->RowAt(index);
      if (row && !row->is_directory()) roots.push_back(*row);
    }
  }
  return roots;
}

}  // namespace forebay
