#include "common/config/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

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

// The first CPUs are those that most machines have interrupts on.
bool KeepToCpus(std::size_t most) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return false;
  auto more = static_cast<std::size_t>(CPU_COUNT(&cpus));
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && more > most; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    CPU_CLR(cpu, &cpus);
    --more;
  }
  // This thread first: what it starts from now on inherits it.
  if (::sched_setaffinity(0, sizeof(cpus), &cpus) != 0) return false;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const pid_t thread = static_cast<pid_t>(std::stol(task.path().filename().string()));
    // One that has ended meanwhile needs no CPU.
    if (::sched_setaffinity(thread, sizeof(cpus), &cpus) != 0 && errno != ESRCH) return false;
  }
  return !error;
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
