#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/s3/object_store.h"
#include "common/snapshot/snapshot_builder.h"
#include "coordinator/link_registry.h"
#include "coordinator/listing_spool.h"
#include "proto/common.pb.h"

namespace forebay {

/// What tells a listing of a link from every other one: ListingSpool goes on only with its own.
/// `part` is what of the link is listed, "" for all.
std::string ListingIdentity(const Link& link, const std::string& part);

/// The key at `part`, and the markers of the folders above it: partial_refresh.h says why.
std::vector<std::string> KeysAround(const std::string& prefix, const std::string& part);

/// Gives the builder what was listed: `spool` in order (null: nothing of it), then `single`.
/// `wanted` is asked now and then; false ends it with kUnavailable. Blocks.
Status FeedBuilder(ListingSpool* spool, const std::vector<ListedObject>& single,
                   SnapshotBuilder& builder, const std::function<bool()>& wanted);

/// What is announced of a snapshot that was built from a listing of `listed_unix_s`.
proto::GenerationInfo DescribeGeneration(std::uint64_t generation, const FinishedSnapshot& finished,
                                         std::int64_t listed_unix_s);

}  // namespace forebay
