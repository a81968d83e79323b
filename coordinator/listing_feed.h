#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/s3/link_manifest.h"
#include "common/s3/object_store.h"
#include "common/snapshot/snapshot_builder.h"
#include "coordinator/link_registry.h"
#include "coordinator/listing_spool.h"
#include "coordinator/posix_spool.h"
#include "proto/common.pb.h"

namespace forebay {

/// What tells a listing of a link from every other one: ListingSpool goes on only with its own.
/// `part` is what of the link is listed, "" for all; `names` are those of a manifest.
std::string ListingIdentity(const Link& link, const std::string& part,
                            std::span<const std::string> names);

/// The keys at `parts`, and the markers of the folders above them, each once: partial_refresh.h
/// says why.
std::vector<std::string> KeysAround(const std::string& prefix,
                                    const std::vector<std::string>& parts);

/// What was listed, and what is known of it beside.
struct ListedLink {
  ListingSpool* spool = nullptr;         ///< In order; null: nothing of it.
  std::span<const ListedObject> single;  ///< Behind the spool.
  /// Whose lines go with the objects that they name, which are all in the spool.
  const LinkManifest* manifest = nullptr;
  const Snapshot* known_lines = nullptr;  ///< In its place: the generation whose lines they keep.
  PosixAnswers* posix = nullptr;          ///< Null: the link does not ask for it.
};

/// The places among `names` (ascending) of those that the spool, of which all is listed, does not
/// have. kCorrupt: it has objects that none of them means. Blocks.
Result<std::vector<std::size_t>> FindMissing(ListingSpool& spool,
                                             std::span<const std::string> names);

/// Calls `visit` for all that was listed, in the order in which FeedBuilder takes it. Blocks.
Status ForEachListed(const ListedLink& listed,
                     const std::function<Status(const ListedObject&)>& visit);

/// True: what was listed of `part` ("" = all) is what `previous` says of it, and no generation need
/// be built. False: perhaps not (SameListing). kUnavailable: `wanted`, which is asked now and then,
/// said no. Blocks.
Result<bool> ListsTheSame(const ListedLink& listed, const Snapshot& previous, std::string_view part,
                          const std::function<bool()>& wanted);

/// Gives the builder what was listed. `wanted` is asked now and then; false ends it with
/// kUnavailable. Blocks.
Status FeedBuilder(const ListedLink& listed, SnapshotBuilder& builder,
                   const std::function<bool()>& wanted);

/// What is announced of a snapshot that was built from a listing of `listed_unix_s`.
proto::GenerationInfo DescribeGeneration(std::uint64_t generation, const FinishedSnapshot& finished,
                                         std::int64_t listed_unix_s);

}  // namespace forebay
