#include "cachenode/store/recovery.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "cachenode/store/segment_file.h"
#include "cachenode/store/segment_format.h"
#include "common/base/failpoint.h"

namespace forebay {
namespace {

constexpr std::size_t kBatch = 1000;  // rows that are written or deleted at once

using SegmentsByNumber = std::unordered_map<std::uint32_t, const SegmentOnDisk*>;

bool Inside(const SegmentOnDisk& segment, std::uint64_t position, std::uint32_t length) {
  return position + RecordHeaderBytes(length) + length <= segment.size;
}

bool Usable(const SegmentsByNumber& segments, const IndexedRecord& record) {
  const auto segment = segments.find(record.segment);
  return segment != segments.end() && record.block.length > 0 &&
         record.block.length <= kMaxBlockBytes &&
         Inside(*segment->second, std::uint64_t{record.unit} * kRecordAlignment,
                record.block.length);
}

/// Reads all rows; kCorrupt when the index cannot be believed.
Status Load(RecoveredIndex& recovered, const SegmentsByNumber& segments, const RecoverySink& sink) {
  std::vector<BlockId> unwanted;
  Status read = recovered.db->ForEach([&](const IndexedRecord& record) {
    // Also of rows that point nowhere: such a number must not come again.
    recovered.next_segment = std::max(recovered.next_segment, record.segment + 1);
    if (Usable(segments, record) && sink.keep(record)) {
      ++recovered.kept;
    } else {
      unwanted.push_back(record.block);
    }
  });
  if (!read) return read;
  recovered.dropped = unwanted.size();
  for (std::size_t from = 0; from < unwanted.size(); from += kBatch) {
    const auto batch = std::span(unwanted).subspan(from, std::min(kBatch, unwanted.size() - from));
    if (Status deleted = recovered.db->Delete(batch); !deleted) return deleted;
  }
  const Result<std::uint32_t> next = recovered.db->NextSegment();
  if (!next) return Fail(next.error());
  recovered.next_segment = std::max(recovered.next_segment, *next);
  return {};
}

Status Rebuild(RecoveredIndex& recovered, const CacheDirectory& directory,
               std::span<const SegmentOnDisk> segments, const RecoverySink& sink) {
  std::vector<IndexedRecord> batch;
  const auto flush = [&]() -> Status {
    Status put = batch.empty() ? Status() : recovered.db->Put(batch);
    batch.clear();
    return put;
  };
  // Newest first: of two records of one block the later one is kept.
  for (std::size_t i = segments.size(); i-- > 0;) {
    const Result<std::vector<IndexedRecord>> records = ScanSegment(directory, segments[i]);
    if (!records) return Fail(records.error());
    for (const IndexedRecord& record : *records) {
      if (!sink.keep(record)) {
        ++recovered.dropped;
        continue;
      }
      ++recovered.kept;
      batch.push_back(record);
      if (batch.size() < kBatch) continue;
      if (Status put = flush(); !put) return put;
    }
  }
  if (Status put = flush(); !put) return put;
  failpoint("store.in_rebuild");
  return recovered.db->MarkComplete();
}

/// The next place where a record may begin: data that is no hole. Empty at the end.
std::uint64_t NextData(int fd, std::uint64_t position, std::uint64_t size) {
  const off_t data = ::lseek(fd, static_cast<off_t>(position), SEEK_DATA);
  if (data >= 0) {
    return (static_cast<std::uint64_t>(data) / kRecordAlignment) * kRecordAlignment;
  }
  // ENXIO: nothing but a hole follows. Otherwise the file system cannot say, so every place counts.
  return errno == ENXIO ? size : position;
}

Error CannotOpen(const CacheDirectory& directory, const Error& cause) {
  return Error{Code::kInvalid, "cache directory " + directory.path() + " cannot be used: " +
                                   cause.message + "; make room or make it writable"};
}

}  // namespace

Result<std::vector<IndexedRecord>> ScanSegment(const CacheDirectory& directory,
                                               const SegmentOnDisk& segment) {
  const FileDescriptor fd = directory.OpenSegment(segment.link, segment.number, O_RDONLY);
  if (!fd) {
    return Fail(Code::kInternal, "opening segment " + std::to_string(segment.number) + " in " +
                                     directory.path() + ": " + ErrnoText(errno));
  }
  const std::uint64_t seed = RecordSeed(directory.identity().directory);
  const Uuid& cluster = directory.identity().cluster;
  std::vector<IndexedRecord> records;
  std::array<std::byte, kRecordAlignment> page;
  for (std::uint64_t position = NextData(fd.get(), 0, segment.size); position < segment.size;) {
    const std::uint64_t bytes = std::min<std::uint64_t>(page.size(), segment.size - position);
    iovec part{page.data(), bytes};
    const int error = ReadExactly(fd.get(), {&part, 1}, position, false);
    const Result<RecordHeader> header = error != 0
                                            ? Fail(Code::kCorrupt, ErrnoText(error))
                                            : DecodeRecordHeader(ByteView(page).first(bytes), seed);
    const bool ours = header && header->link == segment.link && header->segment == segment.number &&
                      header->position == position &&
                      (header->cluster == cluster || header->cluster.IsZero()) &&
                      Inside(segment, position, header->block.length);
    if (ours) {
      records.push_back(
          {header->block, segment.number, static_cast<std::uint32_t>(position / kRecordAlignment)});
    }
    position += ours ? RecordDiskBytes(header->block.length) : kRecordAlignment;
    position = NextData(fd.get(), position, segment.size);
  }
  return records;
}

Result<RecoveredIndex> RecoverIndex(const CacheDirectory& directory,
                                    std::span<const SegmentOnDisk> segments,
                                    std::uint64_t write_buffer_bytes, const RecoverySink& sink) {
  const IndexDbOptions options{.path = directory.index_path(),
                               .directory = directory.identity().directory,
                               .write_buffer_bytes = write_buffer_bytes};
  SegmentsByNumber by_number;
  RecoveredIndex recovered;
  for (const SegmentOnDisk& segment : segments) {
    by_number.emplace(segment.number, &segment);
    recovered.next_segment = std::max(recovered.next_segment, segment.number + 1);
  }
  const std::uint32_t next_segment = recovered.next_segment;
  Result<std::unique_ptr<IndexDb>> opened = IndexDb::Open(options);
  Status loaded;
  if (opened) {
    recovered.db = std::move(*opened);
    loaded = Load(recovered, by_number, sink);
    if (loaded) return recovered;
  } else {
    loaded = Fail(std::move(opened.error()));
  }
  if (loaded.error().code != Code::kCorrupt) return Fail(CannotOpen(directory, loaded.error()));
  if (!segments.empty()) {
    spdlog::warn("{}; the index is rebuilt from {} segments", loaded.error().message,
                 segments.size());
  }
  sink.start_again();
  recovered = RecoveredIndex();  // closes the damaged one
  recovered.next_segment = next_segment;
  recovered.rebuilt = true;
  Result<std::unique_ptr<IndexDb>> created = IndexDb::Create(options);
  if (!created) return Fail(CannotOpen(directory, created.error()));
  recovered.db = std::move(*created);
  Status rebuilt = Rebuild(recovered, directory, segments, sink);
  if (!rebuilt) return Fail(CannotOpen(directory, rebuilt.error()));
  return recovered;
}

}  // namespace forebay
