#include "common/model/link_set.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace forebay {
namespace {

constexpr std::string_view kScheme = "s3://";

std::string Source(const S3Location& location) {
  return fmt::format("{}{}/{}", kScheme, location.bucket, location.prefix);
}

/// With and without its slash a prefix is the same source.
std::string Place(const S3Location& location) {
  std::string place = Source(location);
  while (place.ends_with('/')) place.pop_back();
  return place;
}

}  // namespace

Result<SetPart> ParseSetPart(std::string_view text) {
  const std::size_t equals = text.find('=');
  const bool is_named = !text.starts_with(kScheme) && equals != std::string_view::npos;
  const std::string_view source = is_named ? text.substr(equals + 1) : text;
  Result<S3Location> location = ParseS3Location(source);
  if (!location) return Fail(location.error());
  std::string name = is_named ? std::string(text.substr(0, equals)) : DefaultLinkName(*location);
  const Status valid = ValidateLinkName(name);
  if (!valid) return Fail(valid.error());
  return SetPart{.name = std::move(name), .location = std::move(*location)};
}

Status ValidateParts(std::string_view set, const std::vector<SetPart>& parts) {
  if (parts.size() < 2 || parts.size() > kMostParts) {
    return Fail(Code::kInvalid, fmt::format("a set has 2 to {} sources, and '{}' would have {}",
                                            kMostParts, set, parts.size()));
  }
  std::map<std::string, const SetPart*> names;
  std::map<std::string, const SetPart*> places;
  for (const SetPart& part : parts) {
    const Status valid = ValidateLinkName(part.name);
    if (!valid) return valid;
    const std::string link = LinkOfPart(set, part.name);
    if (!ValidateLinkName(link)) {
      return Fail(Code::kInvalid,
                  fmt::format("'{}', the name of a part, is longer than 63 characters: give the "
                              "set or the part a shorter one",
                              link));
    }
    const auto [place, is_new] = places.emplace(Place(part.location), &part);
    if (!is_new)
      return Fail(Code::kInvalid, fmt::format("the source {} is given twice", place->first));
    const auto [name, is_free] = names.emplace(part.name, &part);
    if (is_free) continue;
    return Fail(Code::kInvalid,
                fmt::format("{0} and {1} would both be '{2}': name one of them otherwise, as in "
                            "{2}2={1}",
                            Source(name->second->location), Source(part.location), part.name));
  }
  return {};
}

std::string LinkOfPart(std::string_view set, std::string_view part) {
  return fmt::format("{}.{}", set, part);
}

std::string_view PartOf(const LinkSpec& link) {
  return link.set.empty() ? std::string_view() : PartOf(link.set, link.name);
}

std::string_view PartOf(std::string_view set, std::string_view link) {
  return link.size() > set.size() ? link.substr(set.size() + 1) : std::string_view();
}

std::string NamesOf(const std::vector<LinkSpec>& links) {
  std::string names;
  for (const LinkSpec& link : links) names += (names.empty() ? "" : ", ") + link.name;
  return names;
}

}  // namespace forebay
