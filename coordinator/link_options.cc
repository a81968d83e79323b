#include "coordinator/link_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/units.h"
#include "common/model/key_filter.h"
#include "common/model/limits.h"

namespace forebay {
namespace {

Result<std::uint64_t> BlockBytes(std::uint64_t asked) {
  if (asked == 0) return kDefaultBlockBytes;
  if (asked < kMinBlockBytes || asked > kMaxBlockBytes || asked % kCellBytes != 0) {
    return Fail(Code::kInvalid,
                fmt::format("a block size of {} bytes is not possible: give a multiple of 64 KiB "
                            "from 256 KiB to 16 MiB",
                            asked));
  }
  return asked;
}

Result<RefreshPolicy> Refresh(const proto::LinkRequest& request) {
  switch (request.refresh()) {
    case static_cast<std::uint32_t>(RefreshPolicy::kImmutable):
      return RefreshPolicy::kImmutable;
    case static_cast<std::uint32_t>(RefreshPolicy::kOnDemand):
      return RefreshPolicy::kOnDemand;
    case static_cast<std::uint32_t>(RefreshPolicy::kPeriodic):
      if (request.refresh_seconds() == 0) {
        return Fail(Code::kInvalid, "a periodic refresh needs a period: give one such as 10m");
      }
      return RefreshPolicy::kPeriodic;
    default:
      return Fail(
          Code::kInvalid,
          fmt::format("refresh policy {} is not known to this coordinator: is the CLI newer?",
                      request.refresh()));
  }
}

Result<std::optional<bool>> PathStyle(std::uint32_t asked) {
  switch (asked) {
    case 0:
      return std::optional<bool>();
    case 1:
      return std::optional<bool>(true);
    case 2:
      return std::optional<bool>(false);
    default:
      return Fail(Code::kInvalid, fmt::format("path style {} is none of 0, 1 and 2", asked));
  }
}

/// Which of the objects below the prefix are to be shown.
Status TakeChoice(const proto::LinkRequest& request, LinkSpec& spec) {
  spec.includes.assign(request.includes().begin(), request.includes().end());
  spec.excludes.assign(request.excludes().begin(), request.excludes().end());
  const Result<KeyFilter> filter = KeyFilter::Parse(spec.includes, spec.excludes);
  if (!filter) return Fail(filter.error());
  if (request.manifest().empty()) return {};
  const Result<S3Location> manifest = ParseS3Location(request.manifest());
  if (!manifest) return Fail(manifest.error().Within("the manifest"));
  if (manifest->prefix.empty() || manifest->prefix.ends_with('/')) {
    return Fail(Code::kInvalid, fmt::format("the manifest {} is no object: write s3://bucket/key",
                                            request.manifest()));
  }
  spec.manifest = {.location = request.manifest(),
                   .behind_prefix = !request.bucket().empty(),
                   .skip_bad = request.skip_bad()};
  return {};
}

}  // namespace

Result<std::uint32_t> ReplicasOf(std::uint32_t asked) {
  if (asked <= kMostReplicas) return std::max<std::uint32_t>(asked, 1);
  return Fail(Code::kInvalid, fmt::format("{} copies of a block are not possible: give 1 to {}",
                                          asked, kMostReplicas));
}

Status CheckLinkQuota(std::uint64_t quota_bytes, std::uint64_t block_bytes) {
  if (quota_bytes == 0 || quota_bytes >= block_bytes) return {};
  return Fail(Code::kInvalid,
              fmt::format("a quota of {} is less than one block of the link, {}, and would evict "
                          "nearly all of it: write it with its unit, as in 500GiB",
                          HumanBytes(quota_bytes), HumanBytes(block_bytes)));
}

Result<LinkOptions> ValidateLinkRequest(const proto::LinkRequest& request) {
  LinkSpec chosen;
  Status choice = TakeChoice(request, chosen);
  if (!choice) return Fail(choice.error());
  const bool names_say_where = !chosen.manifest.location.empty() && !chosen.manifest.behind_prefix;
  // Until the manifest has been read its own bucket stands for that of its names.
  Result<S3Location> location =
      names_say_where ? ParseS3Location(chosen.manifest.location)
                      : ParseS3Location("s3://" + request.bucket() + "/" + request.prefix());
  if (!location) return Fail(location.error());
  if (names_say_where) location->prefix.clear();
  std::string name = request.name().empty() ? DefaultLinkName(*location) : request.name();
  Status named = ValidateLinkName(name);
  if (!named) return Fail(named.error());
  Result<std::uint64_t> block_bytes = BlockBytes(request.block_bytes());
  if (!block_bytes) return Fail(block_bytes.error());
  Result<RefreshPolicy> refresh = Refresh(request);
  if (!refresh) return Fail(refresh.error());
  Result<std::optional<bool>> path_style = PathStyle(request.path_style());
  if (!path_style) return Fail(path_style.error());
  if (!request.expected_owner().empty() && !IsAccountId(request.expected_owner())) {
    return Fail(Code::kInvalid, fmt::format("'{}' is no account: write its twelve digits",
                                            request.expected_owner()));
  }
  const Status domain =
      request.sharing_domain().empty() ? Status() : ValidateLinkName(request.sharing_domain());
  if (!domain) return Fail(domain.error().Within("the sharing domain"));
  const Result<std::uint32_t> replicas = ReplicasOf(request.replicas());
  if (!replicas) return Fail(replicas.error());

  const Status quota = CheckLinkQuota(request.quota_bytes(), *block_bytes);
  if (!quota) return Fail(quota.error());

  LinkOptions options;
  options.path_style = *path_style;
  LinkSpec& spec = options.spec;
  spec = std::move(chosen);
  spec.name = std::move(name);
  spec.origin = LinkOrigin{.bucket = std::move(location->bucket),
                           .prefix = std::move(location->prefix),
                           .endpoint = request.endpoint(),
                           .region = request.region(),
                           .profile = request.profile(),
                           .path_style = false,
                           .requester_pays = request.requester_pays(),
                           .sign = !request.no_sign(),
                           .expected_owner = request.expected_owner()};
  spec.block_bytes = *block_bytes;
  spec.replicas = *replicas;
  spec.quota_bytes = request.quota_bytes();
  spec.priority = LinkPriorityOf(request.priority());
  spec.background_fill = !request.no_background_fill();
  spec.posix_metadata = request.posix_metadata();
  spec.sharing_domain = request.sharing_domain();
  spec.refresh = *refresh;
  if (spec.refresh == RefreshPolicy::kPeriodic) spec.refresh_seconds = request.refresh_seconds();
  return options;
}

}  // namespace forebay
