#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/fence.h"
#include "common/model/fill_limits.h"
#include "common/model/link.h"
#include "common/model/membership.h"
#include "proto/common.pb.h"

// Model <-> wire, for every program. Reading answers kInvalid where a message makes no sense.
namespace forebay {

std::string BytesOf(const Uuid& uuid);
/// Zero when it is not 16 bytes long.
Uuid UuidFromBytes(std::string_view bytes);
proto::LinkSpec ToProto(const LinkSpec& link);
Result<LinkSpec> FromProto(const proto::LinkSpec& message);
proto::NodeInfo ToProto(const NodeInfo& node);
Result<NodeInfo> FromProto(const proto::NodeInfo& message);
proto::FillLimits ToProto(const FillLimits& limits);
FillLimits FromProto(const proto::FillLimits& message);
proto::Fence ToProto(const Fence& fence);
Fence FromProto(const proto::Fence& message);
proto::BlockKey ToProto(const BlockId& block);
BlockId FromProto(const proto::BlockKey& message);

}  // namespace forebay
