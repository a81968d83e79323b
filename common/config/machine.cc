#include "common/config/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace forebay {

namespace {
/// The limit of the control group (version 2) that a container runs in, as it sees it itself.
/// Outside of containers the root group has none.
constexpr const char* kGroupLimit = "/sys/fs/cgroup/memory.max";
}  // namespace

std::size_t UsableCpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return std::clamp<std::size_t>(static_cast<std::size_t>(CPU_COUNT(&cpus)), 1, kMaxThreads);
}

std::uint64_t UsableMemory() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t memory = pages * page_bytes;
  std::ifstream file(kGroupLimit);
  std::uint64_t limit = 0;
  if (file >> limit && limit > 0) memory = std::min(memory, limit);
  return memory;
}

}  // namespace forebay
