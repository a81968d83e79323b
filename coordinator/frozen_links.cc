#include "coordinator/frozen_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/model/alert.h"

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

/// Of the link or of a path in it.
bool IsOf(const proto::TaskState& task, const Link& link) {
  const std::string& name = link.spec.name;
  return task.target().starts_with(name) &&
         (task.target().size() == name.size() || task.target()[name.size()] == '/');
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
    alert.set_name(
        std::string(AlertName(frozen ? AlertKind::kFrozenListingLost : AlertKind::kListingLost)));
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

std::vector<proto::Alert> FailedListingAlerts(const std::vector<Link>& links,
                                              const std::vector<proto::TaskState>& failed_tasks) {
  std::vector<proto::Alert> alerts;
  for (const Link& link : links) {
    if (!link.generation || link.refresh_error.empty() || IsListingLost(link)) continue;
    // The first one since the whole link was listed, as far as its task is still known.
    std::int64_t since = 0;
    for (const proto::TaskState& task : failed_tasks) {
      const bool after = task.ended_unix_s() >= link.checked_unix_s;
      if (!IsListing(task) || !after || !IsOf(task, link)) continue;
      since = since == 0 ? task.ended_unix_s() : std::min(since, task.ended_unix_s());
    }
    proto::Alert alert;
    alert.set_name(std::string(AlertName(AlertKind::kLinkFailed)));
    alert.set_since_unix_s(since == 0 ? link.checked_unix_s : since);
    alert.set_message(
        fmt::format("link '{}' could not be listed again, and shows what it showed before: {}",
                    link.spec.name, link.refresh_error));
    alert.set_action(fmt::format("correct the cause and run `forebay refresh {}`", WholeOf(link)));
    alerts.push_back(std::move(alert));
  }
  return alerts;
}

}  // namespace forebay
