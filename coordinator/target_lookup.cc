#include "coordinator/target_lookup.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "coordinator/frozen_links.h"
#include "coordinator/target.h"

namespace forebay {

Result<LocatedTarget> LocateTarget(const std::string& target, const LinkRegistry& links,
                                   const NamespaceIndex& index) {
  Result<ResolvedTarget> resolved = ResolveTarget(target, links.Specs());
  if (!resolved) return Fail(resolved.error());
  const std::optional<Link> link = links.FindById(resolved->link.id);
  if (!link) return Fail(UnknownLink(resolved->link.name, links.Specs()));
  if (IsListingLost(*link) || link->HasLostGeneration())
    return Fail(Code::kUnavailable, LostListing(*link).message);
  const std::shared_ptr<const PublishedGeneration> generation =
      link->generation ? index.Find(link->spec.id, link->generation->generation()) : nullptr;
  if (!generation) {
    return Fail(Code::kUnavailable,
                fmt::format("link '{}' is still being listed (task {}): try again when it is done",
                            link->spec.name, link->task_id));
  }
  const std::shared_ptr<const Snapshot>& snapshot = generation->snapshot();
  const std::optional<SnapshotRow> row = snapshot->Resolve(resolved->path);
  if (!row) {
    return Fail(Code::kNotFound,
                fmt::format("there is no '{}' in link '{}'", resolved->path, link->spec.name));
  }
  return LocatedTarget{
      .link = link->spec, .path = std::move(resolved->path), .snapshot = snapshot, .row = *row};
}

Result<LocatedTargets> LocateTargets(const std::string& target, const LinkRegistry& links,
                                     const NamespaceIndex& index) {
  const std::vector<LinkSpec> parts = PartsNamed(target, links.Specs());
  LocatedTargets found;
  found.is_set = !parts.empty();
  std::vector<std::string> names = {target};
  if (found.is_set) names.clear();
  for (const LinkSpec& part : parts) names.push_back(part.name);
  for (const std::string& name : names) {
    Result<LocatedTarget> one = LocateTarget(name, links, index);
    if (!one) return Fail(one.error());
    found.all.push_back(std::move(*one));
  }
  const LinkSpec& first = found.all.front().link;
  found.name = found.is_set ? first.set : first.name;
  return found;
}

}  // namespace forebay
