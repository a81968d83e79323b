#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/snapshot/snapshot.h"
#include "coordinator/preload_ledger.h"
#include "coordinator/preload_plan.h"
#include "coordinator/task_book.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

// How a preload stands in its records, and for people.

/// Kinds of tasks: a preload that somebody asked for, and a background fill.
inline constexpr const char* kPreloadKind = "preload";
inline constexpr const char* kFillKind = "fill";

/// Key of a PreloadRecord.
std::string PreloadKey(const std::string& task_id);

/// True when both ask for the same: then the second one joins the first.
bool IsSamePreload(const proto::PreloadRecord& a, const proto::PreloadRecord& b);

void PutCounts(proto::TaskState& task, const PreloadCounts& counts);
PreloadCounts CountsOf(const proto::TaskState& task);

/// Why a preload of which objects failed is no success; "" when none did.
std::string FailureText(const proto::TaskState& task, const proto::TaskFailures& failures);

/// What failed, as people read it. Reads the snapshot: call it on Offload.
std::vector<proto::TaskFailure> Describe(const Snapshot& snapshot,
                                         const std::vector<PreloadLedger::FailedObject>& failed);

/// forebay_preload_bytes.
void ReportPreloads(const TaskBook& tasks, MetricSamples& samples);

/// Files and folders that hold what the plan of `record` takes: few where they can be. Reads the
/// snapshot.
std::vector<SnapshotRow> RootsOf(const proto::PreloadRecord& record, const PreloadPlan& plan);

}  // namespace forebay
