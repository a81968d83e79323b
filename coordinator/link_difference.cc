#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/link_registry.h"

// What a link is, beside what somebody wants it to be.
namespace forebay {
namespace {

std::string_view RefreshName(RefreshPolicy policy) {
  switch (policy) {
    case RefreshPolicy::kImmutable:
      return "immutable";
    case RefreshPolicy::kOnDemand:
      return "on-demand";
    case RefreshPolicy::kPeriodic:
      return "periodic";
  }
  return "unknown";
}

}  // namespace

std::string DescribeDifference(const LinkSpec& existing, const LinkSpec& wanted) {
  std::string text;
  const auto compare = [&text](std::string_view what, const auto& is, const auto& asked) {
    if (is == asked) return;
    fmt::format_to(std::back_inserter(text), "{}{} {}, not {}", text.empty() ? "" : "; ", what, is,
                   asked);
  };
  const auto source = [](const LinkOrigin& origin) {
    return fmt::format("s3://{}/{}", origin.bucket, origin.prefix);
  };
  const LinkOrigin& a = existing.origin;
  const LinkOrigin& b = wanted.origin;
  // A manifest that has changed may lie in another folder now.
  const bool names_say_where =
      !existing.manifest.location.empty() && !existing.manifest.behind_prefix;
  if (!names_say_where || existing.manifest != wanted.manifest)
    compare("source", source(a), source(b));
  compare("manifest", fmt::format("'{}'", existing.manifest.location),
          fmt::format("'{}'", wanted.manifest.location));
  compare("names behind the prefix", existing.manifest.behind_prefix,
          wanted.manifest.behind_prefix);
  compare("skip bad lines", existing.manifest.skip_bad, wanted.manifest.skip_bad);
  compare("endpoint", a.endpoint, b.endpoint);
  compare("region", fmt::format("'{}'", a.region), fmt::format("'{}'", b.region));
  compare("profile", fmt::format("'{}'", a.profile), fmt::format("'{}'", b.profile));
  compare("path style", a.path_style, b.path_style);
  compare("requester pays", a.requester_pays, b.requester_pays);
  compare("signed requests", a.sign, b.sign);
  compare("expected bucket owner", fmt::format("'{}'", a.expected_owner),
          fmt::format("'{}'", b.expected_owner));
  compare("block size", existing.block_bytes, wanted.block_bytes);
  compare("replicas", existing.replicas, wanted.replicas);
  compare("refresh", RefreshName(existing.refresh), RefreshName(wanted.refresh));
  compare("seconds between refreshes", existing.refresh_seconds, wanted.refresh_seconds);
  const auto globs = [](const std::vector<std::string>& all) {
    return all.empty() ? "none" : fmt::format("'{}'", fmt::join(all, "' '"));
  };
  compare("include", globs(existing.includes), globs(wanted.includes));
  compare("exclude", globs(existing.excludes), globs(wanted.excludes));
  compare("set", fmt::format("'{}'", existing.set), fmt::format("'{}'", wanted.set));
  compare("sharing domain", fmt::format("'{}'", existing.sharing_domain),
          fmt::format("'{}'", wanted.sharing_domain));
  compare("POSIX metadata", existing.posix_metadata, wanted.posix_metadata);
  compare("background fill", existing.background_fill, wanted.background_fill);
  compare("quota", existing.quota_bytes, wanted.quota_bytes);
  compare("priority", LinkPriorityName(existing.priority), LinkPriorityName(wanted.priority));
  return text;
}

}  // namespace forebay
