#include "common/model/fence.h"

#include <fmt/format.h>

namespace forebay {

std::string DescribeFence(const Fence& fence) {
  std::string text = fmt::format("fencing epoch {}", fence.epoch);
  if (fence.state)
    text += fmt::format(", links {}, ring {}", fence.state->links, fence.state->ring);
  return text;
}

}  // namespace forebay
