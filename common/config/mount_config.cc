#include "common/config/mount_config.h"

#include <algorithm>
#include <limits>

#include "common/base/config_values.h"
#include "common/config/state_dir.h"
#include "common/model/limits.h"

namespace forebay {

namespace {

/// Some sixteen of the largest reads; with fewer, one reader keeps the others waiting.
constexpr std::uint64_t kMinMemory = 16ULL << 20;

bool IsPrintable(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return c == '\x7f' || static_cast<unsigned char>(c) < ' '; });
}

/// "" is all of them.
ConfigValue ShardValue(Shard& member) {
  return ConfigValue{
      .metavar = "I/N[,seed=S[,epoch=E]]",
      .set = [&member](const std::vector<std::string>& texts) -> Status {
        if (texts.front().empty()) {
          member = Shard();
          return {};
        }
        const Result<Shard> shard = Shard::Parse(texts.front());
        if (!shard) return Fail(shard.error());
        member = *shard;
        return {};
      },
      .show = [&member] { return TomlString(member.is_all() ? "" : member.ToString()); }};
}

ConfigValue LocalCopyValue(LocalCopyFolder& member) {
  return ConfigValue{.metavar = "DIR[=SIZE]",
                     .set = [&member](const std::vector<std::string>& texts) -> Status {
                       Result<LocalCopyFolder> folder = ParseLocalCopy(texts.front());
                       if (!folder) return Fail(std::move(folder.error()));
                       member = std::move(*folder);
                       return {};
                     },
                     .show =
                         [&member] {
                           return TomlString(member.bytes == 0
                                                 ? member.folder
                                                 : member.folder + "=" + FormatSize(member.bytes));
                         }};
}

std::vector<std::string> Finish(MountConfig& config, const Environment& environment) {
  std::vector<std::string> faults;
  if (config.cpu_limit != 0) config.threads = std::min(config.threads, config.cpu_limit);
  if (config.state_dir.empty()) config.state_dir = DefaultStateDir(environment, "mount", "");
  if (config.state_dir.empty()) {
    faults.emplace_back("state_dir is not set and neither is HOME; give --state-dir DIR");
  }
  if (config.job_id.size() > kMaxJobIdBytes || !IsPrintable(config.job_id)) {
    faults.push_back("job_id must be at most 255 bytes without control characters");
  }
  if (config.source.starts_with("s3://")) {
    faults.push_back("argument LINK: \"" + config.source +
                     "\" is no link; link it first: forebay link " + config.source +
                     " --as NAME, then forebay-mount NAME");
  }
  if (config.source.starts_with('/') && config.source != "/") {
    faults.push_back("argument LINK: \"" + config.source +
                     "\" begins with /; name a link as `forebay links` shows it, or give / alone "
                     "for every link");
  }
  return faults;
}

void AddWhat(ConfigSection& section, MountConfig& config) {
  section
      .Add("source", Text(config.source, "LINK[/sub/path]"),
           "The link to mount, or a directory inside it. / alone mounts every link that this "
           "client may see, each as a directory of its own; links that are made or removed later "
           "come and go within a few seconds.")
      .Required()
      .Positional("LINK[/sub/path]");
  section
      .Add("mountpoint", Text(config.mountpoint, "MOUNTPOINT"),
           "The directory to mount it on. It must exist.")
      .Required()
      .Positional("MOUNTPOINT");
  section.Add("coordinator", AddressList(config.coordinator),
              "Where the coordinator is. Without it a mount starts with the listing that it kept "
              "from last time.");
  section
      .Add(
          "foreground", Switch(config.foreground),
          "Stay in the foreground, log to standard error, and wait for a coordinator as long as it "
          "takes. Otherwise the command returns when the mount is ready, or fails after 30 s "
          "without a coordinator or a listing, and the log goes to the system's log or to [log] "
          "file. What has to be waited for is said on standard error at once.")
      .Short("-f");
  section
      .Add("job_id", Text(config.job_id, "ID"),
           "The training job of reads whose reader is in none that job_from knows: mounts of one "
           "job "
           "share it. Statistics are kept, and the cache is managed, for each job.")
      .Default("a job of the mount's own, named HOST:MOUNTPOINT");
  section.Add("job_from",
              Choice(config.job_from, {{"cgroup", JobFrom::kCgroup}, {"mount", JobFrom::kMount}}),
              "How a reader's job is found. With cgroup it is the Slurm job or the Kubernetes pod "
              "that the reading process belongs to by its cgroup, named by the job's number or the "
              "pod's uid, so that two jobs on one mount are two; other readers belong to job_id. "
              "With mount all reads belong to job_id: for a job that runs in many pods.");
  section.Add(
      "zone", Text(config.zone, "ZONE"),
      "The zone that this machine lies in, named as with forebay-node --zone: of links with "
      "replicas what a node of this zone keeps is read from it. What comes from another "
      "zone is counted.");
  section
      .Add("shard", ShardValue(config.shard),
           "Show the I-th of N parts of the files, I from 0 to N-1: together the N mounts of a job "
           "show each file once, and their numbers of files differ by one at most. With a seed "
           "the files are dealt otherwise for each seed and each epoch number. Directories are "
           "shown by all. With / each link is divided by itself.")
      .Default("all files");
}

void AddHolder(ConfigSection& section, MountConfig& config) {
  section
      .Add("held_by", Path(config.held_by, "SOCKET"),
           "Where a process `forebay-mount --hold SOCKET` of this user listens. It holds the mount "
           "while this program is started again, also where all its processes are killed at once, "
           "as with the container that they run in: the holder runs in another one, and both share "
           "the folder of the socket. SIGTERM then leaves the mount to the next start; umount ends "
           "it, and so does the end of the holder while nobody serves it (docs/SEMANTICS.md).")
      .Default("nobody, or systemd that of its service");
}

void AddFiles(ConfigSection& section, MountConfig& config) {
  constexpr auto kMaxId = std::numeric_limits<std::uint32_t>::max() - 1;  // -1 means "unchanged"
  section.Add("allow_other", Switch(config.allow_other),
              "Let other users than the one who mounts read the files. For a user who is not root "
              "this needs user_allow_other in /etc/fuse.conf.");
  section.Add("uid", Number(config.uid, 0, kMaxId), "The owner of all files and directories.")
      .Default("the user who mounts");
  section.Add("gid", Number(config.gid, 0, kMaxId), "The group of all files and directories.")
      .Default("the group of the user who mounts");
  section.Add("file_mode", Mode(config.file_mode),
              "The permissions of all files, in octal. The mount is read-only whatever they say.");
  section.Add("dir_mode", Mode(config.dir_mode), "The permissions of all directories, in octal.");
}

void AddCopies(ConfigSection& section, MountConfig& config) {
  section
      .Add("local_copy", LocalCopyValue(config.local_copy),
           "A directory on a local disk for whole copies of the files that are opened, of mounts "
           "in mode large; the kernel reads them by itself, as fast as any file of that disk. A "
           "file is copied behind its first readers and verified as it is written; whoever opens "
           "it after that reads the copy. SIZE bounds all copies; without it a twentieth of the "
           "disk stays free. When it is full nothing more is copied. The copies outlive the "
           "mount, for the next one; one mount at a time uses a directory. It needs root and "
           "Linux 6.9, and the directory must not lie on overlayfs; without these files are read "
           "as without it (docs/SEMANTICS.md).")
      .Default("no copies are kept");
  section.Add("local_copy_scrub_rate", Size(config.local_copy_scrub_rate),
              "How many bytes a second of the copies are read again and compared with the "
              "checksums of what was written. A copy that does not match is removed. 0 switches it "
              "off, but for copies that an earlier run of the machine has left, which are always "
              "compared before they are used.");
}

void AddResources(ConfigSection& section, MountConfig& config) {
  section
      .Add("state_dir", Path(config.state_dir, "DIR"),
           "Where listings of links are kept, so that a mount starts at once and without a "
           "coordinator. All mounts of a user share it.")
      .Default(
          "/var/lib/forebay/mount for root, else $XDG_STATE_HOME/forebay or "
          "~/.local/state/forebay");
  section
      .Add("local_socket", Path(config.local_socket),
           "Where programs of this machine say in which order they will read: `forebay hint` and "
           "others (docs/HINTS.md). Only this user may connect, with allow_other every user who "
           "may enter the folder.")
      .Default("orders-….sock in FOREBAY_RUNTIME_DIR, /run/forebay or $XDG_RUNTIME_DIR/forebay");
  section
      .Add("threads", Number(config.threads, 1, kMaxThreads),
           "How many threads serve the kernel's requests.")
      .Default("one for each CPU, at most 64");
  section.Add(
      "cpu_limit", Number(config.cpu_limit, 0, kMaxCpuLimit),
      "How many CPUs the mount may use at most, with all its threads: the kernel runs it on the "
      "last so many of those that it may use, as it does a node with this option, so that the "
      "others are left to the machine's jobs. 0 sets no bound.");
  section.Add(
      "memory_limit", Size(config.memory_limit, kMinMemory),
      "The most memory for data on its way to readers: the bytes of reads that are under way. "
      "At the limit reads wait for each other. Up to an eighth as much again holds where blocks "
      "lie in the files of this machine's nodes, 170 bytes a file. A listing of so many objects "
      "that to follow what a refresh has changed would take more than the limit (45 bytes an "
      "object, 64 MiB, and what has changed) is fetched whole. What the kernel keeps in its page "
      "cache, and the listings, which are mapped files, are the machine's to take back.");
  section.Add("max_bandwidth", Size(config.max_bandwidth),
              "How many bytes a second the mount takes at most, for reads, copies and listings "
              "together. Readers wait meanwhile, some seconds also for a listing, which goes "
              "first; those of the kernel's page cache do not. What a node of this machine sends "
              "through its local socket takes no network and is not counted. 0 sets no bound.");
  section.Add("mode",
              Choice(config.mode, {{"auto", MountMode::kAuto},
                                   {"small", MountMode::kSmall},
                                   {"large", MountMode::kLarge}}),
              "How the kernel reads. small: through its page cache, without a message to open a "
              "file; for many files of less than a few MiB, and for what is read again and again. "
              "large: past the page cache, in pieces of up to 1 MiB, for a quarter of the CPU time "
              "a byte; for shards, on kernels from Linux 6.6 on (others do as with small). auto: "
              "large where half of the link's bytes are in objects of at least 8 MiB.");
  section.Add(
      "local_reads",
      Choice(config.local_reads, {{"files", LocalReadsFrom::kFiles},
                                  {"socket", LocalReadsFrom::kSocket},
                                  {"network", LocalReadsFrom::kNetwork}}),
      "How what a node of this machine holds is read. files: the node passes its files, "
      "open for reading, and says where the bytes lie; the mount reads and verifies them "
      "itself. socket: the node sends them over its UNIX socket. network: no node counts as one of "
      "this machine; for measurements.");
  AddCopies(section, config);
  section.Add(
      "metrics_listen", OwnAddress(config.metrics_listen),
      "Where Prometheus finds /metrics, with /livez and /readyz beside it. Each mount of a "
      "machine needs a port of its own. One that other machines reach is only accepted with "
      "--insecure-plain-metrics.");
  section.Add(
      "failover_timeout",
      Time(config.failover_timeout, std::chrono::milliseconds(100), std::chrono::seconds(60)),
      "How long a node may be silent before a reader turns to the next one. A node that "
      "waits for S3 is not silent. With the default a lost node costs a reader less than 3 s, "
      "until it has its bytes from elsewhere.");
  section.Add("s3_timeout", TimeOrNone(config.s3_timeout, std::chrono::seconds(1)),
              "How long a reader waits for data that no node can get from S3 before it gets an I/O "
              "error. With none it waits as long as it takes.");
}

}  // namespace

Result<LocalCopyFolder> ParseLocalCopy(const std::string& text) {
  LocalCopyFolder copies;
  if (text.empty()) return copies;
  const std::size_t equals = text.rfind('=');
  copies.folder = text.substr(0, equals);
  if (!copies.folder.starts_with('/')) {
    return Fail(Code::kInvalid, "\"" + text +
                                    "\" is not DIR[=SIZE]; write an absolute path, such "
                                    "as /mnt/nvme0/copies=500GiB");
  }
  if (equals == std::string::npos) return copies;
  const Result<std::uint64_t> bytes = ParseSize(text.substr(equals + 1));
  if (!bytes) return Fail(bytes.error());
  if (*bytes == 0) return Fail(Code::kInvalid, "\"" + text + "\" has no room for a copy");
  copies.bytes = *bytes;
  return copies;
}

ConfigSection MountSection(MountConfig& config) {
  ConfigSection section("mount", "Options of a mount, forebay-mount.");
  AddWhat(section, config);
  AddHolder(section, config);
  AddFiles(section, config);
  AddResources(section, config);
  section.finish = [&config](const Environment& environment) {
    return Finish(config, environment);
  };
  return section;
}

}  // namespace forebay
