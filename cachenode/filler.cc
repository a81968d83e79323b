#include "cachenode/filler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "cachenode/fill_order.h"
#include "common/model/key_rules.h"
#include "common/model/record_size.h"
#include "common/model/system_link.h"

namespace forebay {
namespace {

// One waits for each block that somebody asks for; a client gives up and comes back long before it
// would be the last of these.
constexpr std::size_t kMostWaiting = 65536;

constexpr std::chrono::seconds kWarnEvery{10};

// Fifteen sixteenths of the connections to S3, of which there are half as many as slots: a reader
// finds a free one, and a first epoch gets nearly all that the connections can carry.
std::size_t MostInBackground(std::size_t slots) {
  return std::max<std::size_t>(1, slots * 15 / 32);
}

std::uint64_t RecentBytes(const FillerOptions& options) {
  return options.recent_bytes > 0 ? options.recent_bytes : options.memory_limit / 4;
}

/// Whoever asks for it again begins anew.
Error Unwanted(const BlockId& block) {
  return Error{Code::kOverloaded, "nobody wants block " + block.ToString() + " any more"};
}

}  // namespace

Filler::Filler(FillerOptions options, IoPool& pool, BlockStore& store, BlockPeers& peers,
               Origin& origin, NodeCounters& counters, BlockHistory& history)
    : options_(options),
      pool_(pool),
      store_(store),
      peers_(peers),
      origin_(origin),
      counters_(counters),
      history_(history),
      slots_(options.max_fills, MostInBackground(options.max_fills), kMostWaiting),
      peer_slots_(options.max_fills, options.max_fills, kMostWaiting),
      memory_(options.memory_limit),
      background_memory_((options.memory_limit - RecentBytes(options)) / 2),
      peer_memory_((options.memory_limit - RecentBytes(options)) / 2),
      recent_(RecentBytes(options)) {}

Filler::Seat Filler::JoinOrStart(const ColdBlock& cold, bool unless_kept) {
  const auto want = [&](Fill& fill) {
    if (cold.wanted.size() > 0) fill.Want(FirstCells(cold));
  };
  const auto begin = [&]() -> std::shared_ptr<Fill> {
    // A fill that has just landed left the flight after it had stored the block: the caller looked
    // too early.
    if (unless_kept && (store_.Contains(cold.block) || recent_.Contains(cold.block)))
      return nullptr;
    running_.fetch_add(1, std::memory_order_acq_rel);
    auto fill = std::make_shared<Fill>(cold.block, cold.urgency);
    // It waits for nobody: whoever asked may join it at once.
    if (cold.stand_in) fill->MarkOwnGet();
    want(*fill);
    return fill;
  };
  auto seat = flights_.Join(cold.block, begin);
  while (seat.flight && !seat.flight->AddWish()) {
    flights_.Leave(cold.block, seat.flight);
    seat = flights_.Join(cold.block, begin);
  }
  if (seat.flight && !cold.stand_in) seat.flight->MarkWantedHere();
  if (seat.leads) {
    Spawn(pool_.Next(), Run(cold, seat.flight));
  } else if (seat.flight) {
    want(*seat.flight);
    slots_.Promote(seat.flight->turn(), cold.urgency);
    brakes_.Promote(cold.link->id, cold.block, cold.urgency);
  }
  return Seat{std::move(seat.flight), seat.leads};
}

void Filler::Unwish(const Uuid& link, const std::shared_ptr<Fill>& fill) {
  // One that has ended is not the one that may wait under the same block by now.
  if (fill->DropWish() && flights_.Find(fill->block()) == fill) brakes_.Drop(link, fill->block());
}

bool Filler::IsAbandoned(const ColdBlock& cold, Fill& fill) {
  return cold.in_background() && fill.GiveUp();
}

std::shared_ptr<Fill> Filler::Running(const Uuid& link, const BlockId& block) {
  std::shared_ptr<Fill> fill = flights_.Find(block);
  if (fill && !fill->AddWish()) fill.reset();
  if (fill) {
    slots_.Promote(fill->turn(), Urgency::kReader);
    brakes_.Promote(link, block, Urgency::kReader);
  }
  return fill;
}

// The other nodes first: only the first live owner of a block asks S3 for it.
Task<Result<PeerFind>> Filler::Fetch(const ColdBlock& cold, Fill& fill) {
  const Deadline deadline = Deadline::After(options_.s3_timeout);
  if (cold.peers_only && IsRefusedRoom(cold, fill))
    co_return Fail(Code::kOverloaded, "this node has no room for block " + cold.block.ToString());
  if (!cold.stand_in && peers_.MayHave(cold)) {
    Result<PeerFind> find = co_await FetchFromPeers(cold, fill, deadline);
    if (!find || find->found) co_return find;
  }
  // A reader that has joined meanwhile gets it from S3.
  if (cold.peers_only && slots_.InBackground(*fill.turn())) {
    fill.LandsAs(Fail(Code::kNotFound, "no other node has block " + cold.block.ToString()));
    co_return Fail(Unwanted(cold.block));
  }
  fill.MarkOwnGet();
  Status got = co_await FetchFromS3(cold, fill, deadline);
  if (!got) co_return Fail(got.error());
  co_return PeerFind{.found = false, .keep = !cold.stand_in};
}

Task<Result<PeerFind>> Filler::FetchFromPeers(const ColdBlock& cold, Fill& fill,
                                              Deadline deadline) {
  const auto turn = std::make_shared<FillSlots::Turn>(Urgency::kReader);
  Status slot = co_await peer_slots_.Take(turn, deadline);
  if (!slot) co_return Fail(slot.error());
  Result<PeerFind> find = co_await FetchInPeerSlot(cold, fill, deadline);
  peer_slots_.Return(turn);
  co_return find;
}

Task<Result<PeerFind>> Filler::FetchInPeerSlot(const ColdBlock& cold, Fill& fill,
                                               Deadline deadline) {
  UrgencyNow urgency = [this, turn = fill.turn()] { return slots_.UrgencyOf(*turn); };
  const Status passed = co_await brakes_.PassNetwork(cold.block, urgency, deadline);
  if (!passed) co_return Fail(passed.error());
  // Two nodes that look for blocks at each other hold memory for them until the other has fetched
  // its own: some must be left for those.
  const auto share = co_await peer_memory_.Reserve(cold.block.length, deadline);
  if (!share) co_return Fail(Code::kOverloaded, share.error().message);
  Result<MemoryBudget::Reservation> memory = co_await memory_.Reserve(cold.block.length, deadline);
  if (!memory) co_return Fail(Code::kOverloaded, std::move(memory.error().message));
  fill.Hold(std::move(*memory));
  ColdBlock asked = cold;
  asked.wanted = fill.first_cells();
  Result<PeerFind> find = co_await peers_.Get(std::move(asked), fill, deadline);
  if (!find || !find->found) brakes_.GiveBackNetwork(cold.block);
  if (!find) co_return find;
  if (!find->found) {
    fill.StartOver();
    co_return find;
  }
  counters_.OfLink(cold.link->id)->peer_fills.fetch_add(1, std::memory_order_relaxed);
  co_return find;
}

Task<Status> Filler::FetchFromS3(const ColdBlock& cold, Fill& fill, Deadline deadline) {
  if (IsAbandoned(cold, fill)) co_return Fail(Unwanted(cold.block));
  // A listing costs S3 nothing.
  if (IsSystemLink(*cold.link)) {
    Status got = co_await FetchInTurn(cold, fill, deadline);
    co_return got;
  }
  // Before the slot: a fill that is held back must not stand in the way of others.
  UrgencyNow urgency = [this, turn = fill.turn()] { return slots_.UrgencyOf(*turn); };
  Status passed = co_await brakes_.Pass(cold.link->id, cold.block, urgency, deadline);
  if (!passed && passed.error().code == Code::kOverloaded && !IsAbandoned(cold, fill)) {
    // Perhaps it was dropped as the last batch went, and another came at that moment.
    passed = co_await brakes_.Pass(cold.link->id, cold.block, urgency, deadline);
  }
  if (!passed) co_return passed;
  Status got = co_await FetchInTurn(cold, fill, deadline);
  co_return got;
}

Task<Status> Filler::FetchInTurn(const ColdBlock& cold, Fill& fill, Deadline deadline) {
  Status slot = co_await slots_.Take(fill.turn(), deadline);
  if (!slot) co_return slot;
  const bool for_reader = !slots_.InBackground(*fill.turn()) && !IsSystemLink(*cold.link);
  const TimePoint begin = Clock::now();
  Status got = co_await FetchInSlot(cold, fill, deadline);
  if (got && for_reader) slots_.NoteReader(cold.link->id, cold.block.length, Clock::now() - begin);
  // In the background the slot is kept until the store has taken the block: a store that is full is
  // known before much more is fetched for it. Run returns it.
  if (!got || !cold.in_background()) slots_.Return(fill.turn());
  co_return got;
}

/// Whether a block is worth a GET that nobody waits for. For a spare one: whether there is room
/// that is free, beside what other spare fills are about to take.
bool Filler::MayHaveRoom(const ColdBlock& cold, Fill& fill) {
  const Uuid& link = cold.link->id;
  if (slots_.UrgencyOf(*fill.turn()) != Urgency::kSpare) {
    FullLinks& full = cold.copy ? full_for_copies_ : full_;
    return full.MayHaveRoom(link, cold.block.length, store_.RoomVersion(), Clock::now());
  }
  const std::uint64_t bytes = RecordDiskBytes(cold.block.length);
  fill.HoldSpareRoom(spare_room_.Take(bytes));
  return store_.HasFreeRoom(link, spare_room_.taken()) &&
         full_for_spare_.MayHaveRoom(link, cold.block.length, store_.RoomVersion(), Clock::now());
}

/// The store has refused such a block lately, and nobody waits for this one.
bool Filler::IsRefusedRoom(const ColdBlock& cold, Fill& fill) {
  if (!slots_.InBackground(*fill.turn()) || MayHaveRoom(cold, fill)) return false;
  fill.LandsAs(FillOutcome::kNoRoom);
  history_.NoteLoss(cold.block, BlockLoss::kNoRoom);
  return true;
}

Task<Status> Filler::FetchInSlot(const ColdBlock& cold, Fill& fill, Deadline deadline) {
  if (stopping_.load(std::memory_order_acquire))
    co_return Fail(Code::kUnavailable, "this node is stopping");
  MemoryBudget::Reservation background;
  if (IsAbandoned(cold, fill)) co_return Fail(Unwanted(cold.block));
  if (slots_.InBackground(*fill.turn())) {
    if (IsRefusedRoom(cold, fill)) {
      co_return Fail(Code::kOverloaded, "this node has no room for block " + cold.block.ToString());
    }
    auto share = co_await background_memory_.Reserve(cold.block.length, deadline);
    if (!share) co_return Fail(Code::kOverloaded, std::move(share.error().message));
    background = std::move(*share);
  }
  Result<MemoryBudget::Reservation> memory = co_await memory_.Reserve(cold.block.length, deadline);
  if (!memory) co_return Fail(Code::kOverloaded, std::move(memory.error().message));
  fill.Hold(std::move(*memory));
  Status got = co_await FetchFromAnywhere(cold, fill, deadline);
  // kUnavailable says "ask another node". S3 that does not answer is no reason to: another node
  // would only ask it a second time.
  const bool s3_is_away =
      !got && got.error().code == Code::kUnavailable && !stopping_.load(std::memory_order_acquire);
  if (s3_is_away) co_return Fail(Code::kTimeout, std::move(got.error().message));
  co_return got;
}

// One GET, or two: from the cells that are wanted first to the block's end, then what is before
// them. One after the other: the fill has one slot, and its reader the whole connection. While
// requests are held back one is all that a block gets.
Task<Status> Filler::FetchParts(const ColdBlock& cold, Fill& fill, Detour& detour,
                                Deadline deadline) {
  BlockRange first = fill.first_cells();
  if (first.begin > 0 && !brakes_.Open(cold.link->id)) first = {0, cold.block.length};
  const std::vector<BlockRange> parts = StreamsFrom(first, cold.block.length);
  Status got = co_await FetchPart(cold, fill, parts.front(), detour, deadline);
  if (!got || parts.size() == 1) co_return got;
  // A request like any other; its bytes have passed with the block's.
  UrgencyNow urgency = [this, turn = fill.turn()] { return slots_.UrgencyOf(*turn); };
  got = co_await brakes_.Pass(cold.link->id, cold.block, std::move(urgency), deadline, 0);
  if (got) got = co_await FetchPart(cold, fill, parts.back(), detour, deadline);
  if (got) second_gets_.fetch_add(1, std::memory_order_relaxed);
  co_return got;
}

Task<Status> Filler::FetchPart(const ColdBlock& cold, Fill& fill, BlockRange part, Detour& detour,
                               Deadline deadline) {
  std::shared_ptr<LinkCount> count = counters_.OfLink(cold.link->id);
  // The first request has passed the brake; each further one is one more.
  const Uuid link = cold.link->id;
  UrgencyNow urgency = [this, turn = fill.turn()] { return slots_.UrgencyOf(*turn); };
  Origin::Pace pace;
  pace.before_retry = [this, link, block = cold.block, bytes = part.size(),
                       urgency](Deadline until) {
    return brakes_.Pass(link, block, urgency, until, bytes);
  };
  pace.before_question = [this, link, block = cold.block, urgency](Deadline until) {
    return brakes_.Pass(link, block, urgency, until, 0);
  };
  pace.on_throttled = [this, link] { brakes_.NoteThrottled(link); };
  if (!IsSystemLink(*cold.link)) {
    const Pause pause{&cold, &fill, part, &detour, deadline, Clock::now()};
    pace.is_over = [&detour] { return detour.verdict.has_value(); };
    pace.before_pause = [this, pause](RetryReason why) { return InsteadOfPause(pause, why); };
  }
  fill.BeginPart(part);
  Origin::Question question{cold.link, cold.object, cold.block, part};
  Status got =
      co_await origin_.Get(std::move(question), fill, std::move(count), std::move(pace), deadline);
  // Of a listing the coordinator answers, and not S3.
  if (IsSystemLink(*cold.link)) co_return got;
  if (got) {
    brakes_.NoteAnswered(link);
    NoteServed(link);
  } else if (got.error().code == Code::kDenied) {
    NoteRefused(cold, got.error().message);
  }
  co_return got;
}

/// A disk that has failed refuses every block.
void Filler::WarnNotKept(const BlockId& block, const Error& why) {
  const Duration now = Clock::now().time_since_epoch();
  Duration due = warn_at_.load(std::memory_order_relaxed);
  if (now < due || !warn_at_.compare_exchange_strong(due, now + kWarnEvery)) return;
  spdlog::warn(
      "block {} is served but not kept: {} (others may be, too; this is said once in {} s)",
      block.ToString(), why.message, kWarnEvery.count());
}

/// Of refusals one now and then says it: another node may be asked instead, without an end.
void Filler::WarnNotFilled(const ColdBlock& cold, const Error& why) {
  const bool is_refused = why.code == Code::kDenied;
  const Duration now = Clock::now().time_since_epoch();
  Duration due = warn_refused_at_.load(std::memory_order_relaxed);
  if (is_refused && (now < due || !warn_refused_at_.compare_exchange_strong(due, now + kWarnEvery)))
    return;
  spdlog::warn("cannot fill {} of s3://{}/{}{}: {}", cold.block.ToString(),
               cold.link->origin.bucket, cold.object.key, is_refused ? ", and maybe others" : "",
               why.message);
}

void Filler::ForgetRefusals(const Uuid& link) {
  for (FullLinks* full : {&full_, &full_for_spare_, &full_for_copies_}) full->Forget(link);
}

FullLinks& Filler::FullFor(Room room) {
  switch (room) {
    case Room::kMayEvict:
      return full_;
    case Room::kMayEvictIdle:
      return full_for_copies_;
    case Room::kFreeOnly:
      return full_for_spare_;
  }
  return full_;
}

Task<FillOutcome> Filler::Keep(const ColdBlock& cold, std::shared_ptr<Fill> fill, bool copy) {
  Slice data = fill->Data();
  std::vector<std::uint64_t> checksums = fill->Checksums();
  std::string path(RelativeKey(cold.link->origin.prefix, cold.object.key).value_or(""));
  // A second copy of what a slow node keeps drives nothing out.
  const bool second = cold.spread && fill->is_from_peer();
  const bool spare = second || slots_.UrgencyOf(*fill->turn()) == Urgency::kSpare;
  Room room = spare ? Room::kFreeOnly : Room::kMayEvict;
  if (copy) room = Room::kMayEvictIdle;
  const std::uint64_t room_version = store_.RoomVersion();
  Status kept = co_await store_.Admit(cold.link->id, cold.block, std::move(data),
                                      std::move(checksums), std::move(path), room);
  FullLinks& full = FullFor(room);
  if (kept) {
    full.NoteKept(cold.link->id, cold.block.length);
    if (copy) copied_bytes_.fetch_add(cold.block.length, std::memory_order_relaxed);
    if (on_kept_) on_kept_(cold, fill->is_from_peer());
    co_return fill->is_from_peer() ? FillOutcome::kKept : FillOutcome::kFilled;
  }
  const bool no_room = kept.error().code == Code::kOverloaded;
  BlockLoss why = no_room ? BlockLoss::kNoRoom : BlockLoss::kUnwritable;
  if (store_.IsSetAside(cold.block)) {
    why = BlockLoss::kSetAside;  // which says nothing about others
  } else {
    full.NoteRefused(cold.link->id, cold.block.length, room_version, Clock::now());
  }
  history_.NoteLoss(cold.block, why);
  if (!no_room) WarnNotKept(cold.block, kept.error());
  const FillOutcome outcome = fill->is_from_peer() ? FillOutcome::kKept : FillOutcome::kNoRoom;
  recent_.Add(cold.link->id, std::move(fill));
  co_return outcome;
}

/// Of those that were kept before this process began, eviction takes what nobody reads.
Task<void> Filler::DropOldListings(const ColdBlock& cold) {
  std::vector<BlockId> old = listings_.Add(cold.link->id, cold.object.key, cold.block);
  if (old.empty()) co_return;
  const Result<Evicted> evicted = co_await store_.Evict(std::move(old), EvictFilter());
  if (!evicted) spdlog::warn("blocks of old listings stay: {}", evicted.error().message);
}

Task<void> Filler::Run(ColdBlock cold, std::shared_ptr<Fill> fill) {
  Result<PeerFind> find = co_await Fetch(cold, *fill);
  // What is to be filled in the background is to be here, too.
  const bool keep = find && (find->keep || cold.in_background() || cold.spread);
  const bool has_slot = cold.in_background() && find && !find->found;
  Status got = fill->Verdict(find ? Status() : Fail(find.error()));
  // A fill that failed leaves before those who wait for it wake, so that whoever asks again begins
  // a new one; one that succeeded leaves when the block can be found elsewhere, before it lands.
  if (!got) flights_.Leave(cold.block, fill);
  got = fill->Finish(std::move(got));
  if (got) {
    Result<FillOutcome> outcome = Fail(Code::kUnavailable, "another node keeps the block");
    if (keep) {
      outcome = co_await Keep(cold, fill, find->copy);
    } else {
      recent_.Add(cold.link->id, fill);
    }
    flights_.Leave(cold.block, fill);
    fill->Land(std::move(outcome));
    if (IsSystemLink(*cold.link)) co_await DropOldListings(cold);
  } else if (got.error().code != Code::kStale &&  // which Origin says once
             !cold.stand_in &&                    // and this whoever asks
             (!cold.in_background() || got.error().code != Code::kOverloaded)) {
    WarnNotFilled(cold, got.error());
  }
  fill->ReturnSpareRoom();
  if (has_slot) slots_.Return(fill->turn());
  fill.reset();
  running_.fetch_sub(1, std::memory_order_acq_rel);
}

bool Filler::Stop(Deadline deadline) {
  stopping_.store(true, std::memory_order_release);
  stopped_.NotifyAll();
  brakes_.Close();
  // Each fill's end is a turn of its event loop away; nobody waits for this but the end of the
  // program.
  constexpr std::chrono::milliseconds kLook{2};
  while (running_.load(std::memory_order_acquire) > 0 && !deadline.Expired())
    std::this_thread::sleep_for(kLook);
  recent_.Clear();
  return running_.load(std::memory_order_acquire) == 0;
}

}  // namespace forebay
