#include "coordinator/frozen_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace forebay {
namespace {

/// A listing of a link, as a task.
bool IsListing(const proto::TaskState& task) {
  return task.kind() == "link" || task.kind() == "refresh";
}

std::string Describe(const proto::GenerationInfo& listing) {
  return fmt::format("{} objects of {} bytes, digest {}", listing.objects(), listing.bytes(),
                     listing.listing_digest().empty() ? "unknown" : listing.listing_digest());
}

/// What `unlink` and `refresh` take.
std::string WholeOf(const Link& link) {
  return link.spec.set.empty() ? link.spec.name : link.spec.set;
}

std::string ActionFor(const Link& link, bool frozen) {
  return fmt::format(
      "{} and run `forebay refresh {}`; or `forebay unlink {}` and link it anew",
      frozen ? "put back what S3 had, or the listing's file as docs/LINKS.md says,"
             : "mend what the message names (keys of this machine, its certificates, the bucket)",
      link.spec.name, WholeOf(link));
}

}  // namespace

bool IsListingLost(const Link& link) {
  return link.spec.refresh == RefreshPolicy::kImmutable && link.generation &&
         (!link.task_id.empty() || !link.refresh_error.empty());
}

Status CheckFrozen(const Link& link, const proto::GenerationInfo& listed) {
  if (!IsListingLost(link)) return {};
  const std::string& frozen = link.generation->listing_digest();
  if (!frozen.empty() && frozen == listed.listing_digest()) return {};
  return Fail(
      Code::kStale,
      fmt::format("{} does not list what link '{}' froze ({}; now {}), so that it is not shown: "
                  "put back what was there and run `forebay refresh {}`, or `forebay unlink {}` "
                  "and link it anew",
                  link.Source(), link.spec.name, Describe(*link.generation), Describe(listed),
                  link.spec.name, WholeOf(link)));
}

Error LostListing(const Link& link) {
  const std::string_view frozen = IsListingLost(link) ? "frozen " : "";
  if (link.refresh_error.empty()) {
    return Error{Code::kNotFound,
                 fmt::format("the listing of the {}link '{}' is lost and is made again (task {})",
                             frozen, link.spec.name, link.task_id)};
  }
  return Error{Code::kNotFound, fmt::format("the listing of the {}link '{}' is lost: {}", frozen,
                                            link.spec.name, link.refresh_error)};
}

std::vector<proto::Alert> LostListingAlerts(const std::vector<Link>& links,
                                            const std::vector<proto::TaskState>& failed_tasks) {
  std::vector<proto::Alert> alerts;
  for (const Link& link : links) {
    const bool frozen = IsListingLost(link);
    if (!(frozen || link.HasLostGeneration()) || link.refresh_error.empty()) continue;
    proto::Alert alert;
    alert.set_name(frozen ? "frozen_listing_lost" : "listing_lost");
    for (const proto::TaskState& task : failed_tasks) {
      if (!IsListing(task) || task.target() != link.spec.name) continue;
      alert.set_since_unix_s(std::max(alert.since_unix_s(), task.ended_unix_s()));
    }
    alert.set_message(
        fmt::format("the listing of the {}link '{}' is lost, and S3 does not give it again; "
                    "mounts that hold it go on: {}",
                    frozen ? "frozen " : "", link.spec.name, link.refresh_error));
    alert.set_action(ActionFor(link, frozen));
    alerts.push_back(std::move(alert));
  }
  return alerts;
}

std::vector<proto::TaskState> OtherFailures(const std::vector<Link>& links,
                                            const std::vector<proto::TaskState>& failed_tasks,
                                            std::int64_t since_unix_s) {
  std::vector<proto::TaskState> others;
  for (const proto::TaskState& task : failed_tasks) {
    if (task.ended_unix_s() < since_unix_s) continue;
    const bool told =
        IsListing(task) && std::ranges::any_of(links, [&](const Link& link) {
          const bool is_frozen = link.generation && link.spec.refresh == RefreshPolicy::kImmutable;
          return link.spec.name == task.target() && (is_frozen || link.HasLostGeneration());
        });
    if (!told) others.push_back(task);
  }
  return others;
}

}  // namespace forebay
