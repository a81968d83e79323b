#pragma once

#include <string>

#include "common/base/result.h"
#include "common/model/object_version.h"
#include "proto/coordinator.pb.h"
#include "tests/sim/dataset.h"

namespace forebay::sim {

/// The one cluster of a world.
Uuid ClusterId();

/// Leaves in `state_dir` what a mount of the dataset keeps there (namespace_snapshot.h): its
/// listing, made by the builder of listings, and who led to it. Answers what a coordinator says of
/// the link.
Result<proto::LinkState> KeepListing(const Dataset& data, const std::string& coordinator,
                                     const std::string& state_dir);

}  // namespace forebay::sim
