#include "common/model/link.h"

#include <algorithm>
#include <cctype>

namespace forebay {
namespace {

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

// The rules of "Bucket naming rules" (AWS S3 user guide) that any S3 server shares.
bool IsBucketName(std::string_view name) {
  if (name.size() < 3 || name.size() > 63) return false;
  return std::ranges::all_of(name, IsNameChar);
}

}  // namespace

bool PinsCover(const std::vector<std::string>& pins, std::string_view path) {
  return std::ranges::any_of(pins, [path](const std::string& pin) {
    return pin.empty() || (pin.ends_with('/') ? path.starts_with(pin) : path == pin);
  });
}

Result<S3Location> ParseS3Location(std::string_view text) {
  constexpr std::string_view kScheme = "s3://";
  if (!text.starts_with(kScheme)) {
    return Fail(Code::kInvalid,
                "'" + std::string(text) + "' is no S3 location: write s3://bucket/prefix");
  }
  const std::string_view rest = text.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  S3Location location;
  location.bucket = std::string(rest.substr(0, slash));
  if (slash != std::string_view::npos) location.prefix = std::string(rest.substr(slash + 1));
  if (location.bucket.starts_with("arn:")) {
    return Fail(Code::kInvalid,
                "'" + std::string(text) +
                    "' names an ARN, which Forebay does not read: link the bucket by its name, or "
                    "an access point by its alias");
  }
  if (!IsBucketName(location.bucket)) {
    return Fail(Code::kInvalid,
                "'" + location.bucket + "' in '" + std::string(text) +
                    "' is no bucket name: 3 to 63 letters, digits, '.', '-' or '_'");
  }
  if (location.prefix.size() > kMaxKeyBytes) {
    return Fail(Code::kInvalid,
                "the prefix in '" + std::string(text) + "' is longer than an S3 key (1024 bytes)");
  }
  return location;
}

bool IsAccountId(std::string_view text) {
  return text.size() == 12 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

Status ValidateLinkName(std::string_view name) {
  const bool good = !name.empty() && name.size() <= 63 && name.front() != '.' &&
                    name.front() != '-' && std::ranges::all_of(name, IsNameChar);
  if (good) return {};
  return Fail(Code::kInvalid, "'" + std::string(name) +
                                  "' is no link name: 1 to 63 letters, digits, '.', '_' or '-', "
                                  "not beginning with '.' or '-'");
}

std::string DefaultLinkName(const S3Location& location) {
  std::string_view path = location.prefix;
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? path : path.substr(slash + 1);
  std::string name(last.empty() ? std::string_view(location.bucket) : last);
  std::ranges::replace_if(name, [](char c) { return !IsNameChar(c); }, '-');
  while (!name.empty() && (name.front() == '.' || name.front() == '-')) name.erase(0, 1);
  if (name.empty()) name = location.bucket;
  return name.substr(0, 63);
}

Uuid SharingDomain(std::string_view name) {
  const ObjectVersion hash = ComputeObjectVersion({.domain = {},
                                                   .endpoint = "forebay sharing domain",
                                                   .bucket = name,
                                                   .key = {},
                                                   .etag = {},
                                                   .size = 0});
  Uuid domain;
  for (std::size_t i = 0; i < 8; ++i) {
    domain.bytes[i] = static_cast<std::uint8_t>(hash.high >> (8 * i));
    domain.bytes[8 + i] = static_cast<std::uint8_t>(hash.low >> (8 * i));
  }
  return domain;
}

ObjectVersion VersionOf(const LinkSpec& link, std::string_view key, std::string_view etag,
                        std::uint64_t size) {
  return ComputeObjectVersion({.domain = link.domain,
                               .endpoint = link.origin.endpoint,
                               .bucket = link.origin.bucket,
                               .key = key,
                               .etag = etag,
                               .size = size});
}

std::string_view LinkPriorityName(LinkPriority priority) {
  switch (priority) {
    case LinkPriority::kLow:
      return "low";
    case LinkPriority::kNormal:
      return "normal";
    case LinkPriority::kHigh:
      return "high";
  }
  return "normal";
}

Result<LinkPriority> ParseLinkPriority(std::string_view text) {
  for (const LinkPriority one : {LinkPriority::kLow, LinkPriority::kNormal, LinkPriority::kHigh}) {
    if (text == LinkPriorityName(one)) return one;
  }
  return Fail(Code::kInvalid, "\"" + std::string(text) + "\" is none of low, normal and high");
}

LinkPriority LinkPriorityOf(std::int32_t number) {
  if (number < 0) return LinkPriority::kLow;
  return number > 0 ? LinkPriority::kHigh : LinkPriority::kNormal;
}

}  // namespace forebay
