// What jobs of a LinkMount have said that they will read.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "fuse-client/link_mount.h"

namespace forebay {

/// Before anybody is served: from the first read on the jobs are followed.
void LinkMount::RestoreOrders() {
  for (KeptOrder& order : inherited_->orders) {
    AnnouncedOrder announced(std::move(order.nodeids));
    announced.Resume(order.position);
    kept_positions_[order.job] = order.position;
    const Status taken = orders_.Announce(order.job, std::move(announced));
    if (!taken) spdlog::warn("the order of job {} is lost: {}", order.job, taken.error().message);
  }
}

void LinkMount::BeginOrders() {
  std::vector<Worker*> workers;
  workers.reserve(workers_.size());
  for (const auto& worker : workers_) workers.push_back(worker.get());
  auto next = std::make_shared<std::atomic<std::size_t>>(0);
  order_runner_ = std::make_unique<OrderRunner>(OrderRunner::Parts{
      .book = orders_,
      .files = *files_,
      .jobs = shares_.jobs,
      .stats = stats_.Worker(0),
      .link = namespace_.snapshot->id().link,
      .block_bytes = namespace_.snapshot->block_bytes(),
      .bytes_at_once = std::min(OrderRunner::kBytesAtOnce, shares_.memory.limit() / 4),
      .fetch =
          [workers = std::move(workers), next](AheadFile file, AheadDone done) {
            workers[next->fetch_add(1) % workers.size()]->FetchAhead(std::move(file),
                                                                     std::move(done));
          },
      .store = [session = session_.get()](
                   std::uint64_t nodeid,
                   const std::vector<Slice>& bytes) { return session->Store(nodeid, bytes); },
      .memory = [] { return FreeMemoryNow(); },
      .push = !session_->DirectReads()});
  shares_.local_socket.Add(this, name_, [this](const OrderText& text) { return TakeOrder(text); });
}

// Of what is shown now: a file that changes later is read without having been announced. Its
// thread takes one at a time: what has room has it still below.
Result<std::size_t> LinkMount::TakeOrder(const OrderText& text) {
  const std::shared_ptr<const GenerationView> view = files_->view();
  Result<std::vector<std::uint64_t>> files = FilesOfOrder(text, *view->snapshot, view->root);
  if (!files) return Fail(files.error());
  const std::size_t count = files->size();
  // Before it is kept: a successor must not go on with what was refused.
  const Status room = orders_.RoomFor(text.job, count);
  if (!room) return Fail(room.error());
  KeepOrder(shares_.keeper, connection_, text.job, *files);
  const Status taken = orders_.Announce(text.job, AnnouncedOrder(*std::move(files)));
  if (!taken) return Fail(taken.error());
  spdlog::info("job {} announces {} files of {}", text.job, count, name_);
  return count;
}

}  // namespace forebay
