#pragma once

#include "common/model/object_version.h"
#include "coordinator/namespace_index.h"
#include "proto/common.pb.h"

namespace forebay {

/// Writes the difference that makes the generation `after` of the one before, and announces it in
/// `after` behind those that lead to that one. Keeps the last eight, together at most half as large
/// as the snapshot; one that would be larger than a quarter of it is not made, and then those
/// before lead nowhere. Both generations are open in `index`. Nothing fails without a difference:
/// whoever finds none fetches the whole file. Blocks.
void AddDelta(const NamespaceIndex& index, const Uuid& link, const proto::GenerationInfo& before,
              proto::GenerationInfo& after);

}  // namespace forebay
