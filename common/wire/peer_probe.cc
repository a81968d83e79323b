#include "common/wire/peer_probe.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "common/base/executors.h"
#include "common/model/limits.h"
#include "proto/coordinator.pb.h"

namespace forebay {

Task<bool> AnswersProbe(ClientPool* pool, std::string address, Deadline deadline) {
  // So that the answer is a number and not a table.
  proto::GetRingRequest request;
  request.set_have_epoch(std::numeric_limits<std::uint64_t>::max());
  const Result<RpcReply> reply =
      co_await pool->Call(std::move(address), Method::kGetRing, request, deadline);
  co_return reply.has_value();
}

Task<bool> ProbeUntilBack(ClientPool* pool, std::string address, ProbePauses pauses,
                          std::function<bool()> over) {
  std::minstd_rand random(std::random_device{}());
  Duration pause = pauses.first;
  while (!over()) {
    const bool answers = co_await AnswersProbe(pool, address, Deadline::After(kSilence));
    if (answers) co_return true;
    std::uniform_int_distribution<Duration::rep> pick(pause.count() / 4, pause.count());
    const TimePoint next = Clock::now() + Duration(pick(random));
    // In short steps, so that nobody who stops waits for the pause.
    while (!over() && Clock::now() < next) {
      const Duration step = std::min<Duration>(next - Clock::now(), std::chrono::milliseconds(100));
      co_await SleepFor(step);
    }
    pause = std::min(pause * 2, pauses.longest);
  }
  co_return false;
}

}  // namespace forebay
