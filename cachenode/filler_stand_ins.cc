// How blocks come from S3 that does not serve this node: other nodes ask it in this one's place.
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "cachenode/filler.h"
#include "common/model/system_link.h"

namespace forebay {
namespace {

// A request that has had no answer for so long has cost its reader enough.
constexpr std::chrono::seconds kLate{1};

// What it means that other fills have all of the share is that stand-ins are slow, too.
constexpr std::chrono::seconds kForShare{2};

/// S3 has said nothing, or has not heard who asks. What it throttles or breaks is its own affair.
bool IsSilence(RetryReason why) {
  return why == RetryReason::kNetwork || why == RetryReason::kTimeout || why == RetryReason::kDns ||
         why == RetryReason::kCredentials;
}

}  // namespace

bool Filler::IsUnserved(const Uuid& link) const {
  return unserved_.Holds(link) || counters_.refusals().IsRefused(link, Clock::now());
}

/// Another node has asked for it, and nobody here.
bool Filler::IsForOthersAlone(const ColdBlock& cold, const Fill& fill) {
  return cold.stand_in && !fill.is_wanted_here();
}

// Who fills is decided already; this is about who asks S3 for it. One at a time, so that a block is
// read once: what this node has asked for has failed before another is told, and the other way.
Task<Status> Filler::FetchFromAnywhere(const ColdBlock& cold, Fill& fill, Deadline deadline) {
  const Uuid& link = cold.link->id;
  Detour detour;
  if (unserved_.Holds(link)) {
    co_await AskStandIns(&cold, &fill, &detour, deadline);
    if (detour.verdict) co_return *std::move(detour.verdict);
  }
  Status got = co_await FetchParts(cold, fill, detour, deadline);
  if (detour.verdict) co_return *std::move(detour.verdict);
  if (got || got.error().code != Code::kDenied) co_return got;
  co_await AskStandIns(&cold, &fill, &detour, deadline);
  if (detour.verdict) co_return *std::move(detour.verdict);
  // Their readers go to the owners behind, who fill in this node's place from now on.
  if (!cold.stand_in && counters_.refusals().IsOften(link, Clock::now())) peers_.NoteRefused();
  co_return got;
}

// True: S3 is not asked again.
Task<bool> Filler::InsteadOfPause(Pause pause, RetryReason why) {
  const ColdBlock& cold = *pause.cold;
  const bool is_for_others = IsForOthersAlone(cold, *pause.fill);
  const bool has_others = is_for_others || peers_.MayStandIn(cold);
  const bool is_first = !std::exchange(pause.detour->has_failed, true);
  if (!IsSilence(why)) unserved_.NoteAnswered(cold.link->id);
  if (!has_others || !IsSilence(why)) co_return false;
  // Of further ones it is not known how much of the time they were paused.
  const TimePoint now = Clock::now();
  const bool late = why == RetryReason::kTimeout || (is_first && now - pause.began >= kLate);
  const bool unserved = unserved_.NoteUnanswered(cold.link->id, why, late, now);
  if (unserved) WatchS3(cold);
  // Whoever asked tells the next one.
  if (is_for_others || !unserved) co_return unserved;
  co_await AskStandIns(pause.cold, pause.fill, pause.detour, pause.deadline);
  if (!pause.detour->verdict) pause.fill->BeginPart(pause.part);
  co_return pause.detour->verdict.has_value();
}

Task<void> Filler::AskStandIns(const ColdBlock* cold, Fill* fill, Detour* detour,
                               Deadline deadline) {
  const bool may = !IsForOthersAlone(*cold, *fill) && !IsSystemLink(*cold->link) &&
                   peers_.MayStandIn(*cold) && !stopping_.load(std::memory_order_acquire);
  if (!may) co_return;
  if (unserved_.Holds(cold->link->id)) WatchS3(*cold);
  // As where other nodes are asked for what they have: memory is left for what they ask of us.
  // Those hold none yet when they wait for their share; this fill does, so it waits for a moment.
  const auto share = co_await peer_memory_.Reserve(cold->block.length, deadline.AtMost(kForShare));
  if (!share) co_return;
  ColdBlock asked = *cold;
  asked.wanted = fill->first_cells();
  fill->AskOthers(true);
  const Result<PeerFind> find = co_await peers_.GetByStandIn(std::move(asked), *fill, deadline);
  fill->AskOthers(false);
  if (!find) {
    detour->verdict = Fail(find.error());
  } else if (find->found) {
    detour->verdict = Status();
    stand_in_fills_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Filler::WatchS3(const ColdBlock& cold) {
  if (!unserved_.Want({.link = cold.link, .object = cold.object}, Clock::now())) return;
  running_.fetch_add(1, std::memory_order_acq_rel);
  spdlog::warn("S3 does not serve this node what link {} has; other nodes are to ask it instead",
               cold.link->name);
  Spawn(pool_.Next(), LookUntilServed(cold.link));
}

// No reader waits for these questions. They show in what S3 leaves unanswered, as fills do that
// wait for it.
Task<void> Filler::LookUntilServed(std::shared_ptr<const LinkSpec> link) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (bool is_first = true;; is_first = false) {
    Notifier::Ticket ticket = stopped_.Enlist(executor);
    if (stopping_.load(std::memory_order_acquire)) break;
    const Duration pause = unserved_.PauseBefore(link->id, options_.look_again);
    // The first one is due at once, unless looks were wrong before.
    const bool waits = !is_first || pause > options_.look_again;
    if (waits) co_await ticket.Wait(Deadline::After(pause));
    std::optional<UnservedLinks::Wanted> wanted = unserved_.NextLook(link->id, Clock::now());
    if (!wanted || stopping_.load(std::memory_order_acquire)) break;
    Status seen = co_await origin_.Look(std::move(wanted->link), std::move(wanted->object),
                                        Deadline::After(options_.s3_timeout));
    const Code code = seen ? Code::kNotFound : seen.error().code;
    if (seen || code == Code::kNotFound || code == Code::kStale) {
      unserved_.NoteSeen(link->id);
      spdlog::info("S3 answers this node about link {} again", link->name);
    }
    if (code == Code::kDenied) {
      unserved_.NoteRefused(link->id);
      counters_.refusals().NoteAgain(link->id, seen.error().message, Clock::now());
    }
  }
  running_.fetch_sub(1, std::memory_order_acq_rel);
}

void Filler::NoteRefused(const ColdBlock& cold, const std::string& why) {
  const bool often = counters_.refusals().Note(cold.link->id, why, Clock::now());
  // Once may be the object's fault.
  if (!often || !(cold.stand_in || peers_.MayStandIn(cold))) return;
  unserved_.NoteRefused(cold.link->id);
  WatchS3(cold);
}

void Filler::NoteServed(const Uuid& link) {
  counters_.refusals().NoteAnswered(link);
  unserved_.NoteServed(link);
}

}  // namespace forebay
