#include "fuse-client/job_messages.h"

#include <chrono>

#include "common/wire/messages.h"

namespace forebay {

namespace {

std::size_t At(Tier tier) { return static_cast<std::size_t>(tier); }

Duration FromMicroseconds(std::uint64_t us) {
  return std::chrono::microseconds(static_cast<std::int64_t>(us));
}

void WriteWaits(const JobTotals& totals, proto::JobWaits& waits) {
  waits.set_reads(totals.reads);
  waits.set_failed_reads(totals.failed_reads);
  waits.set_local_bytes(totals.bytes[At(Tier::kLocal)]);
  waits.set_peer_bytes(totals.bytes[At(Tier::kPeer)]);
  waits.set_s3_bytes(totals.bytes[At(Tier::kS3)]);
  waits.set_local_us(Microseconds(totals.waited[At(Tier::kLocal)]));
  waits.set_peer_us(Microseconds(totals.waited[At(Tier::kPeer)]));
  waits.set_s3_us(Microseconds(totals.waited[At(Tier::kS3)]));
  waits.set_detour_us(Microseconds(totals.detour));
  waits.set_busy_us(Microseconds(totals.busy));
}

JobTotals TotalsOf(const proto::JobWaits& waits) {
  JobTotals totals;
  totals.reads = waits.reads();
  totals.failed_reads = waits.failed_reads();
  totals.bytes[At(Tier::kLocal)] = waits.local_bytes();
  totals.bytes[At(Tier::kPeer)] = waits.peer_bytes();
  totals.bytes[At(Tier::kS3)] = waits.s3_bytes();
  totals.waited[At(Tier::kLocal)] = FromMicroseconds(waits.local_us());
  totals.waited[At(Tier::kPeer)] = FromMicroseconds(waits.peer_us());
  totals.waited[At(Tier::kS3)] = FromMicroseconds(waits.s3_us());
  totals.detour = FromMicroseconds(waits.detour_us());
  totals.busy = FromMicroseconds(waits.busy_us());
  return totals;
}

}  // namespace

std::uint64_t Microseconds(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

void WriteJob(const JobReads& job, const JobReads::View& view, const JobReads::Touches& touches,
              proto::MountJob& row) {
  row.set_job(job.id());
  row.set_link(BytesOf(job.link()));
  row.set_serial(job.serial());
  row.set_generation(job.facts().generation);
  row.set_link_blocks(job.facts().blocks);
  row.set_listing_digest(job.facts().listing_digest);
  WriteWaits(view.totals, *row.mutable_waits());
  row.set_processes(static_cast<std::uint32_t>(view.processes));
  row.set_ended(view.ended);
  row.set_touched_from(touches.from);
  for (const std::uint32_t place : touches.places) row.add_touched(place);
  row.set_epoch(view.epoch);
}

std::shared_ptr<JobReads> JobOf(const proto::MountJob& row, const std::string& link_name) {
  LinkFacts facts{.name = link_name,
                  .generation = row.generation(),
                  .blocks = row.link_blocks(),
                  .listing_digest = row.listing_digest()};
  auto job = std::make_shared<JobReads>(row.job(), UuidFromBytes(row.link()), std::move(facts),
                                        row.serial(), Clock::now());
  JobReads::Touches touches{.from = row.touched_from(), .places = {}};
  touches.places.assign(row.touched().begin(), row.touched().end());
  job->Resume(TotalsOf(row.waits()), std::move(touches), row.epoch());
  return job;
}

}  // namespace forebay
