#include "common/config/node_config.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "common/base/config_values.h"
#include "common/config/state_dir.h"

namespace forebay {

namespace {

/// Below it a directory does not even hold its own bookkeeping and a few blocks.
constexpr std::uint64_t kMinCacheBytes = 64ULL << 20;
constexpr std::uint64_t kMinMemory = 64ULL << 20;

std::vector<std::string> CheckCacheDirs(const NodeConfig& config) {
  std::vector<std::string> faults;
  std::set<std::string> seen;
  for (const CacheDir& dir : config.cache_dir) {
    if (seen.insert(dir.path).second) continue;
    faults.push_back("cache_dir: " + dir.path + " is given twice; name each directory once");
  }
  for (const std::string& dir : config.accept_new_disk) {
    if (seen.contains(dir)) continue;
    faults.push_back("accept_new_disk: " + dir + " is none of the directories of cache_dir");
  }
  return faults;
}

/// Others cannot connect to "any address".
std::vector<std::string> CheckAdvertise(const NodeConfig& config) {
  const bool any = config.listen.starts_with("0.0.0.0:") || config.listen.starts_with("[::]:");
  if (!any || !config.advertise.empty()) return {};
  return {"listen: \"" + config.listen +
          "\" is no address that others can use; name this machine's with --advertise HOST:PORT"};
}

/// Whether it is one of cache_dir is looked at when all options are known.
Result<std::string> AsIs(const std::string& text) { return text; }

std::vector<std::string> Finish(NodeConfig& config, const Environment& environment) {
  std::vector<std::string> faults = CheckCacheDirs(config);
  if (config.cpu_limit != 0) config.threads = std::min(config.threads, config.cpu_limit);
  for (std::string& fault : CheckAdvertise(config)) faults.push_back(std::move(fault));
  if (config.state_dir.empty()) config.state_dir = DefaultStateDir(environment, "node", "node");
  if (config.state_dir.empty()) {
    faults.emplace_back("state_dir is not set and neither is HOME; give --state-dir DIR");
  }
  return faults;
}

void AddCache(ConfigSection& section, NodeConfig& config) {
  section
      .Add("cache_dir", ListOf(config.cache_dir, "DIR[=SIZE]", ParseCacheDir, FormatCacheDir),
           "A directory on a local disk that holds cached blocks, and how much it may take. Give "
           "one for each disk. SIZE is a hard bound and at least 64MiB; without it the node takes "
           "what is free on the file system, less a reserve. The directory is made when it is not "
           "there, readable by this user alone, and what it holds is found again after a restart. "
           "SIGHUP reads the sizes again: a larger one holds at once, for a smaller one blocks "
           "leave "
           "in the background, and pinned ones never do.")
      .Required();
  section
      .Add("state_dir", Path(config.state_dir, "DIR"),
           "Where the node remembers which cache directories it made, so that one whose disk is "
           "not mounted is not taken for a new one and filled on the disk below. Keep it on a disk "
           "that is always there, and in containers on a volume. All nodes of a user share it.")
      .Default(
          "/var/lib/forebay/node for root, else $XDG_STATE_HOME/forebay/node or "
          "~/.local/state/forebay/node");
  section.Add("accept_new_disk", ListOf(config.accept_new_disk, "DIR", AsIs, std::identity()),
              "A directory of cache_dir that this node knows as another one, or on another disk, "
              "and that is right as it is now: the disk was replaced, or its contents were removed "
              "on purpose. For one start; without it the node leaves such a directory alone.");
  section
      .Add(
          "memory_limit", Size(config.memory_limit, kMinMemory),
          "The most memory for data on its way: three eighths of it for replies until their last "
          "byte has left, of which one reader's machine gets half at most; as much for blocks that "
          "are being filled; the rest for blocks that were filled a moment ago and found no room. "
          "At the limit readers wait: who finds no room for the reply is told so and asks again.")
      .Default("a quarter of the machine's memory");
  section
      .Add("threads", Number(config.threads, 1, kMaxThreads),
           "How many event loops serve requests, each with a thread of its own.")
      .Default("one for each CPU, at most 64");
  section.Add(
      "cpu_limit", Number(config.cpu_limit, 0, kMaxCpuLimit),
      "How many CPUs the node may use at most, with all its threads: the kernel runs it on the "
      "last so many of those that it may use, so that the others are left to the machine's "
      "jobs. Nodes that share a machine get CPUs of their own with taskset, within which this "
      "counts. 0 sets no bound.");
  section.Add("max_bandwidth", Size(config.max_bandwidth),
              "How many bytes a second the node sends to mounts and other nodes at most, and how "
              "many it fetches from S3 and from other nodes, each counted for itself; readers wait "
              "meanwhile. What mounts of this machine read through the node's local socket takes "
              "no network and is not counted. 0 sets no bound.");
  section.Add("s3_timeout",
              Time(config.s3_timeout, std::chrono::seconds(1), std::chrono::hours(24 * 7)),
              "How long a node goes on asking S3 for a block, and other nodes to ask in its place, "
              "before the reader is told that it cannot be had: 1 s to 7 days. Until then a reader "
              "waits.");
}

void AddCare(ConfigSection& section, NodeConfig& config) {
  section.Add("scrub_rate", Size(config.scrub_rate),
              "How many bytes a second are read from each cache directory, when nobody asks for "
              "them, to find damage before a reader does: each block is compared with its "
              "checksums, and one that does not match is dropped and fetched again when it is "
              "asked for. At 16MiB a second 10TB take a week. A pass begins a day after the one "
              "before it has ended. 0 switches it off.");
  section.Add("verify_rate", Size(config.verify_rate),
              "How many bytes a second `forebay check --verify` reads from a node's disks at most, "
              "so that readers are not held up. 0 sets no bound.");
  section.Add("copy_limit", Rate(config.copy_limit),
              "How fast the node takes the further copies of blocks that it is to keep for links "
              "with `--replicas`, from the nodes that have them: those of blocks that were just "
              "fetched, and those that are missing since a node was lost. What a reader waits for "
              "is not held back by it. 0 sets no bound.");
}

void AddNetwork(ConfigSection& section, NodeConfig& config) {
  section.Add("coordinator", AddressList(config.coordinator),
              "Where the coordinator is. Without it a node starts with the members that it knew "
              "last, and goes on trying.");
  section.Add("listen", Address(config.listen),
              "Where mounts and other nodes reach this node. Port 0 takes any free port; the ready "
              "line says which. One that other machines reach is only accepted with "
              "certificates, or with --insecure-plain-tcp.");
  section
      .Add("advertise", Address(config.advertise),
           "The address that others are told to use for this node, when it is not the one that the "
           "node listens on.")
      .Default("the address that it listens on");
  section.Add("metrics_listen", OwnAddress(config.metrics_listen),
              "Where Prometheus finds /metrics, with /livez and /readyz beside it. An empty "
              "address switches it off. One that other machines reach is only accepted with "
              "--insecure-plain-metrics.");
  section.Add("local_socket", Path(config.local_socket),
              "A UNIX socket at which mounts on this machine reach the node without TCP.");
}

void AddIdentity(ConfigSection& section, NodeConfig& config) {
  section
      .Add("node_id", Text(config.node_id, "ID"),
           "The name of this node in the ring. A node that comes back under the same name gets the "
           "same blocks; two nodes must not share one, and the second is refused. With "
           "certificates the name is the certificate's.")
      .Default("made on the first start and kept in the first cache directory");
  section.Add(
      "zone", Text(config.zone, "ZONE"),
      "The failure domain of this node, such as a rack or an availability zone, as `forebay "
      "nodes` shows it.");
}

}  // namespace

Result<CacheDir> ParseCacheDir(const std::string& text) {
  CacheDir dir;
  const std::size_t equals = text.rfind('=');
  dir.path = text.substr(0, equals);
  if (!dir.path.starts_with('/')) {
    return Fail(Code::kInvalid, "\"" + text +
                                    "\" is not DIR[=SIZE]; write an absolute path, such "
                                    "as /mnt/nvme0/forebay=1.5TiB");
  }
  if (equals == std::string::npos) return dir;
  Result<std::uint64_t> bytes = ParseSize(text.substr(equals + 1));
  if (!bytes) return Fail(std::move(bytes.error()));
  if (*bytes < kMinCacheBytes) {
    return Fail(Code::kInvalid, "\"" + text + "\" is too small for a cache; give at least 64MiB");
  }
  dir.bytes = *bytes;
  return dir;
}

std::string FormatCacheDir(const CacheDir& dir) {
  return dir.bytes == 0 ? dir.path : dir.path + "=" + FormatSize(dir.bytes);
}

std::vector<std::string> CacheDirDoubts(const NodeConfig& config) {
  std::vector<std::string> doubts;
  for (const CacheDir& dir : config.cache_dir) {
    // Where it will be made.
    std::filesystem::path there = dir.path;
    std::error_code error;
    while (!std::filesystem::exists(there, error) && there.has_relative_path())
      there = there.parent_path();
    const std::filesystem::space_info space = std::filesystem::space(there, error);
    if (error || dir.bytes <= space.capacity) continue;
    doubts.push_back("cache_dir: " + dir.path + " may take " + HumanBytes(dir.bytes) +
                     ", and the file system that is there now has " + HumanBytes(space.capacity) +
                     ": mount its disk before the start, or choose a smaller size");
  }
  return doubts;
}

ConfigSection NodeSection(NodeConfig& config) {
  ConfigSection section("node", "Options of a cache node, forebay-node.");
  AddCache(section, config);
  AddCare(section, config);
  AddNetwork(section, config);
  AddIdentity(section, config);
  section.finish = [&config](const Environment& environment) {
    return Finish(config, environment);
  };
  return section;
}

}  // namespace forebay
