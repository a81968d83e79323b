#include "coordinator/fence_claim.h"

#include "common/wire/messages.h"
#include "common/wire/rpc.h"

namespace forebay {

Result<std::optional<Fence>> OutdatedFence(StateStore& store) {
  Result<std::optional<std::string>> row = store.Get(kOutdatedKey);
  if (!row) return Fail(row.error());
  if (!row->has_value()) return std::nullopt;
  proto::Fence said;
  const Status parsed = ParseMessage(**row, said);
  if (!parsed || said.epoch() == 0) {
    return Fail(Code::kCorrupt,
                "the coordinator's state is damaged (the row 'outdated'): restore a backup with "
                "`forebay restore`, the way docs/DEPLOY.md says");
  }
  return FromProto(said);
}

Status MarkOutdated(StateStore& store, const Fence& said, std::uint64_t fence) {
  StateBatch batch;
  batch.Put(kOutdatedKey, ToProto(said).SerializeAsString());
  return store.Write(batch, fence);
}

}  // namespace forebay
