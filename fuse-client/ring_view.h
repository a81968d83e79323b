#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"
#include "common/ring/ring.h"
#include "common/wire/coordinators.h"

namespace forebay {

class ClientPool;

/// The ring table that this mount goes by: the newest that it has seen, on disk too, so that a
/// mount without a coordinator finds its nodes. Thread-safe; readers hold the table they began
/// with.
class RingView {
 public:
  RingView() : table_(std::make_shared<const RingTable>()) {}

  std::shared_ptr<const RingTable> table() const;
  /// Of table(); cheap, it is read for every frame sent.
  std::uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  /// Takes `table` when it is newer than the present one, and keeps it in the file from now on. An
  /// older or equal one is ignored.
  void Offer(RingTable table);

  /// From now on the table is kept in `file`; what is there is offered first. kNotFound: nothing
  /// there yet. kCorrupt: it is unusable and will be replaced.
  Status KeepIn(std::string file);

 private:
  void Persist(const RingTable& table);

  mutable std::mutex mutex_;
  std::shared_ptr<const RingTable> table_;
  std::atomic<std::uint64_t> epoch_{0};
  std::mutex file_mutex_;
  std::string file_;
};

/// Fetches newer tables, from any node or coordinator that has one; one fetch at a time, however
/// many ask. Runs on the context of `pool`; the calls marked so may come from any thread.
class RingRefresher {
 public:
  RingRefresher(asio::io_context& context, ClientPool& pool, RingView& view,
                std::vector<std::string> coordinators)
      : context_(context), pool_(pool), view_(view), coordinators_(pool, std::move(coordinators)) {}

  /// Any thread: a peer goes by `epoch`; a fetch begins unless ours is as new, one runs, or one has
  /// just ended (a peer may claim an epoch that nobody can give us).
  void Notice(std::uint64_t epoch);

  /// Any executor: waits until a fetch that began after this call has ended, well or badly.
  Task<void> Refresh(Deadline deadline);

  /// On the pool's context: asks everybody once, coordinators first.
  Task<Status> FetchOnce(Deadline deadline);

 private:
  void Begin();
  Task<void> Run();
  Status Take(const RpcReply& reply, const std::string& place);

  asio::io_context& context_;
  ClientPool& pool_;
  RingView& view_;
  Coordinators coordinators_;
  std::mutex mutex_;
  bool running_ = false;
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  TimePoint not_before_;
  Notifier done_;
};

}  // namespace forebay
