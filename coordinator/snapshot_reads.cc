#include "coordinator/snapshot_reads.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {
namespace {

/// Of one kReadSnapshot: leaves room for the cell-aligned rest that a data frame may carry.
constexpr std::uint32_t kMaxSnapshotRead = 4 << 20;

Task<Result<RpcReply>> ReadDelta(const NamespaceIndex& index, Offload& offload,
                                 proto::ReadSnapshotRequest request) {
  auto read = [&index, request = std::move(request)] {
    return index.ReadDelta(UuidFromBytes(request.link()), request.before(), request.generation(),
                           request.offset(), request.length());
  };
  Result<std::shared_ptr<const Buffer>> bytes = co_await offload.Run(std::move(read));
  if (!bytes) co_return Fail(bytes.error());
  const proto::ReadSnapshotReply reply;
  co_return ReplyWith(reply, Slice::Of(std::move(*bytes)));
}

}  // namespace

Task<Result<RpcReply>> ReadPublished(const NamespaceIndex& index, Offload& offload,
                                     proto::ReadSnapshotRequest request) {
  if (request.length() > kMaxSnapshotRead) {
    co_return Fail(Code::kInvalid, fmt::format("at most {} bytes of a snapshot can be read at once",
                                               kMaxSnapshotRead));
  }
  if (request.before() != 0) {
    Result<RpcReply> reply = co_await ReadDelta(index, offload, std::move(request));
    co_return reply;
  }
  const std::shared_ptr<const PublishedGeneration> generation =
      index.Find(UuidFromBytes(request.link()), request.generation());
  if (!generation) {
    co_return Fail(Code::kNotFound,
                   fmt::format("generation {} of this link is not kept any more: ask for the "
                               "current one",
                               request.generation()));
  }
  auto read = [generation, offset = request.offset(), length = request.length()] {
    return generation->Read(offset, length);
  };
  Result<std::shared_ptr<const Buffer>> bytes = co_await offload.Run(std::move(read));
  if (!bytes) co_return Fail(bytes.error());
  const proto::ReadSnapshotReply reply;
  co_return ReplyWith(reply, Slice::Of(std::move(*bytes)));
}

}  // namespace forebay
