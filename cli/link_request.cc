#include "cli/link_request.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/units.h"
#include "common/model/key_filter.h"
#include "common/model/limits.h"
#include "common/model/link.h"
#include "common/model/link_set.h"

namespace forebay {
namespace {

constexpr std::uint32_t kPathStyleYes = 1;  // LinkRequest.path_style

/// An option that is a field of the request.
template <typename Setter>
auto Into(proto::LinkRequest& request, Setter setter) {
  return [&request, setter](const std::string& text) -> Status {
    if (text.empty()) return Fail(Code::kInvalid, "an empty text is no value");
    (request.*setter)(text);
    return {};
  };
}

}  // namespace

Status LinkWish::TakeRefresh(const std::string& text) {
  refresh_given_ = true;
  RefreshPolicy policy = RefreshPolicy::kPeriodic;
  if (text == "immutable") policy = RefreshPolicy::kImmutable;
  if (text == "on-demand") policy = RefreshPolicy::kOnDemand;
  options_.set_refresh(static_cast<std::uint32_t>(policy));
  if (policy != RefreshPolicy::kPeriodic) return {};
  const Result<std::chrono::milliseconds> every = ParseDuration(text);
  if (!every || *every < std::chrono::seconds(1)) {
    return Fail(Code::kInvalid,
                fmt::format("\"{}\" is neither immutable, on-demand nor a time such as 10m", text));
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*every).count();
  options_.set_refresh_seconds(static_cast<std::uint64_t>(seconds));
  return {};
}

Status LinkWish::TakeBlockSize(const std::string& text) {
  const Result<std::uint64_t> bytes = ParseSize(text);
  if (!bytes) return Fail(bytes.error());
  if (*bytes < kMinBlockBytes || *bytes > kMaxBlockBytes || *bytes % kCellBytes != 0) {
    return Fail(Code::kInvalid, fmt::format("\"{}\" is no multiple of {} from {} to {}", text,
                                            FormatSize(kCellBytes), FormatSize(kMinBlockBytes),
                                            FormatSize(kMaxBlockBytes)));
  }
  options_.set_block_bytes(*bytes);
  return {};
}

void LinkWish::Declare(Options& options) {
  options_.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kOnDemand));
  options.Arguments("SOURCE",
                    "s3://bucket/prefix; several make a set, with a directory for each: DIR=s3://… "
                    "names it (default: the last part of the prefix)",
                    sources_);
  options.Text("--as", "NAME",
               "the link's name (default: the last part of the prefix); of a set needed", name_);
  options.Texts("--include", "GLOB",
                "link only keys that match: *.jpg, /train/**; may be given several times",
                includes_);
  options.Texts("--exclude", "GLOB",
                "leave out keys that match, also included ones; may be given several times",
                excludes_);
  options.Text("--manifest", "URL",
               "link the objects that s3://bucket/key names: a manifest of SageMaker, plain or "
               "augmented, or a list; "
               "SOURCE may then be the link's name alone",
               manifest_);
  options.Switch("--skip-bad", "leave out what of a manifest cannot be linked, and report it",
                 skip_bad_);
  options.Switch("--posix-metadata",
                 "show mode, owner and time as x-amz-meta-file-* has them; costs a HEAD per object",
                 posix_metadata_);
  options.Flag("--refresh", "POLICY",
               "immutable (never listed again), on-demand (default) or a time: 10m",
               [this](const std::string& text) { return TakeRefresh(text); });
  options.Switch("--snapshot",
                 "freeze what is there now, by key, ETag and size: --refresh immutable", snapshot_);
  options.Flag("--block-size", "SIZE", "the unit of caching (default 4MiB)",
               [this](const std::string& text) { return TakeBlockSize(text); });
  options.Flag("--replicas", "N", "copies of each block, at as many nodes (default 1, at most 3)",
               [this](const std::string& text) -> Status {
                 const Result<std::uint64_t> copies = ParseUint(text, 1, kMostReplicas);
                 if (!copies) return Fail(copies.error());
                 options_.set_replicas(static_cast<std::uint32_t>(*copies));
                 return {};
               });
  options.Flag("--sharing-domain", "NAME",
               "share cached blocks with the links of the same NAME (default: with none)",
               Into(options_, &proto::LinkRequest::set_sharing_domain<const std::string&>));
  options.Flag("--quota", "SIZE", "the most that may be cached of it (default: no limit)",
               [this](const std::string& text) -> Status {
                 const Result<std::uint64_t> bytes = ParseSize(text);
                 if (!bytes) return Fail(bytes.error());
                 options_.set_quota_bytes(*bytes);
                 return {};
               });
  options.Flag("--priority", "PRIORITY",
               "low, normal (default) or high: what a full cache keeps before the rest",
               [this](const std::string& text) -> Status {
                 const Result<LinkPriority> priority = ParseLinkPriority(text);
                 if (!priority) return Fail(priority.error());
                 options_.set_priority(static_cast<std::int32_t>(*priority));
                 return {};
               });
  DeclareAccess(options);
  options.Switch("--no-background-fill", "fetch only what is read, however much a job reads of it",
                 no_background_fill_);
}

/// How S3 is reached.
void LinkWish::DeclareAccess(Options& options) {
  using Wish = proto::LinkRequest;
  options.Flag("--endpoint-url", "URL", "of an S3 other than AWS's",
               Into(options_, &Wish::set_endpoint<const std::string&>));
  options.Flag("--region", "REGION", "the bucket's region",
               Into(options_, &Wish::set_region<const std::string&>));
  options.Flag("--profile", "NAME", "a profile of the coordinator's and the nodes' own AWS files",
               Into(options_, &Wish::set_profile<const std::string&>));
  options.Switch("--force-path-style", "write the bucket into the path of requests", path_style_);
  options.Switch("--requester-pays", "accept to be charged for the requests", requester_pays_);
  options.Flag("--expected-bucket-owner", "ACCOUNT",
               "refuse the bucket when another account owns it: twelve digits",
               [this](const std::string& text) -> Status {
                 if (!IsAccountId(text)) {
                   return Fail(Code::kInvalid,
                               fmt::format("\"{}\" is no account of twelve digits", text));
                 }
                 options_.set_expected_owner(text);
                 return {};
               });
  options.Switch("--no-sign-request", "read a public bucket without credentials", no_sign_);
}

std::string LinkWish::source() const {
  if (is_set()) return "";
  return names_say_where() ? manifest_ : sources_.front();
}

/// Of a link: where it is, and its name.
Status LinkWish::TakeSource(proto::LinkRequest& request) const {
  Result<S3Location> location = ParseS3Location(source());
  if (!location) return Fail(location.error());
  const std::string& given = sources_.front();
  if (names_say_where() && !name_.empty() && name_ != given) {
    return Fail(Code::kInvalid,
                fmt::format("the link is named '{}' and '{}': leave --as out", given, name_));
  }
  if (names_say_where()) location = S3Location{};
  const std::string chosen = names_say_where() ? given : name_;
  const std::string name = chosen.empty() ? DefaultLinkName(*location) : chosen;
  Status valid = ValidateLinkName(name);
  if (!valid) return valid;
  request.set_name(name);
  request.set_bucket(location->bucket);
  request.set_prefix(location->prefix);
  return {};
}

Status LinkWish::TakeParts(proto::LinkRequest& request) const {
  if (!manifest_.empty()) {
    return Fail(Code::kInvalid,
                "--manifest names the objects of one link: give it one source, or none");
  }
  if (name_.empty()) {
    return Fail(Code::kInvalid, fmt::format("{} sources make a set, which needs a name: give --as "
                                            "NAME",
                                            sources_.size()));
  }
  Status valid = ValidateLinkName(name_);
  if (!valid) return valid;
  std::vector<SetPart> parts;
  for (const std::string& source : sources_) {
    Result<SetPart> part = ParseSetPart(source);
    if (!part) return Fail(part.error());
    parts.push_back(std::move(*part));
  }
  valid = ValidateParts(name_, parts);
  if (!valid) return valid;
  request.set_name(name_);
  for (const SetPart& part : parts) {
    proto::LinkPart& added = *request.add_parts();
    added.set_name(part.name);
    added.set_bucket(part.location.bucket);
    added.set_prefix(part.location.prefix);
  }
  return {};
}

Result<proto::LinkRequest> LinkWish::Request() const {
  if (!manifest_.empty()) {
    const Result<S3Location> manifest = ParseS3Location(manifest_);
    if (!manifest) return Fail(manifest.error().Within("--manifest"));
  }
  if (skip_bad_ && manifest_.empty())
    return Fail(Code::kInvalid, "--skip-bad is about the lines of a --manifest: give one");
  const auto immutable = static_cast<std::uint32_t>(RefreshPolicy::kImmutable);
  if (snapshot_ && refresh_given_ && options_.refresh() != immutable)
    return Fail(Code::kInvalid, "a --snapshot is never listed again: leave --refresh out");
  const Result<KeyFilter> filter = KeyFilter::Parse(includes_, excludes_);
  if (!filter) return Fail(filter.error());
  proto::LinkRequest request = options_;
  if (snapshot_) request.set_refresh(immutable);
  const Status taken = is_set() ? TakeParts(request) : TakeSource(request);
  if (!taken) return Fail(taken.error());
  for (const std::string& glob : includes_) request.add_includes(glob);
  for (const std::string& glob : excludes_) request.add_excludes(glob);
  if (path_style_) request.set_path_style(kPathStyleYes);
  request.set_requester_pays(requester_pays_);
  request.set_no_sign(no_sign_);
  request.set_manifest(manifest_);
  request.set_skip_bad(skip_bad_);
  request.set_posix_metadata(posix_metadata_);
  request.set_no_background_fill(no_background_fill_);
  return request;
}

}  // namespace forebay
