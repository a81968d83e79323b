#pragma once

#include <functional>
#include <string>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/wire/client_pool.h"

namespace forebay {

/// Between two questions to a silent node; a random part of it, growing from the first to the last.
struct ProbePauses {
  Duration first = std::chrono::milliseconds(500);
  Duration longest = std::chrono::seconds(3);
};

/// One question that costs a node next to nothing. True: it is alive, for it answered something.
Task<bool> AnswersProbe(ClientPool* pool, std::string address, Deadline deadline);

/// Asks until the node answers (true), or `over()` says that nobody wants to know any more (false),
/// which it is asked ten times a second. On the context of `pool`, which outlives it.
Task<bool> ProbeUntilBack(ClientPool* pool, std::string address, ProbePauses pauses,
                          std::function<bool()> over);

}  // namespace forebay
