#include "coordinator/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "common/base/nearest.h"
#include "common/model/key_rules.h"
#include "common/model/link_set.h"

namespace forebay {
namespace {

std::string_view WithoutSlashesAtEnd(std::string_view text) {
  while (text.ends_with('/')) text.remove_suffix(1);
  return text;
}

std::string_view WithoutSlashesAround(std::string_view text) {
  while (text.starts_with('/')) text.remove_prefix(1);
  return WithoutSlashesAtEnd(text);
}

/// Where `key` lies below the link, or nothing when the link does not cover it. The link's own
/// prefix covers itself with and without its slash.
std::optional<std::string> PathBelow(const LinkOrigin& origin, std::string_view key) {
  const std::string_view bare = WithoutSlashesAtEnd(key);
  if (bare == WithoutSlashesAtEnd(origin.prefix)) {
    if (!IsSingleObjectPrefix(origin.prefix)) return std::string();
    return std::string(*RelativeKey(origin.prefix, origin.prefix));
  }
  const std::optional<std::string_view> relative = RelativeKey(origin.prefix, bare);
  if (!relative) return std::nullopt;
  return std::string(WithoutSlashesAround(*relative));
}

Result<ResolvedTarget> ResolveLocation(std::string_view text, const std::vector<LinkSpec>& links) {
  Result<S3Location> location = ParseS3Location(text);
  if (!location) return Fail(location.error());
  const LinkSpec* best = nullptr;
  std::string best_path;
  for (const LinkSpec& link : links) {
    if (link.origin.bucket != location->bucket) continue;
    std::optional<std::string> path = PathBelow(link.origin, location->prefix);
    if (!path) continue;
    if (best != nullptr && best->origin.prefix.size() >= link.origin.prefix.size()) continue;
    best = &link;
    best_path = std::move(*path);
  }
  if (best != nullptr) return ResolvedTarget{.link = *best, .path = std::move(best_path)};
  if (links.empty()) {
    return Fail(Code::kNotFound, fmt::format("no link covers {}: there are no links yet", text));
  }
  std::vector<std::pair<std::size_t, const LinkSpec*>> nearest;
  for (const LinkSpec& link : links) {
    const std::string source = "s3://" + link.origin.bucket + "/" + link.origin.prefix;
    nearest.emplace_back(EditDistance(source, text), &link);
  }
  const auto [distance, best_of_all] = *std::ranges::min_element(nearest);
  const LinkSpec& link = *best_of_all;
  if (3 * distance > text.size()) {
    return Fail(
        Code::kNotFound,
        fmt::format("no link covers {0}: link it first, `forebay link {0} --as NAME`", text));
  }
  return Fail(Code::kNotFound,
              fmt::format("no link covers {}; the nearest is '{}' of s3://{}/{}", text, link.name,
                          link.origin.bucket, link.origin.prefix));
}

Error UnknownPart(std::string_view set, std::string_view part, const std::vector<LinkSpec>& parts) {
  std::string names;
  for (const LinkSpec& link : parts)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", PartOf(link));
  return Error{Code::kNotFound,
               fmt::format("the set '{}' has no part '{}'; it has {}", set, part, names)};
}

}  // namespace

std::vector<LinkSpec> PartsNamed(std::string_view text, const std::vector<LinkSpec>& links) {
  std::vector<LinkSpec> parts;
  const std::string_view name = WithoutSlashesAtEnd(text);
  for (const LinkSpec& link : links) {
    if (!link.set.empty() && link.set == name) parts.push_back(link);
  }
  return parts;
}

Error UnknownLink(std::string_view name, const std::vector<LinkSpec>& links) {
  const std::vector<LinkSpec> parts = PartsNamed(name, links);
  if (!parts.empty()) {
    return Error{Code::kInvalid, fmt::format("'{}' is a set, and this is about one link: name one "
                                             "of {}",
                                             name, NamesOf(parts))};
  }
  if (links.empty()) {
    return Error{Code::kNotFound,
                 fmt::format("no link '{}': there are no links yet, make one with `forebay link "
                             "s3://bucket/prefix`",
                             name)};
  }
  std::vector<std::string> names;
  for (const LinkSpec& link : links) {
    names.push_back(link.name);
    if (!link.set.empty()) names.push_back(link.set);
  }
  const std::string nearest = Nearest(name, names);
  return Error{Code::kNotFound,
               nearest.empty()
                   ? fmt::format("no link '{}': `forebay links` shows what there is", name)
                   : fmt::format("no link '{}'; the nearest is '{}'", name, nearest)};
}

Result<ResolvedTarget> ResolveTarget(std::string_view text, const std::vector<LinkSpec>& links) {
  if (text.starts_with("s3://")) return ResolveLocation(text, links);
  const std::size_t slash = text.find('/');
  const std::string_view name = text.substr(0, slash);
  if (name.empty()) {
    return Fail(
        Code::kInvalid,
        fmt::format("'{}' is no target: write NAME, NAME/sub/path or s3://bucket/prefix", text));
  }
  std::string_view rest =
      slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
  auto link = std::ranges::find(links, name, &LinkSpec::name);
  if (link == links.end()) {
    const std::vector<LinkSpec> parts = PartsNamed(name, links);
    rest = WithoutSlashesAround(rest);
    if (parts.empty() || rest.empty()) return Fail(UnknownLink(name, links));
    const std::size_t end = rest.find('/');
    const std::string_view part = rest.substr(0, end);
    link = std::ranges::find(links, LinkOfPart(name, part), &LinkSpec::name);
    if (link == links.end() || link->set != name) return Fail(UnknownPart(name, part, parts));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  std::string path(WithoutSlashesAround(rest));
  return ResolvedTarget{.link = *link, .path = std::move(path)};
}

}  // namespace forebay
