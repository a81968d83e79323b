#pragma once

#include <cstdint>
#include <string>

namespace forebay {

/// Bytes.
struct FreeMemory {
  std::uint64_t total = 0;
  std::uint64_t available = 0;  ///< Without pushing out what is in use.

  bool operator==(const FreeMemory&) const = default;
};

/// Where the kernel tells of it.
struct MemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string own_cgroups = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
};

/// What this process may still take: of the machine, or of the tightest control group around it
/// (cgroups(7), versions 1 and 2; its own and all above, as far as they can be seen), whichever has
/// less available. Pages that a process puts into the page cache are charged to its group. What a
/// group's file cache holds and nobody has used lately counts as available, as MemAvailable does.
/// Zeros where not even meminfo can be read.
FreeMemory FreeMemoryNow(const MemoryFiles& files = {});

}  // namespace forebay
