#include "coordinator/link_options.h"

#include <fmt/format.h>

#include <utility>

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

}  // namespace

Result<LinkOptions> ValidateLinkRequest(const proto::LinkRequest& request) {
  Result<S3Location> location =
      ParseS3Location("s3://" + request.bucket() + "/" + request.prefix());
  if (!location) return Fail(location.error());
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
  if (request.replicas() > 1) {
    return Fail(Code::kInvalid, "this version keeps one copy of a block: give --replicas 1");
  }

  LinkSpec globs;
  globs.includes.assign(request.includes().begin(), request.includes().end());
  globs.excludes.assign(request.excludes().begin(), request.excludes().end());
  const Result<KeyFilter> filter = KeyFilter::Parse(globs.includes, globs.excludes);
  if (!filter) return Fail(filter.error());

  LinkOptions options;
  options.path_style = *path_style;
  LinkSpec& spec = options.spec;
  spec = std::move(globs);
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
  spec.replicas = 1;
  spec.quota_bytes = request.quota_bytes();
  spec.priority = LinkPriorityOf(request.priority());
  spec.background_fill = !request.no_background_fill();
  spec.refresh = *refresh;
  if (spec.refresh == RefreshPolicy::kPeriodic) spec.refresh_seconds = request.refresh_seconds();
  return options;
}

}  // namespace forebay
