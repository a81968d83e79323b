#include "cli/link_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/link_request.h"
#include "cli/options.h"
#include "cli/text.h"
#include "common/base/nearest.h"
#include "common/base/units.h"
#include "common/model/limits.h"
#include "common/model/link.h"
#include "common/model/link_set.h"

namespace forebay {
namespace {

namespace json = boost::json;

constexpr std::string_view kPathStyle = "force-path-style";
constexpr std::uint32_t kPathStyleNo = 2;  // LinkRequest.path_style

std::string RefreshText(const proto::LinkSpec& spec) {
  const auto policy = static_cast<RefreshPolicy>(spec.refresh());
  if (policy == RefreshPolicy::kImmutable) return "immutable";
  if (policy == RefreshPolicy::kOnDemand) return "on-demand";
  return FormatDuration(std::chrono::seconds(spec.refresh_seconds()));
}

void PutText(json::object& document, std::string_view name, const std::string& text) {
  if (!text.empty()) document[name] = text;
}

void PutSwitch(json::object& document, std::string_view name, bool on) {
  if (on) document[name] = true;
}

template <typename Globs>
void PutList(json::object& document, std::string_view name, const Globs& globs) {
  if (globs.empty()) return;
  json::array list;
  for (const std::string& glob : globs) list.emplace_back(glob);
  document[name] = std::move(list);
}

bool IsText(const proto::LinkSpec& spec) {
  std::vector<std::string> all = {spec.origin().prefix(), spec.manifest().location()};
  all.insert(all.end(), spec.includes().begin(), spec.includes().end());
  all.insert(all.end(), spec.excludes().begin(), spec.excludes().end());
  return std::ranges::all_of(all, [](const std::string& text) { return ValidUtf8(text) == text; });
}

/// The value as the words of the command line would have it.
Result<std::vector<std::string>> WordsOf(const Option& option, const json::value& value) {
  if (option.value.empty() && !option.positional()) {
    if (!value.is_bool()) return Fail(Code::kInvalid, "it is true or false");
    return value.as_bool() ? std::vector<std::string>{""} : std::vector<std::string>{};
  }
  if (value.is_string()) return std::vector<std::string>{std::string(value.as_string())};
  if (value.is_int64()) return std::vector<std::string>{std::to_string(value.as_int64())};
  if (!option.repeats || !value.is_array()) return Fail(Code::kInvalid, "it is a text");
  std::vector<std::string> words;
  for (const json::value& word : value.as_array()) {
    if (!word.is_string()) return Fail(Code::kInvalid, "it is a list of texts");
    words.emplace_back(word.as_string());
  }
  return words;
}

Status TakeOption(const Options& options, std::string_view name, const json::value& value) {
  const std::string flag = name == "source" ? "SOURCE" : fmt::format("--{}", name);
  std::vector<std::string> known;
  for (const Option& option : options.all()) {
    if (option.name != flag) {
      if (!option.positional()) known.push_back(option.name.substr(2));
      continue;
    }
    const Result<std::vector<std::string>> words = WordsOf(option, value);
    if (!words) return Fail(words.error().Within(std::string(name)));
    for (const std::string& word : *words) {
      Status taken = option.take(word);
      if (!taken) return Fail(taken.error().Within(std::string(name)));
    }
    return {};
  }
  const std::string near = Nearest(name, known);
  return Fail(Code::kInvalid, fmt::format("a link has no option \"{}\"{}", name,
                                          near.empty() ? "" : "; the nearest is \"" + near + '"'));
}

}  // namespace

Result<json::object> LinkDocument(const proto::LinkSpec& spec) {
  if (!IsText(spec)) {
    return Fail(Code::kInvalid,
                fmt::format("link '{}' has a source that is no UTF-8 and cannot be written down",
                            spec.name()));
  }
  const proto::LinkOrigin& origin = spec.origin();
  const bool from_names = spec.has_manifest() && !spec.manifest().location().empty() &&
                          !spec.manifest().behind_prefix();
  json::object link;
  link["name"] = spec.name();
  if (!from_names) link["source"] = fmt::format("s3://{}/{}", origin.bucket(), origin.prefix());
  PutText(link, "manifest", spec.manifest().location());
  PutSwitch(link, "skip-bad", spec.manifest().skip_bad());
  PutList(link, "include", spec.includes());
  PutList(link, "exclude", spec.excludes());
  link["refresh"] = RefreshText(spec);
  if (spec.block_bytes() != kDefaultBlockBytes) link["block-size"] = FormatSize(spec.block_bytes());
  if (spec.replicas() > 1) link["replicas"] = spec.replicas();
  if (spec.quota_bytes() != 0) link["quota"] = FormatSize(spec.quota_bytes());
  const auto priority = static_cast<LinkPriority>(spec.priority());
  if (spec.priority() != 0) link["priority"] = std::string(LinkPriorityName(priority));
  PutText(link, "sharing-domain", spec.sharing_domain());
  PutText(link, "endpoint-url", origin.endpoint());
  PutText(link, "region", origin.region());
  PutText(link, "profile", origin.profile());
  // Also where it is false: the default is that of the servers' profile and of the endpoint.
  link[kPathStyle] = origin.path_style();
  PutSwitch(link, "requester-pays", origin.requester_pays());
  PutText(link, "expected-bucket-owner", origin.expected_owner());
  PutSwitch(link, "posix-metadata", spec.posix_metadata());
  PutSwitch(link, "no-background-fill", spec.no_background_fill());
  PutSwitch(link, "no-sign-request", origin.no_sign());
  return link;
}

Result<json::object> SetDocument(const std::string& set,
                                 const std::vector<proto::LinkSpec>& parts) {
  json::object all;
  json::array sources;
  for (const proto::LinkSpec& part : parts) {
    Result<json::object> row = LinkDocument(part);
    if (!row) return row;
    const json::value source = row->at("source");
    sources.emplace_back(
        fmt::format("{}={}", PartOf(set, part.name()), std::string_view(source.as_string())));
    (*row)["name"] = set;
    row->erase("source");
    if (all.empty()) all = *row;
    if (all == *row) continue;
    return Fail(
        Code::kInvalid,
        fmt::format("the links of the set '{}' have different options, which its line "
                    "cannot say: `forebay links` shows quota, priority and replicas of each",
                    set));
  }
  all["source"] = std::move(sources);
  return all;
}

Result<proto::LinkRequest> LinkRequestOf(const json::object& document) {
  const json::value* name = document.if_contains("name");
  if (name == nullptr || !name->is_string() || name->as_string().empty())
    return Fail(Code::kInvalid, "a link needs a \"name\"");
  LinkWish wish;
  Options options;
  wish.Declare(options);
  // A manifest may say where its objects are: then the name stands in the source's place.
  const bool located = document.contains("source");
  Status taken = TakeOption(options, located ? "as" : "source", *name);
  for (const auto& [key, value] : document) {
    if (taken && key != "name") taken = TakeOption(options, key, value);
  }
  const std::string who = fmt::format("link '{}'", std::string(name->as_string()));
  if (!taken) return Fail(taken.error().Within(who));
  Result<proto::LinkRequest> request = wish.Request();
  if (!request) return Fail(request.error().Within(who));
  const json::value* path_style = document.if_contains(kPathStyle);
  if (path_style != nullptr && !path_style->as_bool()) request->set_path_style(kPathStyleNo);
  return request;
}

}  // namespace forebay
