#include "common/snapshot/snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <numeric>
#include <system_error>

#include "common/model/block_id.h"
#include "common/model/limits.h"

namespace forebay {
namespace {

Error OpenError(const std::string& path, const char* what, int error) {
  return Error{error == ENOENT ? Code::kNotFound : Code::kInternal,
               std::string("cannot ") + what + " the snapshot " + path + ": " +
                   std::generic_category().message(error)};
}

Status Damaged(std::string what) {
  return Fail(Code::kCorrupt, std::move(what) + ": fetch it again");
}

// How long each section must be, given the counts; nothing for sections of free length.
std::optional<std::uint64_t> ExpectedBytes(const SnapshotHeader& header, SnapshotSection section) {
  const std::uint64_t rows = header.rows;
  switch (section) {
    case SnapshotSection::kSource:
      return std::accumulate(header.source_bytes.begin(), header.source_bytes.end(),
                             std::uint64_t{0});
    case SnapshotSection::kDirectories:
      return header.directories * std::uint64_t{sizeof(SnapshotDirectoryRecord)};
    case SnapshotSection::kNameGroups:
      return (rows + kNameGroupRows - 1) / kNameGroupRows * sizeof(std::uint32_t);
    case SnapshotSection::kRows:
      return rows * sizeof(SnapshotRowRecord);
    case SnapshotSection::kNameTags:
      return header.slots;
    case SnapshotSection::kNameSlots:
    case SnapshotSection::kNodeidSlots:
      return header.slots * std::uint64_t{sizeof(std::uint32_t)};
    case SnapshotSection::kCells:
      return (header.section(SnapshotSection::kCells).offset + kCellBytes - 1) / kCellBytes *
             sizeof(std::uint64_t);
    case SnapshotSection::kPaths:
    case SnapshotSection::kNames:
    case SnapshotSection::kEtags:
    case SnapshotSection::kHidden:
      return std::nullopt;
  }
  return std::nullopt;
}

Result<std::size_t> SizeOf(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return Fail(OpenError(path, "stat", errno));
  if (!S_ISREG(status.st_mode)) {
    return Fail(Code::kCorrupt, path + " is no snapshot: it is no regular file");
  }
  if (static_cast<std::uint64_t>(status.st_size) < sizeof(SnapshotHeader)) {
    return Fail(Code::kCorrupt, path + " is no whole snapshot: " + std::to_string(status.st_size) +
                                    " bytes are less than a header: fetch it again");
  }
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

SnapshotTotals TotalsOf(const SnapshotHeader& header) {
  return {.objects = header.rows - header.directories,
          .bytes = header.object_bytes,
          .large_bytes = header.large_bytes,
          .directories = header.directories,
          .hidden_keys = std::accumulate(header.hidden_by_reason.begin(),
                                         header.hidden_by_reason.end(), std::uint64_t{0}),
          .hidden_by_reason = header.hidden_by_reason};
}

Result<std::shared_ptr<const Snapshot>> Snapshot::Open(const std::string& path,
                                                       std::optional<SnapshotId> expected) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Fail(OpenError(path, "open", errno));
  Result<std::shared_ptr<const Snapshot>> snapshot = OpenFile(fd, path, expected);
  ::close(fd);
  return snapshot;
}

Result<std::shared_ptr<const Snapshot>> Snapshot::OpenFile(int fd, const std::string& path,
                                                           std::optional<SnapshotId> expected) {
  const auto bytes = SizeOf(fd, path);
  void* mapping = bytes ? ::mmap(nullptr, *bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = errno;
  if (!bytes) return Fail(bytes.error());
  if (mapping == MAP_FAILED) return Fail(OpenError(path, "map", error));
  std::shared_ptr<Snapshot> snapshot(new Snapshot(static_cast<const std::byte*>(mapping), *bytes));
  if (Status status = snapshot->Check(expected); !status) {
    return Fail(status.error().Within("snapshot " + path));
  }
  return snapshot;
}

Snapshot::~Snapshot() { ::munmap(const_cast<std::byte*>(base_), bytes_); }

Status Snapshot::Check(const std::optional<SnapshotId>& expected) {
  std::memcpy(&header_, base_, sizeof header_);
  if (Status status = CheckHeader(); !status) return status;
  if (Status status = CheckSections(); !status) return status;
  if (Status status = CheckRoot(); !status) return status;
  if (!TakeExtras()) return Damaged("what it has beside the listing lies outside the file");
  id_ = {.link = {.bytes = header_.link}, .generation = header_.generation};
  domain_ = {.bytes = header_.domain};
  const std::string_view source = TextOf(SnapshotSection::kSource);
  const auto [endpoint, bucket, prefix] = header_.source_bytes;
  source_ = {.endpoint = source.substr(0, endpoint),
             .bucket = source.substr(endpoint, bucket),
             .prefix = source.substr(endpoint + bucket, prefix)};
  totals_ = TotalsOf(header_);
  if (expected && *expected != id_) {
    return Damaged("it is generation " + std::to_string(id_.generation) + " of link " +
                   id_.link.ToString() + ", not generation " +
                   std::to_string(expected->generation) + " of link " + expected->link.ToString());
  }
  return {};
}

Status Snapshot::CheckHeader() const {
  if (header_.magic != kSnapshotMagic) return Damaged("it is no snapshot of Forebay's");
  if (header_.format != kSnapshotFormat && header_.format != kSnapshotFormatWithExtras) {
    return Fail(Code::kCorrupt,
                "its format is " + std::to_string(header_.format) +
                    " and this program reads formats " + std::to_string(kSnapshotFormat) + " and " +
                    std::to_string(kSnapshotFormatWithExtras) + ": use programs of one version");
  }
  if (header_.header_bytes != sizeof header_ ||
      header_.checksum != XXH3_64bits(&header_, offsetof(SnapshotHeader, checksum))) {
    return Damaged("its header is damaged");
  }
  if (header_.file_bytes != bytes_) {
    return Damaged("it has " + std::to_string(bytes_) + " of " +
                   std::to_string(header_.file_bytes) + " bytes");
  }
  return {};
}

// After this every record that the counts allow lies inside the mapping.
Status Snapshot::CheckSections() const {
  if (header_.rows == 0 || header_.directories == 0 || header_.rows < header_.directories) {
    return Damaged("it has no root");
  }
  std::uint64_t end = sizeof header_;
  for (std::size_t i = 0; i < kSnapshotSections; ++i) {
    const auto section = static_cast<SnapshotSection>(i);
    const SnapshotSectionRecord place = header_.section(section);
    if (place.offset < end || place.offset > bytes_ || place.bytes > bytes_ - place.offset) {
      return Damaged("section " + std::to_string(i) + " lies outside the file");
    }
    if (const auto expected = ExpectedBytes(header_, section);
        expected.value_or(place.bytes) != place.bytes) {
      return Damaged("section " + std::to_string(i) + " has " + std::to_string(place.bytes) +
                     " bytes, not " + std::to_string(*expected));
    }
    end = place.offset + place.bytes;
  }
  if (end != bytes_) return Damaged("bytes follow its last section");
  return {};
}

Status Snapshot::CheckRoot() const {
  const auto root = RowAt(0);
  if (!root || !root->is_directory() || root->directory != kRootDirectory ||
      root->nodeid != kRootNodeid) {
    return Damaged("its root is damaged");
  }
  return {};
}

Status Snapshot::VerifyAll() const {
  const std::uint64_t end = header_.section(SnapshotSection::kCells).offset;
  for (std::uint64_t at = 0; at < end; at += kCellBytes) {
    const std::uint64_t cell = at / kCellBytes;
    const std::uint64_t size = std::min(kCellBytes, end - at);
    if (CellChecksum(base_ + at, size) != RecordAt<std::uint64_t>(SnapshotSection::kCells, cell)) {
      return Damaged("cell " + std::to_string(cell) + " of the snapshot of link " +
                     id_.link.ToString() + " does not match its checksum");
    }
  }
  return {};
}

SnapshotDigest Snapshot::Digest() const {
  const XXH128_hash_t digest = XXH3_128bits(base_, bytes_);
  return {.high = digest.high64, .low = digest.low64};
}

std::string_view Snapshot::TextOf(SnapshotSection section) const {
  const SnapshotSectionRecord place = header_.section(section);
  return {reinterpret_cast<const char*>(base_) + place.offset, place.bytes};
}

}  // namespace forebay
