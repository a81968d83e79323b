#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cachenode/store/disk.h"
#include "common/base/failpoint.h"

// How a disk that was taken out of service comes back: it is probed, and what was left undone on it
// is done first.
namespace forebay {
namespace {

using Page = std::array<std::byte, kRecordAlignment>;

/// Bytes that no earlier probe has left there.
Page NewPage() {
  const Uuid random = Uuid::Random();
  Page page;
  for (std::size_t i = 0; i < page.size(); ++i)
    page[i] = std::byte{random.bytes[i % random.bytes.size()]};
  return page;
}

/// Answers 0 when a page comes back from the disk as it was written, else an errno.
int WriteAndReadBack(int fd) {
  const Page written = NewPage();
  const Record page{.header = {}, .data = written, .bytes = written.size()};
  if (const int error = WriteRecords(fd, {&page, 1}, 0)) return error;
  if (::fdatasync(fd) != 0) return errno;
  if (failpoint("store.sync_error")) return EIO;
  // Without the kernel's copy the answer is the disk's own.
  ::posix_fadvise(fd, 0, static_cast<off_t>(written.size()), POSIX_FADV_DONTNEED);
  Page read{};
  iovec part{read.data(), read.size()};
  if (const int error = ReadExactly(fd, {&part, 1}, 0, false)) return error;
  return std::memcmp(read.data(), written.data(), read.size()) == 0 ? 0 : EIO;
}

}  // namespace

bool Disk::ProbeIsDue(TimePoint now) {
  return state() != DiskState::kOk && probation_.Due(now) && !Hangs();
}

Status Disk::Probe() {
  int error = directory_.IsInPlace() ? 0 : ENOENT;
  if (error == 0) {
    const FileDescriptor probe = directory_.CreateProbe();
    error = probe ? WriteAndReadBack(probe.get()) : errno;
  }
  if (error == 0 && !directory_.RemoveProbe()) error = errno;
  if (error == 0) return {};
  return Fail(Code::kInternal, path_ + ": " + ErrnoText(error));
}

void Disk::ReturnToService() {
  Status back = db_->Reopen();
  if (back) {
    SealAll();
    back = ComeBack();
  }
  if (!back) {
    spdlog::warn("{} answers its probes but its index does not: {}", path_, back.error().message);
    return;
  }
  FreeReleased();
  spdlog::info("{} is healthy again and back in service", path_);
}

/// What was being written when the disk failed takes no more records.
void Disk::SealAll() {
  std::vector<std::shared_ptr<Segment>> open;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [link, segment] : open_) {
      segment->sealed = true;
      ++segment->writers;  // so that it is closed below, or by its last writer
      open.push_back(segment);
    }
    open_.clear();
  }
  for (const std::shared_ptr<Segment>& segment : open) FinishWriter(segment);
}

/// First the index forgets what was forgotten without it, so that the disk's rows and the blocks in
/// memory agree again; then the disk is in service; then the space of what went is freed.
Status Disk::ComeBack() {
  {
    const std::scoped_lock lock(making_mutex_);
    if (Status writes = db_->SetNextSegment(next_segment_); !writes) return writes;
  }
  if (Status synced = db_->Sync(); !synced) return synced;
  std::vector<Freed> freed;
  for (;;) {
    std::vector<BlockIndex::Found> forgotten;
    {
      const std::scoped_lock lock(owed_mutex_);
      if (owed_rows_.empty()) {
        freed.swap(owed_space_);
        state_.store(DiskState::kOk, std::memory_order_relaxed);
        break;
      }
      forgotten.swap(owed_rows_);
    }
    if (Status deleted = DeleteRows(forgotten); !deleted) {
      const std::scoped_lock lock(owed_mutex_);
      owed_rows_.insert(owed_rows_.end(), forgotten.begin(), forgotten.end());
      return deleted;
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    health_ = DiskHealth();
  }
  Free(freed);
  return {};
}

bool Disk::Forget(const BlockIndex::Found& leaving) {
  {
    const std::scoped_lock lock(owed_mutex_);
    if (state() != DiskState::kQuarantined) return false;
    owed_rows_.push_back(leaving);
  }
  Uncount(leaving);
  parts_.history.SetCached(leaving.block, false);
  {
    const std::scoped_lock lock(release_mutex_);
    if (!parts_.index.FinishRemove(leaving.handle)) {
      waiting_.emplace(leaving.place.segment, leaving.place.unit);
      return true;
    }
    // Its last reader has gone: freed as all that readers have left.
    released_.push_back({leaving.place, RecordDiskBytes(leaving.block.length)});
  }
  return true;
}

/// True: the disk is left alone now; the space is freed when it comes back, or by its next
/// recovery.
bool Disk::Owe(std::span<const Freed> freed) {
  const std::scoped_lock lock(owed_mutex_);
  if (state() == DiskState::kOk) return false;
  owed_space_.insert(owed_space_.end(), freed.begin(), freed.end());
  return true;
}

}  // namespace forebay
