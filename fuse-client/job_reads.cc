#include "fuse-client/job_reads.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "common/model/read_through.h"

namespace forebay {

namespace {

/// READs of one block come from readers that are under way together; this many blocks may be. In a
/// small link half of it, so that a second pass is seen as one.
constexpr double kLeastWindow = 16;

std::uint64_t WindowOf(const BlockSample& sample) {
  const double percent = sample.size() / 100;
  return static_cast<std::uint64_t>(
      std::min(std::max(percent, kLeastWindow), std::max(sample.size() / 2, 1.0)));
}

/// A report leaves early with this part of the blocks that trigger a fill: then it begins within a
/// second of when it could, also where several mounts read.
constexpr std::uint64_t kEarlyPart = 8;

}  // namespace

Duration JobTotals::AllWaits() const {
  return std::accumulate(waited.begin(), waited.end(), detour);
}

JobReads::JobReads(std::string id, const Uuid& link, LinkFacts facts, std::uint64_t serial,
                   TimePoint now)
    : id_(std::move(id)),
      link_(link),
      facts_(std::move(facts)),
      serial_(serial),
      sample_(facts_.blocks),
      touch_window_(WindowOf(sample_)),
      last_read_(now),
      last_alive_(now) {}

bool JobReads::Begin(TimePoint now) {
  std::scoped_lock lock(mutex_);
  if (ended_) return false;
  if (in_flight_++ == 0) busy_since_ = now;
  last_read_ = now;
  return true;
}

Duration JobReads::End(TimePoint began, TimePoint now, const ReadOutcome& outcome) {
  const Duration took = now - began;
  const Duration detour = outcome.failed ? took : std::min(outcome.detour, took);
  std::scoped_lock lock(mutex_);
  ++changes_;
  ++totals_.reads;
  if (outcome.failed) ++totals_.failed_reads;
  for (std::size_t i = 0; i < kTiers; ++i) totals_.bytes[i] += outcome.bytes[i];
  totals_.waited[static_cast<std::size_t>(outcome.slowest)] += took - detour;
  totals_.detour += detour;
  ++totals_.durations.at(ReadBucketOf(took));
  last_read_ = now;
  if (--in_flight_ == 0) totals_.busy += now - busy_since_;
  return outcome.slowest == Tier::kS3 ? took : detour;
}

void JobReads::Touch(const BlockId& block) {
  const std::optional<std::uint32_t> place = sample_.PlaceOf(block);
  if (!place || facts_.blocks == 0) return;
  std::scoped_lock lock(mutex_);
  RecentTouch& recent = recent_[*place % kRecentSlots];
  if (recent.place == *place && touches_ - recent.at < touch_window_) {
    recent.at = touches_;
    return;
  }
  ++touches_;
  recent = RecentTouch{*place, touches_};
  unconfirmed_.push_back(*place);
  if (unconfirmed_.size() > kMaxTouches) unconfirmed_.pop_front();
}

void JobReads::NoteRead(const BlockSpan& span, std::uint64_t object_bytes,
                        std::uint64_t block_bytes, TimePoint now) {
  if (!counts_dense_.load(std::memory_order_relaxed) || facts_.blocks == 0) return;
  const std::scoped_lock lock(dense_mutex_);
  dense_.Note(span.block, span.range, object_bytes, block_bytes, now);
}

std::vector<std::uint64_t> JobReads::DenseBlocks(TimePoint now) {
  const std::scoped_lock lock(dense_mutex_);
  return dense_.Recent(now);
}

bool JobReads::HasManyDenseBlocks() const {
  const std::scoped_lock lock(dense_mutex_);
  return dense_.size() * kEarlyPart > BlocksOfReadThrough(facts_.blocks);
}

void JobReads::ConfirmDense(std::size_t count, bool more) {
  counts_dense_.store(more, std::memory_order_relaxed);
  const std::scoped_lock lock(dense_mutex_);
  if (more) {
    dense_.Drop(count);
  } else {
    dense_.Clear();
  }
}

void JobReads::AddProcess(pid_t process, std::uint64_t start) {
  std::scoped_lock lock(mutex_);
  if (processes_.size() >= kMaxProcesses && !processes_.contains(process)) return;
  if (processes_.insert_or_assign(process, start).second) ++changes_;
  had_processes_ = true;
}

void JobReads::Resume(const JobTotals& totals, Touches touches, std::uint64_t epoch) {
  std::scoped_lock lock(mutex_);
  totals_ = totals;
  touches_ = touches.from + touches.places.size();
  unconfirmed_ = std::move(touches.places);
  epoch_ = epoch;
}

std::size_t JobReads::CountProcesses(const ProcessFiles& files) {
  std::vector<std::pair<pid_t, std::uint64_t>> known;
  {
    std::scoped_lock lock(mutex_);
    known.assign(processes_.begin(), processes_.end());
  }
  std::erase_if(known, [&](const auto& process) {
    const std::optional<std::uint64_t> start = files.StartOf(process.first);
    return start == process.second;
  });
  const TimePoint now = Clock::now();
  std::scoped_lock lock(mutex_);
  for (const auto& [process, start] : known) {
    const auto gone = processes_.find(process);
    if (gone == processes_.end() || gone->second != start) continue;
    processes_.erase(gone);
    ++changes_;
  }
  if (!processes_.empty()) last_alive_ = now;
  return processes_.size();
}

bool JobReads::EndIfIdle(TimePoint now) {
  std::scoped_lock lock(mutex_);
  if (ended_) return true;
  if (in_flight_ > 0) return false;
  const TimePoint last_sign = std::max(last_read_, last_alive_);
  const bool gone = had_processes_ && processes_.empty() && now - last_sign >= kGoneFor;
  if (!gone && now - last_read_ < kIdleFor) return false;
  ended_ = true;
  ++changes_;
  return true;
}

bool JobReads::EndUnlessReading() {
  std::scoped_lock lock(mutex_);
  if (in_flight_ > 0) return false;
  if (!ended_) ++changes_;
  ended_ = true;
  return true;
}

JobReads::View JobReads::Look() const {
  std::scoped_lock lock(mutex_);
  View view;
  view.totals = totals_;
  if (in_flight_ > 0) view.totals.busy += Clock::now() - busy_since_;
  view.processes = processes_.size();
  view.ended = ended_;
  view.changes = changes_ + touches_;
  view.last_read = last_read_;
  view.epoch = epoch_;
  view.progress = progress_;
  return view;
}

JobReads::Touches JobReads::Unconfirmed() const {
  std::scoped_lock lock(mutex_);
  return Touches{.from = touches_ - unconfirmed_.size(), .places = unconfirmed_};
}

void JobReads::Confirm(std::uint64_t until, std::uint64_t epoch, double progress) {
  std::scoped_lock lock(mutex_);
  while (!unconfirmed_.empty() && touches_ - unconfirmed_.size() < until) unconfirmed_.pop_front();
  epoch_ = epoch;
  progress_ = progress;
}

}  // namespace forebay
