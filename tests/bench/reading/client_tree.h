#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/executors.h"
#include "common/base/offload.h"
#include "common/config/mount_config.h"
#include "common/wire/client_pool.h"
#include "common/wire/peer_health.h"
#include "fuse-client/error_log.h"
#include "fuse-client/filesystem.h"
#include "fuse-client/job_table.h"
#include "fuse-client/namespace_snapshot.h"
#include "fuse-client/node_pace.h"
#include "fuse-client/order/order_book.h"
#include "fuse-client/passed_segments.h"
#include "fuse-client/ring_view.h"
#include "fuse-client/stats.h"
#include "fuse-client/stream_table.h"
#include "tests/bench/reading/readers.h"

namespace forebay::bench {

struct ClientOptions {
  std::vector<std::string> coordinators;
  std::string link;
  std::string state_dir;
  std::string trust_dir = {};  ///< With its certificates; "" = none.
  LocalReadsFrom local_reads = LocalReadsFrom::kNetwork;
};

/// A link as forebay-mount serves it, without the kernel: the same namespace, the same reads of the
/// same nodes, and the bytes are taken where a mount would hand them to FUSE. Each reader has an
/// event loop of its own and runs it itself, so that no thread waits for another.
class ClientTree final : public Tree {
 public:
  explicit ClientTree(const ClientOptions& options);
  ~ClientTree() override;

  /// Fetches the link's namespace and the ring, and looks the paths up, as a walk of a mount does.
  Status Open(const std::vector<std::string>& paths);

  std::optional<std::uint64_t> SizeOf(const std::string& path) override;
  std::unique_ptr<TreeReader> NewReader() override;

 private:
  class Reader;
  struct File {
    std::string path;
    std::uint64_t nodeid = 0;
    std::uint64_t size = 0;
  };

  std::unique_ptr<ClientPool> NewPool(asio::io_context& context);
  Status MakeCredentials();
  Status Obtain();
  Task<Status> FetchRing();
  Result<File> Find(const std::string& path);

  const ClientOptions options_;
  const std::string host_id_;
  Credentials credentials_;
  std::stop_source never_;
  IoPool control_;
  Offload offload_;
  PeerHealth health_;
  NodePace pace_;
  RingView ring_;
  SnapshotCounts counts_;
  MemoryBudget memory_;
  PassedSegments segments_;
  StreamTable streams_;
  ErrorLog errors_;
  OrderBook orders_;
  JobTable jobs_;
  std::unique_ptr<ClientPool> pool_;
  std::unique_ptr<RingRefresher> refresher_;
  std::unique_ptr<NamespaceSource> source_;
  MountedNamespace found_;
  std::unique_ptr<FileSystem> files_;
  std::vector<File> list_;
};

}  // namespace forebay::bench
