#include "cli/job_table.h"

#include <chrono>
#include <string>

#include "cli/cluster_stats.h"
#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {

Table MakeJobTable() {
  return Table({{.heading = "JOB"},
                {.heading = "LINK"},
                {.heading = "GENERATION", .right = true},
                {.heading = "MOUNTS", .right = true},
                {.heading = "EPOCH", .right = true},
                {.heading = "PROGRESS", .right = true},
                {.heading = "READS", .right = true},
                {.heading = "HIT-RATIO", .right = true},
                {.heading = "STALLED", .right = true}});
}

std::vector<Cell> JobRow(const proto::JobStats& job) {
  const bool reported = job.has_waits();
  const bool epoch_known = job.epoch() != 0;
  const std::chrono::duration<double> stalled(StallSeconds(job));
  return {
      Cell(job.id()),
      Cell(job.link()),
      Cell(std::to_string(job.generation())),
      Cell(reported ? std::to_string(job.mounts()) : "-"),
      Cell(epoch_known ? std::to_string(job.epoch()) : "-"),
      Cell(epoch_known ? HumanPercent(job.progress()) : "-"),
      Cell(HumanCount(job.reads())),
      Cell(job.reads() == 0 ? "-" : HumanPercent(HitRatio(job.hits(), job.reads()))),
      Cell(reported ? HumanDuration(std::chrono::duration_cast<std::chrono::milliseconds>(stalled))
                    : "-")};
}

}  // namespace forebay
