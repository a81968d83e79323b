#include "cachenode/store/record_reader.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cachenode/store/segment_file.h"

namespace forebay {
namespace {

RecordReader::Outcome OutcomeOf(int error) {
  using Outcome = RecordReader::Outcome;
  if (error == 0) return Outcome::kOk;
  if (error == EAGAIN) return Outcome::kNotInMemory;
  return error == ENODATA ? Outcome::kMismatch : Outcome::kIoError;
}

}  // namespace

RecordReader::RecordReader(const ExpectedRecord& expected, BlockRange range)
    : expected_(expected),
      range_(range),
      cells_(EnclosingCells(range, expected.block.length)),
      header_(RecordHeaderBytes(expected.block.length)) {}

RecordReader::Outcome RecordReader::Read(int fd, bool nowait) {
  if (!data_) data_ = std::make_shared<Buffer>(cells_.size());
  iovec header{header_.data(), header_.size()};
  iovec data{data_->data(), data_->size()};
  int error = 0;
  if (cells_.begin == 0) {
    std::array<iovec, 2> both = {header, data};
    error = ReadExactly(fd, both, expected_.position, nowait);
  } else {
    error = ReadExactly(fd, {&header, 1}, expected_.position, nowait);
    if (error == 0) {
      error = ReadExactly(fd, {&data, 1}, position(), nowait);
    }
  }
  return Judge(error);
}

RecordReader::Outcome RecordReader::Find(int fd) {
  iovec header{header_.data(), header_.size()};
  int error = ReadExactly(fd, {&header, 1}, expected_.position, true);
  std::byte last{};
  iovec probe{&last, 1};
  const std::uint64_t end = expected_.position + header_.size() + range_.end;
  if (error == 0) error = ReadExactly(fd, {&probe, 1}, end - 1, true);
  const Outcome outcome = OutcomeOf(error);
  if (outcome != Outcome::kOk) return outcome;
  return HeaderMatches() ? Outcome::kOk : Outcome::kMismatch;
}

RecordReader::Outcome RecordReader::ReadDirect(int fd) {
  if (!data_) data_ = std::make_shared<Buffer>(cells_.size());
  struct Freer {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const std::uint64_t size = RecordDiskBytes(expected_.block.length);
  const std::unique_ptr<std::byte, Freer> record(
      static_cast<std::byte*>(std::aligned_alloc(kRecordAlignment, size)));
  if (!record) return Outcome::kIoError;
  const int error = ReadDirectly(fd, record.get(), size, expected_.position,
                                 header_.size() + expected_.block.length);
  if (error == 0) {
    std::memcpy(header_.data(), record.get(), header_.size());
    std::memcpy(data_->data(), record.get() + header_.size(), data_->size());
  }
  return Judge(error);
}

/// What has been read, or why it could not be.
RecordReader::Outcome RecordReader::Judge(int error) {
  const Outcome outcome = OutcomeOf(error);
  if (outcome != Outcome::kOk) return outcome;
  if (!HeaderMatches()) return Outcome::kMismatch;
  const Cells read{.begin = cells_.begin, .bytes = Slice::Of(data_), .checksums = checksums_};
  return read.Verify() ? Outcome::kOk : Outcome::kMismatch;
}

bool RecordReader::HeaderMatches() {
  const Result<RecordHeader> header = DecodeRecordHeader(header_, expected_.seed);
  if (!header || header->block != expected_.block || header->link != expected_.link ||
      header->segment != expected_.segment || header->position != expected_.position ||
      (header->cluster != expected_.cluster && !header->cluster.IsZero())) {
    return false;
  }
  const auto first =
      header->checksums.begin() + static_cast<std::ptrdiff_t>(cells_.begin / kCellBytes);
  const auto count = static_cast<std::ptrdiff_t>((cells_.size() + kCellBytes - 1) / kCellBytes);
  checksums_.assign(first, first + count);
  return true;
}

void RecordReader::DropFromMemory(int fd) const {
  ::posix_fadvise(fd, static_cast<off_t>(expected_.position),
                  static_cast<off_t>(RecordDiskBytes(expected_.block.length)), POSIX_FADV_DONTNEED);
}

Cells RecordReader::Take() {
  return Cells{.begin = cells_.begin,
               .bytes = Slice::Of(std::move(data_)),
               .checksums = std::move(checksums_),
               .tier = Tier::kLocal};
}

}  // namespace forebay
