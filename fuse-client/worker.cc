#include "fuse-client/worker.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/base/executors.h"

namespace forebay {

namespace {

/// Requests taken before the replies and RPCs of the earlier ones get their turn. Small, so that
/// one worker does not take a burst that its idle neighbours could share.
constexpr std::size_t kBatch = 8;

}  // namespace

Worker::Worker(asio::io_context& context, ClientPool& pool, SlotArena& slots, WorkerShares shares,
               WorkerStats& stats, const WorkerOptions& options, std::function<void()> on_ended)
    : context_(context),
      session_(shares.session),
      blocks_({context, pool, shares.ring, shares.refresher, shares.health, shares.pace, stats,
               shares.segments},
              options.blocks),
      jobs_(shares.jobs, options.job_from),
      reader_({shares.files, blocks_, blocks_, shares.streams, shares.errors, stats, jobs_,
               shares.jobs.answers(), shares.memory, shares.orders},
              options.reader),
      places_({pool, shares.ring}, options.reader.link, options.reader.block_bytes),
      server_({shares.session, context, reader_, shares.files, places_, shares.offload, stats,
               slots, shares.copies}),
      intake_(std::make_shared<Intake>(
          context, [this] { return server_.Drain(kBatch); }, std::move(on_ended))) {}

Status Worker::Start() {
  asio::post(context_, [this] { server_.TakeOver(); });
  return intake_->Start(session_.descriptor());
}

void Worker::FetchAhead(AheadFile file, AheadDone done) {
  asio::post(context_, [this, file = std::move(file), done = std::move(done)]() mutable {
    ++ahead_;
    Spawn(context_, RunAhead(std::move(file), std::move(done)));
  });
}

Task<void> Worker::RunAhead(AheadFile file, AheadDone done) {
  Result<std::vector<Slice>> bytes;
  if (file.bytes) {
    bytes = co_await reader_.ReadAhead(file.nodeid, std::move(file.job));
  } else {
    const Status asked = co_await reader_.FetchAhead(file.nodeid, std::move(file.job));
    if (!asked) bytes = Fail(asked.error());
  }
  --ahead_;
  done(std::move(bytes));
}

void Worker::BeginStop() {
  blocks_.Stop();
  StopTaking();
}

}  // namespace forebay
