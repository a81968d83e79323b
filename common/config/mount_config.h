#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/config/machine.h"
#include "common/model/limits.h"
#include "common/model/shard.h"

namespace forebay {

struct ConfigSection;

/// How a mount learns whose a read is.
enum class JobFrom : std::uint8_t {
  kCgroup,  ///< From the reader's cgroups, else the mount's own job.
  kMount,   ///< All reads are of the mount's own job.
};

/// Where a mount reads what a node of its machine holds.
enum class LocalReadsFrom : std::uint8_t {
  kFiles,    ///< Out of the node's files, where the node says.
  kSocket,   ///< Over the node's socket.
  kNetwork,  ///< As of a node of another machine.
};

/// How the kernel reads files (docs/SEMANTICS.md).
enum class MountMode : std::uint8_t { kAuto, kSmall, kLarge };

/// Where a mount keeps whole copies of the files that were opened.
struct LocalCopyFolder {
  std::string folder;       ///< Absolute. "" = none are kept.
  std::uint64_t bytes = 0;  ///< 0 = what the disk has.

  bool operator==(const LocalCopyFolder&) const = default;
};

/// "DIR", "DIR=SIZE" or "".
Result<LocalCopyFolder> ParseLocalCopy(const std::string& text);

/// Options of forebay-mount, [mount] in the file. What each means is in MountSection
/// (mount_config.cc) and docs/CONFIGURATION.md.
struct MountConfig {
  std::string source;      ///< LINK[/sub/path]. Required.
  std::string mountpoint;  ///< Required.
  std::vector<std::string> coordinator = {"127.0.0.1:7440"};
  bool foreground = false;
  std::string job_id;  ///< "" = this mount counts as a job of its own.
  JobFrom job_from = JobFrom::kCgroup;
  std::string zone;
  Shard shard;  ///< Of the objects that the mount would show.
  MountMode mode = MountMode::kAuto;
  LocalReadsFrom local_reads = LocalReadsFrom::kFiles;
  LocalCopyFolder local_copy;
  std::uint64_t local_copy_scrub_rate = 16ULL << 20;  ///< Bytes a second; 0 = never.
  bool allow_other = false;
  std::uint32_t uid = ::geteuid();
  std::uint32_t gid = ::getegid();
  std::uint32_t file_mode = 0644;
  std::uint32_t dir_mode = 0755;
  std::string local_socket;    ///< "" = in the runtime directory.
  std::string held_by;         ///< A holder's socket. "" = the mount ends with its processes.
  std::string state_dir;       ///< Never "" after LoadConfig.
  std::string metrics_listen;  ///< "" = none.
  std::chrono::milliseconds failover_timeout = kPeerPatience;
  std::chrono::milliseconds s3_timeout = std::chrono::seconds(300);  ///< Or kForever.
  std::size_t threads = UsableCpus();  ///< After LoadConfig at most cpu_limit.
  std::size_t cpu_limit = 0;           ///< 0 = all CPUs.
  std::uint64_t memory_limit = 512ULL << 20;
  std::uint64_t max_bandwidth = 0;  ///< Bytes a second from other machines; 0 = no bound.
};

/// The table of the members of `config`, which must outlive it.
ConfigSection MountSection(MountConfig& config);

}  // namespace forebay
