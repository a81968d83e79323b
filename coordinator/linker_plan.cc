#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/snapshot/named_parts.h"
#include "common/snapshot/partial_refresh.h"
#include "coordinator/frozen_links.h"
#include "coordinator/linker.h"
#include "coordinator/listing_feed.h"

// What of a link is listed, where that waits, and what comes from the generation before.
namespace forebay {

/// What a manifest names in the parts is known from the generation before. Blocks.
Result<Linker::Plan> Linker::Prepare(const Link& link, Listing& listing) {
  Status prepared = parts_.index.BeginBuild(link.spec.id);
  if (!prepared) return Fail(prepared.error());
  Plan plan;
  if (link.generation && !IsListingLost(link)) {
    const auto current = parts_.index.Find(link.spec.id, link.generation->generation());
    if (current) plan.previous = current->snapshot();  // verified before this began
  }
  if (!plan.previous) return plan;
  const bool is_named = !link.spec.manifest.location.empty();
  plan.parts = SplitPaths(link.refresh_path);
  const bool possible = std::ranges::all_of(plan.parts, [&](const std::string& part) {
    return is_named ? CanLookUpPart(*plan.previous, part) : CanRefreshPart(*plan.previous, part);
  });
  if (!possible) plan.parts.clear();
  if (is_named && !plan.parts.empty()) {
    Result<std::vector<std::string>> names = NamesOfParts(*plan.previous, plan.parts);
    if (!names) return Fail(names.error());
    listing.keys = *std::move(names);
  }
  return plan;
}

/// Opens what is listed and what is built of it. A new listing begins at `now_unix_s`. Blocks.
Result<Linker::Plan> Linker::OpenFiles(const Link& link, Plan plan, const Listing& listing,
                                       std::int64_t now_unix_s) {
  Result<std::unique_ptr<ListingSpool>> spool =
      ListingSpool::Open(parts_.index.ListingFolderOf(link.spec.id),
                         ListingIdentity(link, JoinPaths(plan.parts), listing.keys), now_unix_s);
  if (!spool) return Fail(spool.error());
  plan.spool = std::move(*spool);
  // Of a part, the time of the complete listing that most of it comes from.
  plan.listed_unix_s = plan.parts.empty()
                           ? plan.spool->begun_unix_s()
                           : static_cast<std::int64_t>(plan.previous->listed_unix_s());
  SnapshotOptions options;
  options.id = SnapshotId{.link = link.spec.id, .generation = link.next_generation};
  options.domain = link.spec.domain;
  options.endpoint = link.spec.origin.endpoint;
  options.bucket = link.spec.origin.bucket;
  options.prefix = link.spec.origin.prefix;
  options.block_bytes = link.spec.block_bytes;
  options.listed_unix_s = static_cast<std::uint64_t>(plan.listed_unix_s);
  options.previous = plan.previous;
  plan.builder = std::make_shared<SnapshotBuilder>(
      std::move(options), parts_.index.PathOf(link.spec.id, link.next_generation));
  return plan;
}

/// Says what an earlier process has listed already.
void Linker::ShowKept(const Link& link, const Plan& plan, Listing& listing) {
  listing.objects = plan.spool->objects();
  listing.bytes = plan.spool->bytes();
  if (listing.objects == 0) return;
  spdlog::info("link '{}': its listing goes on behind {} objects", link.spec.name, listing.objects);
  parts_.tasks.Progress(link.task_id, listing.objects, listing.bytes);
}

/// Gives the builder what was not listed anew. Blocks.
Status Linker::CarryRest(const Plan& plan, const Listing& listing) {
  std::vector<std::string> parts = plan.parts;
  std::erase_if(parts, [&](const std::string& part) { return listing.left_out.contains(part); });
  // Markers of folders are listed, but for those that only a manifest could name.
  if (!listing.names) return CarryOver(*plan.previous, parts, *plan.builder);
  return CarryOver(*plan.previous, parts, *plan.builder, FoldersLeft(*plan.previous, listing.gone));
}

}  // namespace forebay
