#include "cachenode/disk_keeper.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>

#include "cachenode/byte_pace.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kTendEvery{1};
constexpr std::chrono::milliseconds kWatchEvery{100};
/// Read at once: much for a disk's head, little for a reader who waits behind it.
constexpr std::uint64_t kScrubStep = 1ULL << 20;
constexpr std::chrono::seconds kAfterTrouble{60};
/// A disk that is to be smaller gives away 2,560 blocks a second at most: holes are punched at
/// 10,000 to 15,000 (DESIGN 6.6), and readers and fills want the disk, too.
constexpr std::size_t kFitStep = 256;
constexpr std::chrono::milliseconds kFitEvery{100};

}  // namespace

void DiskKeeper::Start(IoPool& io) {
  Spawn(io.Next(), Watch());
  for (std::size_t disk = 0; disk < store_.Disks().size(); ++disk) {
    Spawn(io.Next(), Tend(disk));
    Spawn(io.Next(), Fit(disk));
    if (options_.scrub_bytes_per_s > 0) Spawn(io.Next(), Scrub(disk));
  }
}

Task<void> DiskKeeper::Watch() {
  for (bool on = true; on;) {
    store_.Watch(Clock::now());
    on = co_await SleepFor(kWatchEvery);
  }
}

Task<void> DiskKeeper::Tend(std::size_t disk) {
  for (bool on = true; on;) {
    // Too much disk work is waiting, or the disk hangs: the next turn is soon.
    (void)co_await store_.Tend(disk, Clock::now());
    on = co_await SleepFor(kTendEvery);
  }
}

Task<void> DiskKeeper::Fit(std::size_t disk) {
  for (bool on = true; on;) {
    const Result<Evicted> gone = co_await store_.Shrink(disk, kFitStep);
    if (!gone) spdlog::warn("a smaller cache has to wait: {}", gone.error().message);
    const std::chrono::milliseconds pause = gone ? kFitEvery : kAfterTrouble;
    on = co_await SleepFor(pause);
  }
}

Task<void> DiskKeeper::Scrub(std::size_t disk) {
  BytePace pace(options_.scrub_bytes_per_s);
  Scrubbed pass;
  bool on = co_await SleepFor(options_.first_pass_after);
  while (on) {
    const Result<Scrubbed> step = co_await store_.Scrub(disk, kScrubStep);
    if (step) {
      pass += *step;
      co_await pace.Pass(step->bytes);
    }
    if (step && step->pass_ended) {
      if (pass.blocks + pass.dropped > 0) {
        spdlog::info("all blocks of {} were read: {} match, {} did not and are dropped",
                     store_.Disks()[disk].path, pass.blocks, pass.dropped);
      }
      pass = {};
      on = co_await SleepFor(options_.pass_every);
    } else if (!step || step->bytes == 0) {
      on = co_await SleepFor(kAfterTrouble);
    }
  }
}

}  // namespace forebay
