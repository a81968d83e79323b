#include "fuse-client/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "common/base/executors.h"

namespace forebay {

namespace {

/// Requests taken before the replies and RPCs of the earlier ones get their turn. Small, so that
/// one worker does not take a burst that its idle neighbours could share.
constexpr std::size_t kBatch = 8;

/// While as many requests are under way as there are slots: until the next look for a free one.
constexpr Duration kSlotsTakenPause = std::chrono::milliseconds(1);

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
      on_ended_(std::move(on_ended)) {}

Status Worker::Start() {
  const int fd = ::fcntl(session_.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return Fail(Code::kInternal,
                "cannot duplicate /dev/fuse: " + std::generic_category().message(errno));
  }
  exclusive_.emplace(fd);
  descriptor_ = std::make_shared<asio::posix::stream_descriptor>(context_, fd);
  receiving_ = true;
  asio::post(context_, [this] { server_.TakeOver(); });
  Spawn(context_, Receive());
  return {};
}

Task<void> Worker::Receive() {
  const std::shared_ptr<asio::posix::stream_descriptor> descriptor = descriptor_;
  FuseSession::Drained drained = FuseSession::Drained::kIdle;
  while (descriptor->is_open() && drained != FuseSession::Drained::kEnded) {
    drained = server_.Drain(kBatch);
    switch (drained) {
      case FuseSession::Drained::kIdle: {
        boost::system::error_code stopped;
        co_await descriptor->async_wait(asio::posix::stream_descriptor::wait_read,
                                        asio::redirect_error(asio::use_awaitable, stopped));
        break;
      }
      case FuseSession::Drained::kMore:
        co_await asio::post(context_, asio::use_awaitable);
        break;
      case FuseSession::Drained::kFull:
        co_await SleepFor(kSlotsTakenPause);
        break;
      case FuseSession::Drained::kEnded:
        on_ended_();
        break;
    }
  }
  receiving_ = false;
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

void Worker::StopTaking() {
  if (!descriptor_ || !descriptor_->is_open()) return;
  const int fd = descriptor_->release();
  exclusive_.reset();
  ::close(fd);
}

}  // namespace forebay
