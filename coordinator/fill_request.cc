#include "coordinator/fill_request.h"

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "common/wire/messages.h"

namespace forebay {

std::shared_ptr<proto::FillBlocksRequest> FillRequestFor(const LinkSpec& link,
                                                         const Snapshot& snapshot,
                                                         const std::vector<PreloadPiece>& pieces) {
  auto request = std::make_shared<proto::FillBlocksRequest>();
  request->set_link(BytesOf(link.id));
  std::unordered_map<std::uint32_t, std::uint32_t> objects;  // row -> index
  for (const PreloadPiece& piece : pieces) {
    const auto next = static_cast<std::uint32_t>(request->objects_size());
    const auto [object, is_new] = objects.try_emplace(piece.row, next);
    if (is_new) {
      const std::optional<SnapshotRow> row = snapshot.RowAt(piece.row);
      if (!row) return nullptr;
      proto::FillObject& message = *request->add_objects();
      message.set_key(snapshot.KeyOf(*row));
      message.set_etag(snapshot.EtagOf(*row));
      message.set_size(row->size);
    }
    proto::FillBlock& block = *request->add_blocks();
    *block.mutable_block() = ToProto(piece.block);
    block.set_object(object->second);
  }
  return request;
}

}  // namespace forebay
