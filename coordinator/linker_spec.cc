#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "common/model/key_rules.h"
#include "coordinator/link_options.h"
#include "coordinator/linker.h"
#include "coordinator/next_keys.h"

// What a link is to be, checked against S3 before anything is changed.
namespace forebay {
namespace {

/// `link` answers within so long when S3 does not.
constexpr std::chrono::seconds kReachabilityCheck{10};
/// A manifest is fetched and read, up to 256 MiB of it.
constexpr std::chrono::seconds kManifestCheck{60};

LinkSpec Named(LinkSpec spec, LinkOrigin origin) {
  spec.origin = std::move(origin);
  spec.id = Uuid::Random();
  spec.domain = spec.sharing_domain.empty() ? Uuid::Random() : SharingDomain(spec.sharing_domain);
  return spec;
}

}  // namespace

/// The link that the request means, checked against S3. Its ids are new.
Task<Result<LinkSpec>> Linker::SpecOf(proto::LinkRequest request) {
  Result<LinkOptions> options = ValidateLinkRequest(request);
  if (!options) co_return Fail(options.error());
  const Deadline deadline = Deadline::After(kReachabilityCheck);

  auto complete = [this, origin = options->spec.origin, style = options->path_style] {
    return parts_.complete_origin(origin, style);
  };
  Result<LinkOrigin> origin = co_await parts_.offload.Run(std::move(complete));
  if (!origin) co_return Fail(origin.error());
  LinkOrigin partial = std::exchange(options->spec.origin, std::move(*origin));

  if (!options->spec.manifest.location.empty()) {
    origin = co_await FindRoot(*options, std::move(partial), Deadline::After(kManifestCheck));
    if (!origin) co_return Fail(origin.error());
    co_return Named(std::move(options->spec), std::move(*origin));
  }
  const std::string asked = options->spec.origin.prefix;
  Result<std::string> prefix = co_await FindPrefix(options->spec.origin, asked, deadline);
  if (!prefix) co_return Fail(prefix.error());
  const bool is_filtered = !options->spec.includes.empty() || !options->spec.excludes.empty();
  if (is_filtered && IsSingleObjectPrefix(*prefix)) {
    co_return Fail(Code::kInvalid,
                   fmt::format("s3://{}/{} is one object: --include and --exclude choose among the "
                               "keys below a prefix",
                               options->spec.origin.bucket, *prefix));
  }
  LinkOrigin found = options->spec.origin;
  found.prefix = std::move(*prefix);
  co_return Named(std::move(options->spec), std::move(found));
}

/// `s3://b/train` means the folder train/ when there is one, else the object "train". The looks at
/// S3 also show that bucket, endpoint and credentials are right.
Task<Result<std::string>> Linker::FindPrefix(LinkOrigin origin, std::string asked,
                                             Deadline deadline) {
  const bool is_folder = asked.empty() || asked.ends_with('/');
  const std::string folder = is_folder ? asked : asked + "/";
  Result<bool> has_folder = co_await HasKey(origin, folder, deadline);
  if (!has_folder) co_return Fail(has_folder.error());
  if (*has_folder) co_return folder;
  if (!is_folder) {
    ListRequest request;
    request.origin = origin;
    request.prefix = asked;
    request.max_keys = 1;
    Result<ListPage> page = co_await NextKeys(parts_.store, std::move(request), deadline);
    if (!page) co_return Fail(page.error());
    // The key itself sorts before all that it is a prefix of.
    if (!page->objects.empty() && page->objects.front().key == asked) co_return asked;
  }
  co_return Fail(Code::kInvalid, fmt::format("no objects under s3://{}/{}", origin.bucket, asked));
}

Task<Result<bool>> Linker::HasKey(LinkOrigin origin, std::string prefix, Deadline deadline) {
  ListRequest request;
  request.origin = std::move(origin);
  request.prefix = std::move(prefix);
  request.max_keys = 1;
  Result<ListPage> page = co_await NextKeys(parts_.store, std::move(request), deadline);
  if (!page) co_return Fail(page.error());
  co_return !page->objects.empty();
}

}  // namespace forebay
