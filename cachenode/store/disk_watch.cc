#include <spdlog/spdlog.h>

#include <cerrno>

#include "cachenode/store/disk.h"

// How a disk that fails is noticed, and what is done with it then.
namespace forebay {
namespace {

using std::chrono::seconds;

/// For a read, in the queue or on the disk: a reader goes to S3 instead, well before its own
/// patience of 3 s (FAULTS, Tn) ends.
constexpr seconds kReadPatience{1};
/// For any end of any write. Nobody waits for one, and a sync of a busy disk may take seconds.
constexpr seconds kWorkPatience{3};

}  // namespace

void Disk::Watch(TimePoint now) {
  const DiskLane::Looked reads = reads_.Look(now, kReadPatience, false);
  const DiskLane::Looked work = work_.Look(now, kWorkPatience, true);
  errors_.hang.fetch_add(reads.given_up + work.given_up, std::memory_order_relaxed);
  for (std::size_t i = 0; i < reads.given_up; ++i) IoFailed();
  if (reads.hangs)
    Quarantine("no read has ended for " + std::to_string(kReadPatience.count()) + " s");
  if (work.hangs)
    StopWriting("no write has ended for " + std::to_string(kWorkPatience.count()) + " s");
}

void Disk::CheckPlace() {
  if (state() == DiskState::kQuarantined || directory_.IsInPlace()) return;
  errors_.gone.fetch_add(1, std::memory_order_relaxed);
  Quarantine("its files are no longer there: removed, or another file system is mounted over them");
}

void Disk::Quarantine(const std::string& why) {
  if (state_.exchange(DiskState::kQuarantined) == DiskState::kQuarantined) return;
  spdlog::error("{} is quarantined: {}; its blocks are fetched again", path_, why);
}

void Disk::StopWriting(const std::string& why) {
  DiskState was = DiskState::kOk;
  if (!state_.compare_exchange_strong(was, DiskState::kReadOnly)) return;
  spdlog::warn("{} takes no more blocks: {}; those that it has are served, new ones go elsewhere",
               path_, why);
}

void Disk::CountWriteError(int error) {
  if (error == ENOSPC || error == EDQUOT) {
    errors_.full.fetch_add(1, std::memory_order_relaxed);
    Squeeze();
    return;
  }
  errors_.write.fetch_add(1, std::memory_order_relaxed);
  parts_.counters.write_errors.fetch_add(1, std::memory_order_relaxed);
  if (error == EROFS) {
    StopWriting("it has become read-only");
  } else {
    IoFailed();
  }
}

Status Disk::WriteFailed(int error, const std::string& step) {
  CountWriteError(error);
  const bool full = error == ENOSPC || error == EDQUOT;
  return Fail(full ? Code::kOverloaded : Code::kInternal,
              path_ + ": " + step + ": " + ErrnoText(error));
}

void Disk::ReadFailed() {
  errors_.read.fetch_add(1, std::memory_order_relaxed);
  parts_.counters.read_errors.fetch_add(1, std::memory_order_relaxed);
  IoFailed();
}

void Disk::IoFailed() {
  {
    const std::scoped_lock lock(mutex_);
    if (!health_.Failed(Clock::now())) return;
  }
  Quarantine(std::to_string(DiskHealth::kErrors) + " I/O errors within " +
             std::to_string(DiskHealth::kWithin.count()) + " s");
}

}  // namespace forebay
