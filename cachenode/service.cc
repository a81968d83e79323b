#include "cachenode/service.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <random>
#include <utility>

#include "common/base/executors.h"
#include "common/model/key_rules.h"
#include "common/model/system_link.h"
#include "common/s3/crc.h"
#include "common/s3/list_parser.h"
#include "common/wire/bit_list.h"
#include "common/wire/block_messages.h"
#include "common/wire/messages.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

// A link that was made a moment ago comes with the next heartbeat; this is how long its first
// reader waits for that.
constexpr std::chrono::seconds kNewLinkPatience{2};
// A table comes with the answer to a question that has been asked already.
constexpr std::chrono::milliseconds kNewRingPatience{500};
constexpr std::chrono::milliseconds kNewRingLook{10};

Task<Result<RpcReply>> Refused(Error why) { co_return Fail(std::move(why)); }

}  // namespace

Status CheckBlock(const LinkSpec& link, const BlockRequest& request) {
  const BlockId& block = request.block;
  if (block.length == 0 || block.length > kMaxBlockBytes || block.length > request.object.size ||
      block.offset > request.object.size - block.length) {
    return Fail(Code::kInvalid, "block " + block.ToString() + " is no part of an object of " +
                                    std::to_string(request.object.size) + " bytes");
  }
  if (!RelativeKey(link.origin.prefix, request.object.key)) {
    return Fail(Code::kInvalid,
                "the key '" + Printable(request.object.key) + "' is not part of link " + link.name);
  }
  if (VersionOf(link, request.object.key, request.object.etag, request.object.size) !=
      block.version) {
    return Fail(Code::kInvalid, "block " + block.ToString() + " is no block of '" +
                                    Printable(request.object.key) + "'");
  }
  return {};
}

Status CheckRead(const LinkSpec& link, const BlockRequest& request) {
  Status block = CheckBlock(link, request);
  if (!block) return block;
  const BlockRange range = request.range;
  if (!IsPartOf(range, request.block)) {
    return Fail(Code::kInvalid, "the range " + std::to_string(range.begin) + "-" +
                                    std::to_string(range.end) + " is not inside a block of " +
                                    std::to_string(request.block.length) + " bytes");
  }
  if (EnclosingCells(range, request.block.length).size() > kMaxPayloadBytes) {
    return Fail(Code::kInvalid,
                "one read may ask for at most " + std::to_string(kMaxPayloadBytes) + " bytes");
  }
  return {};
}

Service::Service(Parts parts)
    : parts_(std::move(parts)),
      fence_check_(parts_.cluster),
      store_number_(std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()),
      read_durations_(metric::kReadDuration),
      registration_(parts_.metrics.AddCollector(
          [this, &histogram = parts_.metrics.Histogram(metric::kReadDuration)](MetricSamples&) {
            read_durations_.HandOn(histogram);
          })) {}

// The table of DESIGN section 10.
std::vector<MethodEntry> Service::Methods() {
  std::vector<MethodEntry> methods;
  const auto add = [&](Method method, auto handler) {
    methods.push_back({method, [this, handler](RpcCall call) {
                         Status believed = fence_check_(call.peer);
                         return believed ? (this->*handler)(std::move(call))
                                         : Refused(std::move(believed.error()));
                       }});
  };
  add(Method::kReadBlock, &Service::ReadBlock);
  add(Method::kOpenSegment, &Service::OpenSegment);
  add(Method::kNoteReads, &Service::NoteReads);
  add(Method::kPrefetchBlock, &Service::PrefetchBlock);
  add(Method::kCheckBlocks, &Service::CheckBlocks);
  add(Method::kFillBlocks, &Service::FillBlocks);
  add(Method::kCopyBlocks, &Service::CopyBlocks);
  add(Method::kDescribeBlocks, &Service::DescribeBlocks);
  add(Method::kVerifyBlocks, &Service::VerifyBlocks);
  add(Method::kPinBlocks, &Service::PinBlocks);
  add(Method::kEvictBlocks, &Service::EvictBlocks);
  add(Method::kGetRing, &Service::GetRing);
  return methods;
}

Task<Result<std::shared_ptr<const LinkSpec>>> Service::FindLink(Uuid id) {
  std::shared_ptr<const LinkSpec> known = parts_.cluster.FindLink(id);
  if (known) co_return known;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const Deadline deadline = Deadline::After(kNewLinkPatience);
  for (bool asked = false;; asked = true) {
    Notifier::Ticket ticket = parts_.cluster.links_changed().Enlist(executor);
    std::shared_ptr<const LinkSpec> link = parts_.cluster.FindLink(id);
    if (link) co_return link;
    if (!asked) parts_.refresh_links();
    const bool changed = co_await ticket.Wait(deadline);
    if (!changed)
      co_return Fail(Code::kNotFound, "link " + id.ToString() + " is not known to this node");
  }
}

Task<Result<CheckedRead>> Service::Checked(const std::string& message, const PeerIdentity& peer) {
  proto::ReadBlockRequest parsed;
  Status good = ParseMessage(message, parsed);
  if (!good) co_return Fail(good.error());
  CheckedRead read;
  read.request = FromProto(parsed);
  read.neighbours = parsed.neighbours();
  if (read.request.link.IsZero()) co_return Fail(Code::kInvalid, "the request names no link");
  auto link = co_await FindLink(read.request.link);
  if (!link) co_return Fail(link.error());
  read.link = std::move(*link);
  if (!MayRead(peer, read.link->name, read.link->set))
    co_return Fail(NotGranted(peer, read.link->name));
  read.payer = ReplyRoom::PayerOf(peer);
  co_return read;
}

// A reader that goes by a newer ring may come for a block that is not this node's any more, or not
// its alone: before S3 is asked, the newer table, which is on its way, has a moment to come. Once
// for each table: without a coordinator none comes.
Task<void> Service::AwaitRing(std::uint64_t epoch) {
  const Deadline deadline = Deadline::After(kNewRingPatience);
  while (parts_.cluster.ring_epoch() < epoch && waited_for_ring_.load() < epoch) {
    if (deadline.Expired()) {
      waited_for_ring_.store(epoch);
    } else {
      co_await SleepFor(kNewRingLook);
    }
  }
}

Task<Result<RpcReply>> Service::ReadBlock(RpcCall call) {
  const TimePoint begin = Clock::now();
  Result<CheckedRead> read = co_await Checked(call.message, call.peer);
  if (!read) co_return Fail(read.error());
  Status good = CheckRead(*read->link, read->request);
  if (!good) co_return Fail(good.error());
  if (read->request.by_place && call.takes_files) {
    const std::optional<CellPlace> place = parts_.reader.Place(*read);
    if (place) {
      read_durations_.Observe(Clock::now() - begin);
      co_return AnswerOf(*read, *place);
    }
  }
  const bool is_behind = call.ring_epoch > parts_.cluster.ring_epoch();
  if (is_behind && !parts_.store.Contains(read->request.block)) co_await AwaitRing(call.ring_epoch);
  const HotReads::Reader reader = parts_.hot_reads.Enter(read->request.block);
  if (read->request.may_go_on && reader.is_one_too_many()) {
    parts_.hot_reads.CountSentOn();
    proto::ReadBlockReply elsewhere;
    elsewhere.set_go_on(true);
    co_return ReplyWith(elsewhere);
  }
  // Over the machine's own socket nothing leaves it; nor does a block that another node asks for in
  // vain.
  const BlockRequest& request = read->request;
  const bool leaves = parts_.send_pace.bounded() && !call.takes_files;
  const bool is_sure = !leaves || !request.peer_only || parts_.store.Contains(request.block);
  const std::uint64_t bytes = EnclosingCells(request.range, request.block.length).size();
  if (leaves && is_sure) {
    const Status may = co_await parts_.send_pace.Pass(bytes, call.deadline);
    if (!may) co_return Fail(may.error());
  }
  Result<Cells> cells = co_await parts_.reader.Read(std::move(*read), call.deadline);
  read_durations_.Observe(Clock::now() - begin);
  if (!cells) co_return Fail(cells.error());
  if (leaves && !is_sure) parts_.send_pace.Charge(bytes);
  proto::ReadBlockReply reply;
  reply.set_begin(cells->begin);
  reply.mutable_checksums()->Add(cells->checksums.begin(), cells->checksums.end());
  reply.set_tier(static_cast<std::uint32_t>(cells->tier));
  co_return ReplyWith(reply, std::move(cells->bytes));
}

Task<Result<RpcReply>> Service::PrefetchBlock(RpcCall call) {
  Result<CheckedRead> read = co_await Checked(call.message, call.peer);
  if (!read) co_return Fail(read.error());
  Status good = CheckBlock(*read->link, read->request);
  if (!good) co_return Fail(good.error());
  proto::PrefetchBlockReply reply;
  ColdBlock cold{read->link, read->request.object, read->request.block, read->request.passed_over};
  cold.spread = read->request.spread;
  // Where a reader of another node waits for it; a mount's read-ahead says all of it.
  if (IsPartOf(read->request.range, cold.block)) cold.wanted = read->request.range;
  // Another node's reader comes back for it at once: were it refused, that node would ask S3 as
  // well. A mount's word is not taken for it: what it asks for without waiting would queue.
  const bool is_awaited = read->request.peer_only && call.peer.role == proto::ROLE_NODE;
  cold.stand_in = is_awaited && read->request.stand_in;
  const Urgency urgency = is_awaited ? Urgency::kReader : Urgency::kAsked;
  const Prefetched outcome = parts_.reader.Prefetch(cold, read->request.job, urgency);
  reply.set_started(outcome == Prefetched::kBegun);
  reply.set_refused(outcome == Prefetched::kRefused);
  co_return ReplyWith(reply);
}

Task<Result<std::vector<ColdBlock>>> Service::BatchOf(const proto::FillBlocksRequest& request) {
  std::vector<ColdBlock> blocks;
  if (request.blocks().empty()) co_return blocks;
  const Uuid id = UuidFromBytes(request.link());
  if (id.IsZero()) co_return Fail(Code::kInvalid, "the request names no link");
  auto link = co_await FindLink(id);
  if (!link) co_return Fail(link.error());
  blocks.reserve(static_cast<std::size_t>(request.blocks_size()));
  for (const proto::FillBlock& wanted : request.blocks()) {
    if (wanted.object() >= static_cast<std::uint32_t>(request.objects_size()))
      co_return Fail(Code::kInvalid, "a block of the request belongs to no object of it");
    const proto::FillObject& object = request.objects(static_cast<int>(wanted.object()));
    BlockRequest block;
    block.block = FromProto(wanted.block());
    block.object = ObjectRef{object.key(), object.etag(), object.size()};
    Status good = CheckBlock(**link, block);
    if (!good) co_return Fail(good.error());
    blocks.push_back(ColdBlock{*link, std::move(block.object), block.block});
  }
  co_return blocks;
}

Task<Result<RpcReply>> Service::FillBlocks(RpcCall call) {
  proto::FillBlocksRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  BatchWay way;
  way.verify = request.verify();
  way.peers_only = request.peers_only();
  if (request.spare()) way.urgency = Urgency::kSpare;
  way.run = request.run();
  Result<RpcReply> reply = co_await FillBatch(std::move(request), way, call.deadline);
  co_return reply;
}

Task<Result<RpcReply>> Service::CopyBlocks(RpcCall call) {
  proto::FillBlocksRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  BatchWay way;
  way.peers_only = true;
  way.copy = true;
  way.pace = &parts_.copy_pace;
  Result<RpcReply> reply = co_await FillBatch(std::move(request), way, call.deadline);
  co_return reply;
}

Task<Result<RpcReply>> Service::FillBatch(proto::FillBlocksRequest request, BatchWay way,
                                          Deadline deadline) {
  Result<std::vector<ColdBlock>> blocks = co_await BatchOf(request);
  if (!blocks) co_return Fail(blocks.error());
  const std::vector<BatchFiller::Outcome> outcomes =
      co_await parts_.batches.Fill(std::move(*blocks), way, deadline);
  const Uuid link = UuidFromBytes(request.link());
  proto::FillBlocksReply reply;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const BatchFiller::Outcome& outcome = outcomes[i];
    proto::FillResult& result = *reply.add_results();
    result.set_outcome(static_cast<std::uint32_t>(outcome ? *outcome : FillOutcome::kFailed));
    if (outcome == FillOutcome::kNoRoom) {
      const std::uint32_t length = request.blocks(static_cast<int>(i)).block().length();
      result.set_over_quota(!parts_.store.QuotaLeaves(link, length));
    }
    if (outcome) continue;
    result.set_code(static_cast<std::uint32_t>(outcome.error().code));
    result.set_message(outcome.error().message);
  }
  co_return ReplyWith(reply);
}

// The same rule as for reads: whoever names a block's object in a link may know about the block.
Task<Status> Service::MayAskAbout(proto::CheckBlocksRequest request, PeerIdentity peer) {
  BlockRequest one;
  one.link = UuidFromBytes(request.link());
  one.object = ObjectRef{request.key(), request.etag(), request.object_size()};
  if (one.link.IsZero()) co_return Fail(Code::kInvalid, "the request names no link");
  auto link = co_await FindLink(one.link);
  if (!link) co_return Fail(link.error());
  if (!MayRead(peer, (*link)->name, (*link)->set)) co_return Fail(NotGranted(peer, (*link)->name));
  for (const proto::BlockKey& key : request.blocks()) {
    one.block = FromProto(key);
    Status named = CheckBlock(**link, one);
    if (!named) co_return named;
  }
  co_return Status();
}

Task<Result<RpcReply>> Service::CheckBlocks(RpcCall call) {
  proto::CheckBlocksRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  if (call.peer.role == proto::ROLE_CLIENT) {
    Status may = co_await MayAskAbout(request, call.peer);
    if (!may) co_return Fail(may.error());
  }
  std::shared_ptr<const LinkSpec> link;
  if (request.as_owner()) {
    link = parts_.cluster.FindLink(UuidFromBytes(request.link()));
    if (!link) co_return Fail(Code::kNotFound, "this node does not know the link of the blocks");
  }
  const auto count = static_cast<std::size_t>(request.blocks_size());
  std::string present((count + 7) / 8, '\0');
  std::string set_aside = parts_.store.SetAsideCount() > 0 ? present : "";
  for (std::size_t i = 0; i < count; ++i) {
    const BlockId block = FromProto(request.blocks(static_cast<int>(i)));
    if (link ? KeepsAsOwner(*link, block) : parts_.store.Contains(block)) Mark(present, i);
    if (!set_aside.empty() && parts_.store.IsSetAside(block)) Mark(set_aside, i);
  }
  proto::CheckBlocksReply reply;
  if (request.with_heat()) *reply.mutable_heat() = HeatOf(request);
  reply.set_set_aside(std::move(set_aside));
  reply.set_present(std::move(present));
  co_return ReplyWith(reply);
}

bool Service::KeepsAsOwner(const LinkSpec& link, const BlockId& block) const {
  const auto rank = parts_.cluster.ring()->RankOf(PartitionOf(block), parts_.self);
  return rank && *rank < link.replicas && parts_.store.IsPinned(block);
}

std::string Service::HeatOf(const proto::CheckBlocksRequest& request) const {
  const Uuid link = UuidFromBytes(request.link());
  std::string heat;
  heat.reserve(static_cast<std::size_t>(request.blocks_size()));
  for (const proto::BlockKey& key : request.blocks())
    heat.push_back(static_cast<char>(parts_.store.HeatOf(link, FromProto(key))));
  return heat;
}

Task<Result<RpcReply>> Service::DescribeBlocks(RpcCall call) {
  proto::DescribeBlocksRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  proto::DescribeBlocksReply reply;
  reply.mutable_blocks()->Reserve(request.blocks_size());
  for (const proto::BlockKey& key : request.blocks()) {
    const BlockId block = FromProto(key);
    const BlockEvents events = parts_.history.Find(block);
    proto::BlockDescription& row = *reply.add_blocks();
    row.set_cached(parts_.store.Contains(block));
    row.set_since_unix_s(events.since_unix_s);
    row.set_read_unix_s(events.read_unix_s);
    row.set_job(events.job);
    row.set_lost_unix_s(events.lost_unix_s);
    row.set_loss(static_cast<std::uint32_t>(events.loss));
  }
  co_return ReplyWith(reply);
}

Task<Status> Service::VerifyBlock(BlockId block, const proto::VerifyBlocksRequest& request,
                                  int place, proto::VerifyBlocksReply& reply) {
  Status matches = co_await parts_.store.Verify(block);
  if (!matches || request.crc_kind() == 0) co_return matches;
  const auto kind = static_cast<CrcKind>(request.crc_kind());
  const Result<Cells> cells = co_await parts_.store.Read(block, {0, block.length});
  if (!cells) co_return Fail(cells.error());
  std::uint64_t crc = 0;
  ByteView rest = cells->bytes.bytes;
  while (!rest.empty()) {
    // Some 100 us at a time: readers wait on the same event loop.
    const ByteView part = rest.first(std::min<std::size_t>(rest.size(), 4 * kCellBytes));
    crc = UpdateCrc(kind, crc, part);
    rest = rest.subspan(part.size());
    (void)co_await SleepFor(std::chrono::steady_clock::duration::zero());
  }
  proto::BlockCrc& message = *reply.add_crcs();
  message.set_block(static_cast<std::uint32_t>(place));
  message.set_crc(crc);
  co_return Status();
}

Task<Result<RpcReply>> Service::VerifyBlocks(RpcCall call) {
  proto::VerifyBlocksRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  proto::VerifyBlocksReply reply;
  if (request.crc_kind() > static_cast<std::uint32_t>(CrcKind::kCrc64Nvme))
    co_return Fail(Code::kInvalid, "this node does not know that kind of CRC");
  for (int i = 0; i < request.blocks_size(); ++i) {
    const BlockId block = FromProto(request.blocks(i));
    if (!parts_.store.Contains(block)) continue;
    co_await parts_.verify_pace.Pass(block.length);
    Status matches = co_await VerifyBlock(block, request, i, reply);
    if (matches) {
      reply.set_verified(reply.verified() + 1);
    } else if (matches.error().code == Code::kCorrupt) {
      reply.set_corrupt(reply.corrupt() + 1);
    } else if (matches.error().code != Code::kNotFound) {
      co_return Fail(matches.error());
    }
  }
  co_return ReplyWith(reply);
}

Task<Status> Service::WaitForLinks(std::uint64_t version) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const Deadline deadline = Deadline::After(kNewLinkPatience);
  for (bool asked = false;; asked = true) {
    Notifier::Ticket ticket = parts_.cluster.links_changed().Enlist(executor);
    if (parts_.cluster.links_version() >= version) co_return Status();
    if (!asked) parts_.refresh_links();
    const bool changed = co_await ticket.Wait(deadline);
    if (!changed)
      co_return Fail(Code::kUnavailable, "this node does not know the newest links yet");
  }
}

Task<Result<RpcReply>> Service::PinBlocks(RpcCall call) {
  proto::PinBlocksRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  PinStep step{.link = UuidFromBytes(request.link()),
               .sync = request.sync(),
               .version = request.version(),
               .begin = request.begin(),
               .end = request.end()};
  if (step.link.IsZero()) co_return Fail(Code::kInvalid, "the request names no link");
  for (const proto::BlockKey& key : request.blocks()) step.blocks.push_back(FromProto(key));
  if (step.begin) good = co_await WaitForLinks(request.links_version());
  if (good) good = co_await parts_.store.TakePins(std::move(step));
  if (!good) co_return Fail(good.error());
  co_return ReplyWith(proto::PinBlocksReply());
}

Task<Result<RpcReply>> Service::EvictBlocks(RpcCall call) {
  proto::EvictBlocksRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  const EvictFilter filter{.unused_for = std::chrono::hours(request.unused_for_hours()),
                           .dry_run = request.dry_run()};
  // Of a block that is only in memory nobody knows when it was used.
  const bool from_memory = !filter.dry_run && request.unused_for_hours() == 0;
  Result<Evicted> evicted = Evicted();
  if (!request.whole_link().empty()) {
    const Uuid link = UuidFromBytes(request.whole_link());
    if (link.IsZero()) co_return Fail(Code::kInvalid, "the request names no link");
    if (from_memory) parts_.filler.recent().RemoveLink(link);
    evicted = co_await parts_.store.EvictLink(link, filter);
    // Its listings go with it, and count as nothing of it.
    if (evicted && !filter.dry_run) {
      const Uuid system = SystemLinkId(link);
      if (from_memory) parts_.filler.recent().RemoveLink(system);
      const Result<Evicted> listings = co_await parts_.store.EvictLink(system, filter);
      if (!listings) evicted = Fail(listings.error());
    }
  } else {
    std::vector<BlockId> blocks;
    blocks.reserve(static_cast<std::size_t>(request.blocks_size()));
    for (const proto::BlockKey& key : request.blocks()) {
      blocks.push_back(FromProto(key));
      if (from_memory) parts_.filler.recent().Remove(blocks.back());
    }
    evicted = co_await parts_.store.Evict(std::move(blocks), filter);
  }
  if (!evicted) co_return Fail(evicted.error());
  proto::EvictBlocksReply reply;
  reply.set_blocks(evicted->blocks);
  reply.set_bytes(evicted->bytes);
  reply.set_pinned_blocks(evicted->pinned_blocks);
  reply.set_pinned_bytes(evicted->pinned_bytes);
  reply.set_room_version(parts_.store.RoomVersion());
  co_return ReplyWith(reply);
}

Task<Result<RpcReply>> Service::GetRing(RpcCall call) {
  proto::GetRingRequest request;
  Status good = ParseMessage(call.message, request);
  if (!good) co_return Fail(good.error());
  proto::GetRingReply reply;
  reply.set_epoch(parts_.cluster.ring_epoch());
  if (request.have_epoch() >= reply.epoch()) co_return ReplyWith(reply);
  RingBytes table = parts_.cluster.ring_bytes();
  reply.set_epoch(table.epoch);
  co_return ReplyWith(reply, std::move(table.bytes));
}

}  // namespace forebay
