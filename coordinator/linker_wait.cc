#include <spdlog/spdlog.h>

#include "coordinator/linker.h"

// What a listing does while S3 does not answer.
namespace forebay {

/// As configured; the task shows that it waits, and why.
S3Wait Linker::WaitOf(const Link& link) {
  S3Wait wait = parts_.listing.wait;
  wait.say = [this, task = link.task_id, name = link.spec.name](const Error* why) {
    const bool is_news = parts_.tasks.ShowWaiting(task, why == nullptr ? "" : why->message);
    if (is_news && why != nullptr)
      spdlog::warn("the listing of link '{}' waits for S3: {}", name, why->message);
    if (is_news && why == nullptr) spdlog::info("the listing of link '{}' goes on", name);
  };
  return wait;
}

}  // namespace forebay
