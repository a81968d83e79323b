#include "coordinator/snapshot_reads.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {
namespace {

/// Of one kReadSnapshot: leaves room for the cell-aligned rest that a data frame may carry.
constexpr std::uint32_t kMaxSnapshotRead = 4 << 20;

using Bytes = Result<std::shared_ptr<const Buffer>>;

Task<Bytes> ReadDelta(const NamespaceIndex& index, Offload& offload,
                      const proto::ReadSnapshotRequest* request) {
  auto read = [&index, request] {
    return index.ReadDelta(UuidFromBytes(request->link()), request->before(), request->generation(),
                           request->offset(), request->length());
  };
  Bytes bytes = co_await offload.Run(std::move(read));
  co_return bytes;
}

Task<Bytes> ReadWhole(const NamespaceIndex& index, Offload& offload,
                      const proto::ReadSnapshotRequest* request) {
  const std::shared_ptr<const PublishedGeneration> generation =
      index.Find(UuidFromBytes(request->link()), request->generation());
  if (!generation) {
    co_return Fail(Code::kNotFound,
                   fmt::format("generation {} of this link is not kept any more: ask for the "
                               "current one",
                               request->generation()));
  }
  auto read = [generation, offset = request->offset(), length = request->length()] {
    return generation->Read(offset, length);
  };
  Bytes bytes = co_await offload.Run(std::move(read));
  co_return bytes;
}

}  // namespace

Task<Result<RpcReply>> ReadPublished(const NamespaceIndex& index, Offload& offload, ReplyRoom& room,
                                     ReplyRoom::Payer payer, proto::ReadSnapshotRequest request) {
  if (request.length() > kMaxSnapshotRead) {
    co_return Fail(Code::kInvalid, fmt::format("at most {} bytes of a snapshot can be read at once",
                                               kMaxSnapshotRead));
  }
  ReplyRoom::Place place = room.Take(payer, request.length());
  if (!place.taken()) {
    co_return Fail(Code::kOverloaded,
                   "the answers of this coordinator take all the memory that they may");
  }
  Task<Bytes> reading = request.before() != 0 ? ReadDelta(index, offload, &request)
                                              : ReadWhole(index, offload, &request);
  Bytes bytes = co_await std::move(reading);
  if (!bytes) co_return Fail(bytes.error());
  const proto::ReadSnapshotReply reply;
  co_return ReplyWith(reply, ReplyRoom::Keep(Slice::Of(std::move(*bytes)), std::move(place)));
}

}  // namespace forebay
