#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/config/machine.h"

namespace forebay {

struct ConfigSection;

/// One directory that holds cached blocks.
struct CacheDir {
  std::string path;         ///< Absolute.
  std::uint64_t bytes = 0;  ///< 0 = as much of its file system as is free, less a reserve.

  bool operator==(const CacheDir&) const = default;
};

/// "DIR" or "DIR=SIZE".
Result<CacheDir> ParseCacheDir(const std::string& text);
std::string FormatCacheDir(const CacheDir& dir);

/// Options of forebay-node, [node] in the file. What each means is in NodeSection (node_config.cc)
/// and docs/CONFIGURATION.md.
struct NodeConfig {
  std::vector<CacheDir> cache_dir;  ///< Required; one for each disk.
  std::string state_dir;            ///< Never "" after LoadConfig.
  std::vector<std::string> accept_new_disk;
  std::vector<std::string> coordinator = {"127.0.0.1:7440"};
  std::string listen = "127.0.0.1:7441";
  std::string advertise;  ///< "" = the address it listens on.
  std::string metrics_listen = "127.0.0.1:7451";
  std::string node_id;  ///< "" = made on the first start, kept in the first cache directory.
  std::string zone;
  std::string local_socket;  ///< "" = none.
  std::chrono::milliseconds s3_timeout = std::chrono::seconds(300);
  std::size_t threads = UsableCpus();
  std::uint64_t memory_limit = UsableMemory() / 4;
  std::size_t cpu_limit = 0;                 ///< 0 = all CPUs.
  std::uint64_t max_bandwidth = 0;           ///< Bytes a second, each way; 0 = no bound.
  std::uint64_t scrub_rate = 16ULL << 20;    ///< A second and cache directory; 0 = no scrubs.
  std::uint64_t verify_rate = 256ULL << 20;  ///< A second; 0 = no bound.
  std::uint64_t copy_limit = 256ULL << 20;   ///< A second; 0 = no bound.
};

/// Which of cache_dir may take more than its file system has, one sentence each: the node would not
/// start. A directory's disk may not be mounted yet.
std::vector<std::string> CacheDirDoubts(const NodeConfig& config);

/// The table of the members of `config`, which must outlive it.
ConfigSection NodeSection(NodeConfig& config);

}  // namespace forebay
