#include "common/wire/block_messages.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {

proto::ReadBlockRequest ToProto(const BlockRequest& request) {
  proto::ReadBlockRequest message;
  message.set_link(BytesOf(request.link));
  *message.mutable_block() = ToProto(request.block);
  message.set_range_begin(request.range.begin);
  message.set_range_end(request.range.end);
  message.set_key(request.object.key);
  message.set_etag(request.object.etag);
  message.set_object_size(request.object.size);
  message.set_job(request.job);
  message.set_peer_only(request.peer_only);
  message.set_passed_over(request.passed_over);
  message.set_waited_ms(
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(request.waited.count(), 0, UINT32_MAX)));
  message.set_spread(request.spread);
  message.set_stand_in(request.stand_in);
  message.set_by_place(request.by_place);
  message.set_counted(request.counted);
  message.set_may_go_on(request.may_go_on);
  message.set_cross_zone(request.cross_zone);
  return message;
}

BlockRequest FromProto(const proto::ReadBlockRequest& message) {
  BlockRequest request;
  request.link = UuidFromBytes(message.link());
  request.block = FromProto(message.block());
  request.range = BlockRange{message.range_begin(), message.range_end()};
  request.object = ObjectRef{message.key(), message.etag(), message.object_size()};
  request.job = message.job();
  request.peer_only = message.peer_only();
  request.passed_over = message.passed_over();
  request.waited = std::chrono::milliseconds(message.waited_ms());
  request.spread = message.spread();
  request.stand_in = message.stand_in();
  request.by_place = message.by_place();
  request.counted = message.counted();
  request.may_go_on = message.may_go_on();
  request.cross_zone = message.cross_zone();
  return request;
}

Result<Cells> CellsOfReply(const BlockRequest& request, RpcReply reply) {
  proto::ReadBlockReply message;
  const Status parsed = ParseMessage(reply.message, message);
  if (!parsed) return Fail(parsed.error());
  return CellsOfReply(request, message, std::move(reply.payload));
}

Result<Cells> CellsOfReply(const BlockRequest& request, const proto::ReadBlockReply& message,
                           Slice payload) {
  const std::uint64_t begin = message.begin();
  const std::uint64_t end = begin + payload.bytes.size();
  const bool whole_cells = begin % kCellBytes == 0 && end <= request.block.length &&
                           (end % kCellBytes == 0 || end == request.block.length);
  const bool covers = begin <= request.range.begin && end >= request.range.end;
  if (!whole_cells || !covers) {
    return Fail(Code::kCorrupt, "a range of block " + request.block.ToString() +
                                    " that does not match the request");
  }
  Cells cells;
  cells.begin = message.begin();
  cells.bytes = std::move(payload);
  cells.checksums.assign(message.checksums().begin(), message.checksums().end());
  cells.tier = message.tier() == static_cast<std::uint32_t>(Tier::kS3) ? Tier::kS3 : Tier::kLocal;
  cells.fetched = message.tier() != static_cast<std::uint32_t>(Tier::kLocal);
  if (!cells.Verify()) {
    return Fail(Code::kCorrupt, "bytes of block " + request.block.ToString() +
                                    " that do not match their checksums");
  }
  return cells;
}

}  // namespace forebay
