#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/asio.h"
#include "common/base/result.h"
#include "common/wire/client_pool.h"
#include "fuse-client/block_client.h"
#include "fuse-client/file_places.h"
#include "fuse-client/file_reader.h"
#include "fuse-client/fuse_ops.h"
#include "fuse-client/intake.h"
#include "fuse-client/order/order_runner.h"

namespace forebay {

/// What all workers of a link's mount share. Thread-safe, every one of them.
struct WorkerShares {
  FuseSession& session;
  FileSystem& files;
  RingView& ring;
  RingRefresher& refresher;
  PeerHealth& health;
  NodePace& pace;
  StreamTable& streams;
  ErrorLog& errors;
  JobTable& jobs;
  OrderBook& orders;
  Offload& offload;
  MemoryBudget& memory;
  PassedSegments* segments = nullptr;  ///< Null: all bytes come over sockets.
  LinkCopies* copies = nullptr;        ///< Null: every read is a message.
};

struct WorkerOptions {
  BlockClientOptions blocks;
  FileReaderOptions reader;
  JobFrom job_from = JobFrom::kCgroup;
};

/// One thread's whole path of a link's reads, without a hand-off: requests from the kernel, lookup
/// in the snapshot, connections to the nodes, verification, reply. Lives on one io_context with one
/// thread, whose connections it shares with the other links of the process.
class Worker {
 public:
  /// `pool` and `slots` are the thread's. `on_ended` is called on the worker's thread when the
  /// mount has gone.
  Worker(asio::io_context& context, ClientPool& pool, SlotArena& slots, WorkerShares shares,
         WorkerStats& stats, const WorkerOptions& options, std::function<void()> on_ended);

  /// Who takes requests while this one cannot; all workers of a link are a ring. Before they start.
  void SetNext(const Worker& next) { intake_->SetNext(next.intake_); }

  /// Any thread, before or after the context runs. kInternal: no descriptor left.
  Status Start();

  /// Any thread. `done` is called on the worker's own; when it ends first, never.
  void FetchAhead(AheadFile file, AheadDone done);

  /// On the worker's own thread: takes no more requests; what is under way goes on.
  void StopTaking() { intake_->Stop(); }
  /// On the worker's own thread: takes no more requests and lets what is under way fail soon.
  void BeginStop();
  /// On the worker's own thread: nothing is under way any more, and after BeginStop nothing ever
  /// will be.
  bool Idle() const {
    return !intake_->running() && server_.in_flight() == 0 && blocks_.in_flight() == 0 &&
           ahead_ == 0 && reader_.asking() == 0;
  }

 private:
  Task<void> RunAhead(AheadFile file, AheadDone done);

  asio::io_context& context_;
  FuseSession& session_;
  BlockClient blocks_;
  JobFinder jobs_;
  FileReader reader_;
  FilePlaces places_;
  FuseServer server_;
  // Shared with the neighbour that hands on to it, and with its coroutine.
  const std::shared_ptr<Intake> intake_;
  std::size_t ahead_ = 0;  // files on their way that nobody has asked for yet
};

}  // namespace forebay
