#include <algorithm>
#include <utility>

#include "cachenode/store/crash_book.h"
#include "cachenode/store/disk.h"
#include "common/base/failpoint.h"

// How new blocks come to a disk, several at once: data, then index.
namespace forebay {

/// A block whose place is reserved, or why it is not.
struct Disk::Landing {
  Arrival& arrival;
  Place place;
  std::vector<std::byte> header;
  Status status;

  const NewBlock& block() const { return *arrival.block; }
  /// Its record is to be written right behind that of `before`.
  bool Follows(const Landing& before) const {
    return status && place.segment == before.place.segment &&
           place.position == before.place.position + before.place.bytes;
  }
};

Status Disk::Admit(const std::shared_ptr<Arrival>& own) {
  for (;;) {
    const Arrivals::Batch batch = arrivals_.Take(*own);
    if (batch.empty()) return arrivals_.AnswerOf(*own);
    arrivals_.Land(batch, AdmitAll(batch));
  }
}

std::vector<Status> Disk::AdmitAll(std::span<const std::shared_ptr<Arrival>> arrivals) {
  FreeReleased();
  std::vector<Landing> landings;
  landings.reserve(arrivals.size());
  for (const auto& arrival : arrivals) landings.push_back(Prepare(*arrival));
  WriteAll(landings);
  for (Landing& landing : landings) {
    if (!landing.status || !landing.arrival.given_up.load(std::memory_order_relaxed)) continue;
    Abandon(landing.place);
    landing.status = Fail(Code::kTimeout, "the disk does not answer");
  }
  CommitAll(landings);
  std::vector<Status> answers;
  answers.reserve(landings.size());
  for (Landing& landing : landings) answers.push_back(std::move(landing.status));
  return answers;
}

Disk::Landing Disk::Prepare(Arrival& arrival) {
  const NewBlock& block = *arrival.block;
  const HandledBlock handled(block.block);
  Landing landing{.arrival = arrival, .place = {}, .header = {}, .status = {}};
  if (arrival.given_up.load(std::memory_order_relaxed)) {
    landing.status = Fail(Code::kTimeout, "the disk does not answer");
    return landing;
  }
  Result<Place> place = Reserve(arrival);
  if (!place) {
    // Its owner may be making room again before the rest of the batch has landed.
    if (arrival.claim) arrival.claim->End();
    landing.status = Fail(std::move(place.error()));
    return landing;
  }
  landing.place = std::move(*place);
  const RecordHeader header{.cluster = directory_.identity().cluster,
                            .link = block.link->id,
                            .block = block.block,
                            .segment = landing.place.segment->number,
                            .position = landing.place.position,
                            .checksums = block.checksums};
  landing.header = EncodeRecordHeader(header, seed_);
  return landing;
}

/// Records that lie one behind the other are one call.
void Disk::WriteAll(std::span<Landing> landings) {
  for (std::size_t begin = 0; begin < landings.size();) {
    std::size_t end = begin + 1;
    while (end < landings.size() && landings[end].Follows(landings[end - 1])) ++end;
    if (landings[begin].status) WriteRun(landings.subspan(begin, end - begin));
    begin = end;
  }
}

void Disk::WriteRun(std::span<Landing> run) {
  std::vector<Record> records;
  records.reserve(run.size());
  Place whole{run.front().place.segment, run.front().place.position, 0};
  for (const Landing& landing : run) {
    records.push_back({landing.header, landing.block().data.bytes, landing.place.bytes});
    whole.bytes += landing.place.bytes;
  }
  const int error = WriteRecords(whole.segment->writer.get(), records, whole.position);
  if (error == 0) {
    failpoint("store.after_segment_write");
    WriteBackBehind(whole);
    return;
  }
  GiveBack(run, WriteFailed(error, "writing a block"));
}

/// Counted as one failure: it was one call.
void Disk::GiveBack(std::span<Landing> landings, const Status& failed) {
  for (Landing& landing : landings) {
    if (!landing.status) continue;
    Abandon(landing.place);
    landing.status = failed;
  }
}

/// Durable index, in one write, then memory: from then on the blocks can be read.
void Disk::CommitAll(std::span<Landing> landings) {
  std::vector<IndexedRecord> records;
  records.reserve(landings.size());
  for (const Landing& landing : landings) {
    if (landing.status) records.push_back(RecordOf(landing));
  }
  if (records.empty()) return;
  if (const Status put = db_->Put(records); !put) {
    const int error = put.error().code == Code::kOverloaded ? ENOSPC : EIO;
    GiveBack(landings, WriteFailed(error, put.error().message));
    return;
  }
  failpoint("store.after_index_commit");
  for (Landing& landing : landings) {
    if (landing.status) landing.status = Show(landing);
  }
}

IndexedRecord Disk::RecordOf(const Landing& landing) {
  return {landing.block().block, landing.place.segment->number,
          static_cast<std::uint32_t>(landing.place.position / kRecordAlignment),
          landing.block().path_pinned};
}

/// Its row is written.
Status Disk::Show(const Landing& landing) {
  const IndexedRecord record = RecordOf(landing);
  const Place& place = landing.place;
  const BlockId& block = record.block;
  LinkState& link = *place.segment->link;
  {
    // Counted before anybody can find the block, and so before anybody can remove it.
    const std::scoped_lock lock(mutex_);
    ++place.segment->live_blocks;
    place.segment->live_bytes += place.bytes;
  }
  link.Count(block.length, record.pinned, landing.arrival.hold.get());
  const BlockPlace at{number_, place.segment->number, record.unit};
  const auto handle = parts_.index.Insert(block, at, parts_.hour(), record.pinned);
  if (handle) {
    parts_.history.SetCached(block, true);
    const std::scoped_lock lock(mutex_);
    place.segment->blocks.push_back(*handle);
  }
  FinishWriter(place.segment);
  if (handle) return {};
  // Only when memory has no room for one more entry: callers admit a block once at a time.
  link.Uncount(block.length, record.pinned, landing.arrival.hold.get());
  if (Status deleted = db_->Delete({&block, 1}, {&block, 1}); !deleted) return deleted;
  const Freed freed{at, place.bytes};
  Free({&freed, 1});
  return Fail(Code::kOverloaded, "the index of " + path_ + " cannot hold another block");
}

void Disk::Abandon(const Place& place) {
  const int error = PunchHole(place.segment->writer.get(), place.position, place.bytes);
  {
    const std::scoped_lock lock(mutex_);
    if (error == 0) {
      used_.fetch_sub(place.bytes, std::memory_order_relaxed);
    } else {
      place.segment->slack_bytes += place.bytes;
    }
  }
  FinishWriter(place.segment);
}

}  // namespace forebay
