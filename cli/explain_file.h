#pragma once

#include <cstdint>
#include <string>

#include "cli/console.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// What `explain PATH` prints about one file. `now_unix_s` is what ages count from. False: a node
/// or S3 did not answer, and something is not known.
bool PrintExplainedFile(const Console& console, const proto::ExplainReply& file,
                        std::int64_t now_unix_s);

/// The answer in a sentence: what a read costs now and why, and what to do about it.
std::string SumUp(const proto::ExplainReply& file, std::int64_t now_unix_s);

}  // namespace forebay
