#include "coordinator/connection_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/model/limits.h"

namespace forebay {

std::size_t ConnectionsWithin(std::size_t descriptors) {
  return std::clamp(descriptors / 2, kMaxConnections, kMaxCoordinatorConnections);
}

std::size_t CoordinatorConnections() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return kMaxConnections;
  return ConnectionsWithin(descriptors.rlim_cur);
}

}  // namespace forebay
