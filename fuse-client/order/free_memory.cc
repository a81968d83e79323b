#include "fuse-client/order/free_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

namespace forebay {
namespace {

/// The names that one version of control groups gives to the same things.
struct GroupFiles {
  std::string_view limit;
  std::string_view usage;
  std::string_view idle_cache;  ///< A line of memory.stat.
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

/// Nothing for "max", and where there is no such file.
std::optional<std::uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

std::uint64_t LineOf(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == wanted) return value;
  }
  return 0;
}

/// proc(5), "/proc/meminfo".
FreeMemory OfMachine(const std::string& path) {
  FreeMemory memory;
  std::ifstream file(path);
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name == "MemTotal:") memory.total = kib << 10;
    if (name == "MemAvailable:") memory.available = kib << 10;
  }
  return memory;
}

std::optional<FreeMemory> OfGroup(const std::string& folder, const GroupFiles& names) {
  const auto path = [&](std::string_view name) { return folder + "/" + std::string(name); };
  const std::optional<std::uint64_t> limit = NumberIn(path(names.limit));
  const std::optional<std::uint64_t> usage = NumberIn(path(names.usage));
  if (!limit || !usage) return std::nullopt;
  const std::uint64_t idle = LineOf(path("memory.stat"), names.idle_cache);
  const std::uint64_t used = *usage - std::min(*usage, idle);
  return FreeMemory{.total = *limit, .available = *limit - std::min(*limit, used)};
}

/// Its own group and those above it. A container sees itself as the root, or has a path of its host
/// of which it sees the end alone: what is not there is passed over.
void Confine(FreeMemory& memory, const std::string& root, std::string path,
             const GroupFiles& names) {
  for (;;) {
    const std::optional<FreeMemory> group = OfGroup(root + path, names);
    if (group && group->available < memory.available) memory = *group;
    if (path.empty()) return;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

FreeMemory FreeMemoryNow(const MemoryFiles& files) {
  FreeMemory memory = OfMachine(files.meminfo);
  std::ifstream own(files.own_cgroups);
  std::string line;
  while (std::getline(own, line)) {
    // "ID:CONTROLLERS:PATH"; a path may have colons in it.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (!path.starts_with('/')) continue;
    if (path == "/") path.clear();
    if (controllers == ",,") Confine(memory, files.cgroup_root, path, kVersion2);
    if (controllers.find(",memory,") != std::string::npos)
      Confine(memory, files.cgroup_root + "/memory", path, kVersion1);
  }
  return memory;
}

}  // namespace forebay
