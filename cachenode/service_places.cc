#include <algorithm>
#include <optional>
#include <utility>

#include "cachenode/service.h"
#include "common/wire/block_messages.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"

// For mounts of this machine that read the segments themselves
// (docs/adr/0016-local-reads-by-descriptor.md, docs/adr/0039-places-are-remembered.md).
namespace forebay {

namespace {

/// 45 bytes each: with more the answer would take longer than the questions that it spares.
constexpr std::size_t kMostNeighbours = 64;

}  // namespace

// Their segment is open to the reader, and holds blocks of his link alone.
void Service::AddNeighbours(const CheckedRead& read, proto::ReadBlockReply& reply) const {
  const std::size_t most = std::min<std::size_t>(read.neighbours, kMostNeighbours);
  for (const PlacedBlock& placed : parts_.store.PlacesBehind(read.request.block, most)) {
    proto::PlacedBlock& neighbour = *reply.add_neighbours();
    *neighbour.mutable_block() = ToProto(placed.block);
    neighbour.set_position(placed.position);
    neighbour.mutable_checksums()->Add(placed.checksums.begin(), placed.checksums.end());
  }
}

Result<RpcReply> Service::AnswerOf(const CheckedRead& read, const CellPlace& place) const {
  proto::ReadBlockReply reply;
  reply.set_begin(EnclosingCells(read.request.range, read.request.block.length).begin);
  reply.mutable_checksums()->Add(place.checksums.begin(), place.checksums.end());
  reply.set_tier(static_cast<std::uint32_t>(Tier::kLocal));
  reply.mutable_place()->set_store(store_number_);
  reply.mutable_place()->set_segment(place.segment);
  reply.mutable_place()->set_position(place.position);
  reply.mutable_place()->set_noted(true);
  if (read.neighbours > 0) AddNeighbours(read, reply);
  return ReplyWith(reply);
}

// A segment holds blocks of one link only, and who may read one of them may read them all.
Task<Result<RpcReply>> Service::OpenSegment(RpcCall call) {
  if (!call.takes_files)
    co_return Fail(Code::kInvalid, "files are passed over the node's local socket only");
  Result<CheckedRead> read = co_await Checked(call.message, call.peer);
  if (!read) co_return Fail(read.error());
  Status good = CheckBlock(*read->link, read->request);
  if (!good) co_return Fail(good.error());
  std::optional<SegmentHandle> file = parts_.store.FileOf(read->request.block);
  if (!file) co_return Fail(Code::kNotFound, "the block's segment is not open");
  // Links that share the block need not share its neighbours.
  if (file->link != read->link->id)
    co_return Fail(Code::kNotFound, "the block lies among those of another link");
  proto::OpenSegmentReply message;
  message.set_store(store_number_);
  message.set_segment(file->segment);
  Result<RpcReply> reply = ReplyWith(message);
  if (reply) reply->file = std::move(file->descriptor);
  co_return reply;
}

// Whoever may open the socket is this node's own user, and could read the files without it: what he
// says that he has read is believed, for it moves nothing but counters and what is evicted first.
Task<Result<RpcReply>> Service::NoteReads(RpcCall call) {
  if (!call.takes_files)
    co_return Fail(Code::kInvalid, "reads are noted over the node's local socket only");
  proto::NoteReadsRequest notes;
  Status good = ParseMessage(call.message, notes);
  if (!good) co_return Fail(good.error());
  CheckedRead read;
  read.request.link = UuidFromBytes(notes.link());
  if (read.request.link.IsZero()) co_return Fail(Code::kInvalid, "the request names no link");
  auto link = co_await FindLink(read.request.link);
  if (!link) co_return Fail(link.error());
  read.link = std::move(*link);
  if (!MayRead(call.peer, read.link->name, read.link->set))
    co_return Fail(NotGranted(call.peer, read.link->name));
  proto::NoteReadsReply reply;
  reply.set_renamed(notes.store() != store_number_);
  for (int i = 0; i < notes.reads_size(); ++i) {
    const proto::NotedRead& noted = notes.reads(i);
    read.request.block = FromProto(noted.block());
    read.request.range = {0, noted.bytes()};
    const bool has_job = noted.job() < static_cast<std::uint32_t>(notes.jobs_size());
    if (!has_job || !IsPartOf(read.request.range, read.request.block))
      co_return Fail(Code::kInvalid, "a read of the request is of no job, or not inside its block");
    read.request.job = notes.jobs(static_cast<int>(noted.job()));
    const bool stays = parts_.reader.NotePlaced(read, noted.segment());
    if (!stays) reply.add_moved(static_cast<std::uint32_t>(i));
  }
  co_return ReplyWith(reply);
}

}  // namespace forebay
