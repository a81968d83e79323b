#include "fuse-client/job_cgroup.h"

#include <algorithm>

namespace forebay {

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kUidLetters = "0123456789abcdefABCDEF-";
constexpr std::size_t kMaxSlurmDigits = 10;  // job ids are 32 bits wide
constexpr std::size_t kUidBytes = 36;
constexpr std::size_t kStaticPodUidBytes = 32;

/// Takes the text up to the next `separator` off `text`.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

/// "job_123" -> "123".
std::optional<std::string> SlurmJobOf(std::string_view folder) {
  constexpr std::string_view kPrefix = "job_";
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  folder.remove_prefix(kPrefix.size());
  const bool number = !folder.empty() && folder.size() <= kMaxSlurmDigits &&
                      folder.find_first_not_of(kDigits) == std::string_view::npos;
  return number ? std::optional(std::string(folder)) : std::nullopt;
}

/// "pod1234-…" or "kubepods-burstable-pod1234_….slice" -> "1234-…".
std::optional<std::string> PodOf(std::string_view folder) {
  constexpr std::string_view kSlice = ".slice";
  constexpr std::string_view kPod = "pod";
  // containerd without the systemd driver writes SLICE:PREFIX:CONTAINER.
  folder = folder.substr(0, folder.find(':'));
  if (folder.ends_with(kSlice)) {
    folder.remove_suffix(kSlice.size());
    const std::size_t last = folder.rfind('-');
    if (last == std::string_view::npos) return std::nullopt;
    folder.remove_prefix(last + 1);
  }
  if (!folder.starts_with(kPod)) return std::nullopt;
  std::string uid(folder.substr(kPod.size()));
  std::ranges::replace(uid, '_', '-');
  const bool right_size = uid.size() == kUidBytes || uid.size() == kStaticPodUidBytes;
  if (!right_size || uid.find_first_not_of(kUidLetters) != std::string::npos) return std::nullopt;
  return uid;
}

struct JobsOfPath {
  std::optional<std::string> slurm;
  std::optional<std::string> pod;
};

JobsOfPath Look(std::string_view path) {
  JobsOfPath found;
  bool below_slurm = false;
  bool below_kubepods = false;
  while (!path.empty()) {
    const std::string_view folder = TakeUntil(path, '/');
    if (below_slurm) {
      if (std::optional<std::string> job = SlurmJobOf(folder)) found.slurm = std::move(job);
    }
    below_kubepods = below_kubepods || folder.find("kubepods") != std::string_view::npos;
    if (below_kubepods) {
      if (std::optional<std::string> pod = PodOf(folder)) found.pod = std::move(pod);
    }
    below_slurm = below_slurm || folder.find("slurm") != std::string_view::npos;
  }
  return found;
}

}  // namespace

std::optional<std::string> JobOfCgroups(std::string_view cgroup_text) {
  std::optional<std::string> pod;
  while (!cgroup_text.empty()) {
    std::string_view line = TakeUntil(cgroup_text, '\n');
    // "ID:CONTROLLERS:PATH"; a path may have colons in it.
    TakeUntil(line, ':');
    TakeUntil(line, ':');
    JobsOfPath found = Look(line);
    if (found.slurm) return std::move(found.slurm);
    if (!pod) pod = std::move(found.pod);
  }
  return pod;
}

}  // namespace forebay
