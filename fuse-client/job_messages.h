#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/deadline.h"
#include "fuse-client/job_reads.h"
#include "proto/coordinator.pb.h"

namespace forebay {

std::uint64_t Microseconds(Duration duration);

/// A job as it is told: to a coordinator, and to a successor of this process.
void WriteJob(const JobReads& job, const JobReads::View& view, const JobReads::Touches& touches,
              proto::MountJob& row);

/// The job that WriteJob wrote, which goes on from there.
std::shared_ptr<JobReads> JobOf(const proto::MountJob& row, const std::string& link_name);

}  // namespace forebay
