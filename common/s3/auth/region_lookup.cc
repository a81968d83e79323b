#include "common/s3/auth/region_lookup.h"

#include <fmt/format.h>

#include <utility>

#include "common/s3/auth/http_fetch.h"
#include "common/s3/auth/instance_metadata.h"

namespace forebay {

std::optional<std::string> BucketRegion(const LinkOrigin& origin, const std::string& ca_bundle,
                                        std::stop_token stop) {
  const Result<Endpoint> endpoint = ParseEndpoint(origin.endpoint);
  if (!endpoint) return std::nullopt;
  FetchRequest request;
  request.method = "HEAD";
  // By path always: a name with dots has no certificate, and the answer is the same.
  request.url = fmt::format("{}://{}{}/{}", endpoint->scheme, endpoint->authority,
                            endpoint->base_path, origin.bucket);
  request.direct = endpoint->IsLoopback();
  request.ca_bundle = ca_bundle;
  Result<FetchReply> reply = Fetch(request, std::move(stop));
  if (!reply || !IsRegion(reply->bucket_region)) return std::nullopt;
  return std::move(reply->bucket_region);
}

RegionSources NetworkRegionSources(const AwsEnvironment& environment,
                                   const std::string& ca_bundle) {
  const InstanceMetadata metadata(environment);
  return {.instance = [metadata] { return metadata.Region({}); },
          .bucket =
              [environment, ca_bundle](const LinkOrigin& origin) {
                return BucketRegion(origin, CaBundleOf(ca_bundle, environment, origin.profile), {});
              }};
}

}  // namespace forebay
