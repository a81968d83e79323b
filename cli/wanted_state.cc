#include "cli/wanted_state.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <utility>

#include "cli/link_document.h"
#include "cli/text.h"
#include "common/base/units.h"
#include "common/model/link.h"
#include "common/model/link_set.h"

namespace forebay {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kFormat = 1;

/// A folder is meant with and without the slash at its end.
std::string_view PinKey(std::string_view target) {
  while (target.ends_with('/')) target.remove_suffix(1);
  return target;
}

std::string QuotaText(std::uint64_t bytes) { return bytes == 0 ? "none" : FormatSize(bytes); }

std::string LeaseText(std::int64_t until_unix_s, const std::string& job) {
  std::string text;
  if (until_unix_s != 0) text = "until " + Rfc3339(until_unix_s);
  if (!job.empty()) text += (text.empty() ? "for job " : ", for job ") + job;
  return text.empty() ? "for ever" : text;
}

std::string SourceText(const proto::LinkRequest& link) {
  if (link.bucket().empty()) return link.manifest();
  return fmt::format("s3://{}/{}", link.bucket(), link.prefix());
}

Result<std::int64_t> TimeOf(const std::string& text) {
  std::tm time{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (end != nullptr && *end == '\0') return static_cast<std::int64_t>(::timegm(&time));
  return Fail(Code::kInvalid, fmt::format("\"{}\" is no time as 2026-12-31T18:00:00Z (UTC)", text));
}

Result<proto::PinRequest> PinOf(const json::value& value) {
  if (!value.is_object()) return Fail(Code::kInvalid, "each of \"pins\" is an object");
  proto::PinRequest pin;
  for (const auto& [key, member] : value.as_object()) {
    if (!member.is_string())
      return Fail(Code::kInvalid, fmt::format("a pin's \"{}\" is a text", std::string(key)));
    const std::string text(member.as_string());
    if (key == "target") {
      pin.mutable_target()->set_text(text);
    } else if (key == "for-job") {
      pin.set_job(text);
    } else if (key == "until") {
      const Result<std::int64_t> until = TimeOf(text);
      if (!until) return Fail(until.error());
      pin.set_until_unix_s(*until);
    } else {
      return Fail(Code::kInvalid,
                  fmt::format("a pin has target, until and for-job, not \"{}\"", std::string(key)));
    }
  }
  if (PinKey(pin.target().text()).empty()) return Fail(Code::kInvalid, "a pin needs a \"target\"");
  return pin;
}

Result<const json::array*> ListAt(const json::object& document, std::string_view name) {
  static const json::array kNone;
  const json::value* list = document.if_contains(name);
  if (list == nullptr) return &kNone;
  if (!list->is_array()) return Fail(Code::kInvalid, fmt::format("\"{}\" is a list", name));
  return &list->as_array();
}

Status CheckMembers(const json::object& document) {
  for (const auto& [key, value] : document) {
    if (key == "links" || key == "pins") continue;
    if (key != "schema_version")
      return Fail(Code::kInvalid,
                  fmt::format("\"{}\" is neither links nor pins", std::string(key)));
    if (value != json::value(kFormat)) {
      return Fail(Code::kInvalid,
                  fmt::format("schema_version {} is not {}, which this version reads",
                              json::serialize(value), kFormat));
    }
  }
  return {};
}

/// What differs of a link that exists, beside its quota, priority and replicas.
std::expected<void, Failure> CompareOptions(Session& session, proto::LinkRequest wanted,
                                            const proto::LinkSpec& is, WantedPlan& plan) {
  wanted.set_quota_bytes(is.quota_bytes());
  wanted.set_priority(is.priority());
  wanted.set_replicas(is.replicas());
  wanted.set_dry_run(true);
  auto same = Ask<proto::LinkReply>(session, Method::kLink, wanted);
  if (same) return {};
  if (same.error().error.code != Code::kInvalid || same.error().exit)
    return std::unexpected(same.error());
  plan.conflicts.push_back(same.error().error.message);
  return {};
}

/// `is` is a link of `wanted`, or a part of it.
void CompareQuota(const proto::LinkRequest& wanted, const proto::LinkSpec& is, WantedPlan& plan) {
  if (wanted.quota_bytes() == is.quota_bytes()) return;
  proto::SetQuotaRequest request;
  request.set_name(is.name());
  request.set_quota_bytes(wanted.quota_bytes());
  plan.changes.push_back(
      {.text = fmt::format("link '{}': quota {}, was {}", is.name(),
                           QuotaText(wanted.quota_bytes()), QuotaText(is.quota_bytes())),
       .request = std::move(request)});
}

void ComparePriority(const proto::LinkRequest& wanted, const proto::LinkSpec& is,
                     WantedPlan& plan) {
  if (wanted.priority() == is.priority()) return;
  const auto name = [](std::int32_t priority) {
    return LinkPriorityName(static_cast<LinkPriority>(priority));
  };
  proto::SetPriorityRequest request;
  request.set_name(is.name());
  request.set_priority(wanted.priority());
  plan.changes.push_back({.text = fmt::format("link '{}': priority {}, was {}", is.name(),
                                              name(wanted.priority()), name(is.priority())),
                          .request = std::move(request)});
}

void CompareReplicas(const proto::LinkRequest& wanted, const proto::LinkSpec& is,
                     WantedPlan& plan) {
  const std::uint32_t copies = std::max<std::uint32_t>(wanted.replicas(), 1);
  const std::uint32_t were = std::max<std::uint32_t>(is.replicas(), 1);
  if (copies == were) return;
  proto::SetReplicasRequest request;
  request.set_name(is.name());
  request.set_replicas(copies);
  plan.changes.push_back(
      {.text = fmt::format("link '{}': {} replicas, was {}", is.name(), copies, were),
       .request = std::move(request)});
}

using LinksByName = std::map<std::string, proto::LinkSpec>;

/// Takes the parts that are there out of `present`.
std::expected<void, Failure> PlanSet(Session& session, const proto::LinkRequest& wanted,
                                     LinksByName& present, WantedPlan& plan) {
  std::vector<proto::LinkSpec> parts;
  for (const proto::LinkPart& part : wanted.parts()) {
    const auto is = present.find(LinkOfPart(wanted.name(), part.name()));
    if (is == present.end() || is->second.set() != wanted.name()) continue;
    parts.push_back(is->second);
    present.erase(is);
  }
  if (parts.empty()) {
    plan.changes.push_back(
        {.text = fmt::format("set '{}' of {} links: new", wanted.name(), wanted.parts_size()),
         .request = wanted});
    return {};
  }
  auto compared = CompareOptions(session, wanted, parts.front(), plan);
  if (!compared) return compared;
  for (const proto::LinkSpec& part : parts) {
    CompareQuota(wanted, part, plan);
    ComparePriority(wanted, part, plan);
    CompareReplicas(wanted, part, plan);
  }
  return {};
}

std::expected<void, Failure> PlanLinks(Session& session, const WantedState& wanted,
                                       WantedPlan& plan) {
  auto links = Ask<proto::GetLinksReply>(session, Method::kGetLinks, proto::GetLinksRequest());
  if (!links) return std::unexpected(links.error());
  LinksByName present;
  for (const proto::LinkState& link : links->links()) present[link.spec().name()] = link.spec();
  for (const proto::LinkRequest& link : wanted.links) {
    if (link.parts_size() > 0) {
      auto planned = PlanSet(session, link, present, plan);
      if (!planned) return planned;
      continue;
    }
    const auto is = present.find(link.name());
    if (is == present.end()) {
      plan.changes.push_back(
          {.text = fmt::format("link '{}' of {}: new", link.name(), SourceText(link)),
           .request = link});
      continue;
    }
    auto compared = CompareOptions(session, link, is->second, plan);
    if (!compared) return compared;
    CompareQuota(link, is->second, plan);
    ComparePriority(link, is->second, plan);
    CompareReplicas(link, is->second, plan);
    present.erase(is);
  }
  for (const auto& [name, spec] : present) plan.unnamed.push_back(fmt::format("link '{}'", name));
  return {};
}

std::expected<void, Failure> PlanPins(Session& session, const WantedState& wanted,
                                      WantedPlan& plan) {
  auto pins = Ask<proto::ListPinsReply>(session, Method::kListPins, proto::ListPinsRequest());
  if (!pins) return std::unexpected(pins.error());
  std::map<std::string, proto::PinState, std::less<>> present;
  for (const proto::PinState& pin : pins->pins()) present[std::string(PinKey(pin.target()))] = pin;
  for (const proto::PinRequest& pin : wanted.pins) {
    const std::string lease = LeaseText(pin.until_unix_s(), pin.job());
    const auto is = present.find(PinKey(pin.target().text()));
    if (is == present.end()) {
      plan.changes.push_back(
          {.text = fmt::format("pin of {}: new, {}", pin.target().text(), lease), .request = pin});
      continue;
    }
    const std::string was = LeaseText(is->second.until_unix_s(), is->second.job());
    if (lease != was) {
      plan.changes.push_back(
          {.text = fmt::format("pin of {}: {}, was {}", pin.target().text(), lease, was),
           .request = pin});
    }
    present.erase(is);
  }
  for (const auto& [target, pin] : present)
    plan.unnamed.push_back(fmt::format("pin of {}", pin.target()));
  return {};
}

}  // namespace

std::expected<json::object, Failure> DescribeState(Session& session) {
  auto links = Ask<proto::GetLinksReply>(session, Method::kGetLinks, proto::GetLinksRequest());
  if (!links) return std::unexpected(links.error());
  auto pins = Ask<proto::ListPinsReply>(session, Method::kListPins, proto::ListPinsRequest());
  if (!pins) return std::unexpected(pins.error());
  json::array link_rows;
  std::map<std::string, std::vector<proto::LinkSpec>> sets;
  for (const proto::LinkState& link : links->links()) {
    if (!link.spec().set().empty()) {
      sets[link.spec().set()].push_back(link.spec());
      continue;
    }
    Result<json::object> row = LinkDocument(link.spec());
    if (!row) return std::unexpected(Failure(row.error(), "", Exit::kFailed));
    link_rows.push_back(std::move(*row));
  }
  for (const auto& [set, parts] : sets) {
    Result<json::object> row = SetDocument(set, parts);
    if (!row) return std::unexpected(Failure(row.error(), "", Exit::kFailed));
    link_rows.push_back(std::move(*row));
  }
  json::array pin_rows;
  for (const proto::PinState& pin : pins->pins()) {
    if (ValidUtf8(pin.target()) != pin.target()) {
      return std::unexpected(Failure(
          Error{Code::kInvalid,
                "a pin's target is no UTF-8 and cannot be written down: " + Escaped(pin.target())},
          "", Exit::kFailed));
    }
    json::object row;
    row["target"] = pin.target();
    if (pin.until_unix_s() != 0) row["until"] = Rfc3339(pin.until_unix_s());
    if (!pin.job().empty()) row["for-job"] = ValidUtf8(pin.job());
    pin_rows.push_back(std::move(row));
  }
  json::object document;
  document["schema_version"] = kFormat;
  document["links"] = std::move(link_rows);
  document["pins"] = std::move(pin_rows);
  return document;
}

Result<WantedState> ParseWanted(const std::string& text) {
  json::parse_options syntax;
  syntax.allow_comments = true;
  syntax.allow_trailing_commas = true;
  boost::system::error_code error;
  const json::value value = json::parse(text, error, {}, syntax);
  if (error || !value.is_object()) {
    return Fail(Code::kInvalid, "it is no JSON object as `forebay export` writes it" +
                                    (error ? ": " + error.message() : std::string()));
  }
  const json::object& document = value.as_object();
  Status members = CheckMembers(document);
  if (!members) return Fail(members.error());
  const Result<const json::array*> links = ListAt(document, "links");
  if (!links) return Fail(links.error());
  const Result<const json::array*> pins = ListAt(document, "pins");
  if (!pins) return Fail(pins.error());
  WantedState wanted;
  std::set<std::string> names;
  for (const json::value& link : **links) {
    if (!link.is_object()) return Fail(Code::kInvalid, "each of \"links\" is an object");
    Result<proto::LinkRequest> request = LinkRequestOf(link.as_object());
    if (!request) return Fail(request.error());
    if (!names.insert(request->name()).second)
      return Fail(Code::kInvalid, fmt::format("link '{}' is there twice", request->name()));
    wanted.links.push_back(std::move(*request));
  }
  for (const json::value& pin : **pins) {
    Result<proto::PinRequest> request = PinOf(pin);
    if (!request) return Fail(request.error());
    wanted.pins.push_back(std::move(*request));
  }
  return wanted;
}

std::expected<WantedPlan, Failure> PlanFor(Session& session, const WantedState& wanted) {
  WantedPlan plan;
  auto links = PlanLinks(session, wanted, plan);
  if (!links) return std::unexpected(links.error());
  auto pins = PlanPins(session, wanted, plan);
  if (!pins) return std::unexpected(pins.error());
  return plan;
}

std::expected<std::string, Failure> Make(Session& session, const WantedChange& change) {
  if (const auto* link = std::get_if<proto::LinkRequest>(&change.request)) {
    auto reply = Ask<proto::LinkReply>(session, Method::kLink, *link);
    if (!reply) return std::unexpected(reply.error());
    return reply->task_id();
  }
  std::expected<RpcReply, Failure> reply;
  if (const auto* quota = std::get_if<proto::SetQuotaRequest>(&change.request)) {
    reply = session.Call(Method::kSetQuota, *quota);
  } else if (const auto* priority = std::get_if<proto::SetPriorityRequest>(&change.request)) {
    reply = session.Call(Method::kSetPriority, *priority);
  } else if (const auto* replicas = std::get_if<proto::SetReplicasRequest>(&change.request)) {
    reply = session.Call(Method::kSetReplicas, *replicas);
  } else {
    reply = session.Call(Method::kPin, std::get<proto::PinRequest>(change.request));
  }
  if (!reply) return std::unexpected(reply.error());
  return std::string();
}

}  // namespace forebay
