#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/model/shard.h"
#include "fuse-client/namespace_snapshot.h"

namespace forebay {

/// `found` with only those files in its snapshot that a mount of `sub_path` with `shard` shows; as
/// it is when the shard is all, and when it has no directory `sub_path`. Blocks: reads all rows of
/// the link three times and writes those of the shard. The new snapshot is a file without a name,
/// which others get by its descriptor. kInternal: the state directory has no room for it.
Result<MountedNamespace> TakeShard(Result<MountedNamespace> found, const Shard& shard,
                                   std::string_view sub_path);

}  // namespace forebay
