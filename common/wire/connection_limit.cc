#include "common/wire/connection_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/model/limits.h"

namespace forebay {

std::size_t ConnectionsWithin(std::size_t descriptors) {
  return std::clamp(descriptors / 2, kMaxConnections, kMostConnections);
}

std::size_t ConnectionsOfProcess(std::size_t spoken_for) {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return kMaxConnections;
  return ConnectionsWithin(descriptors.rlim_cur - std::min(descriptors.rlim_cur, spoken_for));
}

}  // namespace forebay
