#include "fuse-client/ring_view.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "common/base/executors.h"
#include "common/base/files.h"
#include "common/wire/client_pool.h"
#include "proto/coordinator.pb.h"

namespace forebay {

namespace {

/// A table of 65,536 partitions arrives within this, or the next place is asked.
constexpr Duration kFetchTimeout = kSilence;

/// Between fetches that nobody waits for.
constexpr Duration kNoticePause = std::chrono::milliseconds(200);

}  // namespace

std::shared_ptr<const RingTable> RingView::table() const {
  std::scoped_lock lock(mutex_);
  return table_;
}

void RingView::Offer(RingTable table) {
  auto offered = std::make_shared<const RingTable>(std::move(table));
  {
    std::scoped_lock lock(mutex_);
    if (offered->epoch() <= table_->epoch()) return;
    table_ = offered;
    epoch_.store(offered->epoch(), std::memory_order_release);
  }
  spdlog::info("ring epoch {} with {} nodes", offered->epoch(), offered->nodes().size());
  Persist(*offered);
}

void RingView::Persist(const RingTable& table) {
  std::scoped_lock lock(file_mutex_);
  if (file_.empty()) return;
  const Status written = WriteFileAtomically(file_, table.Serialize());
  if (!written) {
    spdlog::warn("{}; a restart without a coordinator would use an older ring",
                 written.error().message);
  }
}

Status RingView::KeepIn(std::string file) {
  const Result<std::string> bytes = ReadWholeFile(file);
  {
    std::scoped_lock lock(file_mutex_);
    file_ = std::move(file);
  }
  Status status;
  std::uint64_t epoch_on_disk = 0;
  if (!bytes) {
    status = Fail(bytes.error());
  } else if (Result<RingTable> stored = RingTable::Parse(*bytes); !stored) {
    status = Fail(stored.error());
  } else {
    epoch_on_disk = stored->epoch();
    Offer(std::move(*stored));
  }
  const std::shared_ptr<const RingTable> current = table();
  if (current->epoch() > epoch_on_disk) Persist(*current);
  return status;
}

void RingRefresher::Begin() {
  running_ = true;
  ++begun_;
  asio::post(context_, [this] { Spawn(context_, Run()); });
}

void RingRefresher::Notice(std::uint64_t epoch) {
  if (epoch <= view_.epoch()) return;
  std::scoped_lock lock(mutex_);
  if (!running_ && Clock::now() >= not_before_) Begin();
}

Task<void> RingRefresher::Run() {
  const Status fetched = co_await FetchOnce(Deadline::After(kFetchTimeout * 3));
  if (!fetched) spdlog::debug("no newer ring table: {}", fetched.error().message);
  {
    std::scoped_lock lock(mutex_);
    running_ = false;
    ended_ = begun_;
    not_before_ = Clock::now() + kNoticePause;
  }
  done_.NotifyAll();
}

Task<void> RingRefresher::Refresh(Deadline deadline) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::uint64_t wanted = 0;
  {
    std::scoped_lock lock(mutex_);
    if (!running_) Begin();
    wanted = begun_;
  }
  for (;;) {
    Notifier::Ticket ticket = done_.Enlist(executor);
    {
      std::scoped_lock lock(mutex_);
      if (ended_ >= wanted) co_return;
    }
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) co_return;
  }
}

Status RingRefresher::Take(const RpcReply& reply, const std::string& place) {
  const ByteView bytes = reply.payload.bytes;
  // This place has nothing newer; a coordinator's word is final, a node may lag behind.
  if (bytes.empty()) return Fail(Code::kNotFound, "nobody has a newer ring");
  Result<RingTable> parsed =
      RingTable::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!parsed) return Fail(parsed.error().Within("ring table from " + place));
  view_.Offer(std::move(*parsed));
  return {};
}

Task<Status> RingRefresher::FetchOnce(Deadline deadline) {
  proto::GetRingRequest request;
  request.set_have_epoch(view_.epoch());
  Error last{Code::kUnavailable, "there is neither a coordinator nor a node to ask for the ring"};
  const std::size_t coordinators = coordinators_.addresses().size();
  if (coordinators > 0) {
    // All of them together have the time of one node, which has the table, too.
    const Result<RpcReply> reply = co_await coordinators_.Ask(
        Method::kGetRing, request, kFetchTimeout / static_cast<int>(coordinators));
    const Status taken =
        reply ? Take(*reply, "coordinator " + coordinators_.Current()) : Fail(reply.error());
    if (taken) co_return taken;
    last = taken.error();
  }
  const std::shared_ptr<const RingTable> table = view_.table();
  for (const NodeInfo& node : table->nodes()) {
    if (deadline.Expired()) break;
    const Result<RpcReply> reply = co_await pool_.Call(node.address, Method::kGetRing, request,
                                                       deadline.AtMost(kFetchTimeout));
    const Status taken = reply ? Take(*reply, node.address) : Fail(reply.error());
    if (taken) co_return taken;
    last = taken.error();
  }
  co_return Fail(std::move(last));
}

}  // namespace forebay
