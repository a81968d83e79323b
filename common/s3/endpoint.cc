#include "common/s3/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace forebay {
namespace {

// One of the separate clouds that AWS consists of.
struct AwsPartition {
  std::string_view region_prefix;
  std::string_view domain;             // what its hosts end with
  std::string_view dual_stack_domain;  // the same of services with names of their own for IPv6
};

// From partitions.json of AWS's SDKs (botocore 1.43.11: regionRegex, dnsSuffix,
// dualStackDnsSuffix). A region that no other row knows belongs to the last one, as with the SDKs:
// AWS opens regions there more often than we change this.
constexpr std::array<AwsPartition, 8> kAwsPartitions = {{
    {"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"},
    {"us-gov-", "amazonaws.com", "api.aws"},
    {"us-iso-", "c2s.ic.gov", "api.aws.ic.gov"},
    {"us-isob-", "sc2s.sgov.gov", "api.aws.scloud"},
    {"us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"},
    {"eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"},
    {"eusc-", "amazonaws.eu", "api.amazonwebservices.eu"},
    {"", "amazonaws.com", "api.aws"},
}};

bool IsBelow(std::string_view host, std::string_view domain) {
  return host.size() > domain.size() + 1 && host.ends_with(domain) &&
         host[host.size() - domain.size() - 1] == '.';
}

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetterOrDigit(char c) { return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z'); }

bool IsHostName(std::string_view host) {
  return !host.empty() && host.front() != '.' && host.front() != '-' &&
         std::ranges::all_of(
             host, [](char c) { return IsLetterOrDigit(c) || c == '.' || c == '-' || c == '_'; });
}

bool IsIpv6(const std::string& host) {
  in6_addr address;
  return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsIpv4(const std::string& host) {
  in_addr address;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsPort(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool IsPath(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return IsLetterOrDigit(c) || c == '/' || c == '.' || c == '-' || c == '_' || c == '~';
  });
}

// Old AWS buckets may have capitals or '_', which a host name may not; a '.' would need a
// certificate for a second level, which AWS does not have.
bool BucketFitsHost(std::string_view bucket, bool tls) {
  return std::ranges::all_of(
      bucket, [&](char c) { return IsLower(c) || IsDigit(c) || c == '-' || (c == '.' && !tls); });
}

// What is no plain bucket, in one sentence; "" for one.
std::string WhyNoBucket(const std::string& bucket) {
  if (bucket.ends_with("--x-s3")) {
    return fmt::format(
        "'{}' is a directory bucket (S3 Express One Zone), which Forebay cannot "
        "read: link a general purpose bucket",
        bucket);
  }
  if (bucket.starts_with("arn:")) {
    return fmt::format(
        "'{}' is an ARN, which Forebay does not read: link the bucket by its name, "
        "or an access point by its alias",
        bucket);
  }
  return {};
}

// How requests name the bucket.
Result<LinkOrigin> WithStyle(LinkOrigin origin, std::optional<bool> path_style,
                             const AwsProfile& profile) {
  Result<Endpoint> endpoint = ParseEndpoint(origin.endpoint);
  if (!endpoint) return Fail(std::move(endpoint.error()));
  origin.endpoint = NormalisedEndpoint(origin.endpoint);
  const std::string wanted = profile.Get("s3.addressing_style").value_or("");
  if (!path_style && wanted == "path") path_style = true;
  if (!path_style && wanted == "virtual") path_style = false;
  const bool tls = endpoint->scheme == "https";
  origin.path_style =
      path_style.value_or(!endpoint->IsAmazon() || !BucketFitsHost(origin.bucket, tls));
  if (!origin.path_style && endpoint->IsIpAddress()) {
    return Fail(Code::kInvalid,
                fmt::format("a bucket cannot be a host name below the address {}: use path style",
                            endpoint->host));
  }
  return origin;
}

// The region that the bucket says it lies in.
void AskBucket(LinkOrigin& origin, bool inferred, EndpointVariant variant,
               const RegionSources& sources) {
  if (!sources.bucket) return;
  LinkOrigin probe = origin;
  if (inferred) {
    const std::string region = origin.region.empty() ? "us-east-1" : origin.region;
    probe.endpoint = AwsEndpoint("s3", region, variant);
  }
  std::optional<std::string> region = sources.bucket(probe);
  if (region) origin.region = *std::move(region);
}

}  // namespace

bool Endpoint::IsLoopback() const {
  return host == "localhost" || host.ends_with(".localhost") || host == "::1" ||
         (IsIpv4(host) && host.starts_with("127."));
}

bool Endpoint::IsIpAddress() const { return IsIpv4(host) || IsIpv6(host); }

bool Endpoint::IsAmazon() const {
  return std::ranges::any_of(kAwsPartitions, [this](const AwsPartition& partition) {
    return IsBelow(host, partition.domain) || IsBelow(host, partition.dual_stack_domain);
  });
}

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Fail(Code::kInvalid,
                fmt::format("'{}' is no S3 endpoint: {} (write https://host[:port])", text, why));
  };
  const std::string normal = NormalisedEndpoint(text);
  const std::size_t scheme_end = normal.find("://");
  if (scheme_end == std::string::npos) return bad("it has no http:// or https://");
  Endpoint endpoint;
  endpoint.scheme = normal.substr(0, scheme_end);
  if (endpoint.scheme != "http" && endpoint.scheme != "https") {
    return bad("only http:// and https:// can be used");
  }
  const std::string_view rest = std::string_view(normal).substr(scheme_end + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  endpoint.authority = rest.substr(0, slash);
  endpoint.base_path = rest.substr(slash);
  if (!IsPath(endpoint.base_path)) return bad("its path holds characters that need an escape");

  std::string_view authority = endpoint.authority;
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos)
      return bad("the bracket of its IPv6 address is not closed");
    endpoint.host = authority.substr(1, close - 1);
    if (!IsIpv6(endpoint.host)) return bad("what is in brackets is no IPv6 address");
    port = authority.substr(close + 1);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    endpoint.host = authority.substr(0, colon);
    if (!IsHostName(endpoint.host)) return bad("it has no valid host name");
    port = authority.substr(colon);
  }
  if (!port.empty() && (port.front() != ':' || !IsPort(port.substr(1)))) {
    return bad("its port is no number from 1 to 65535");
  }
  return endpoint;
}

bool IsRegion(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.front() != '-' &&
         std::ranges::all_of(text,
                             [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_'; });
}

EndpointVariant EndpointVariantOf(const AwsEnvironment& environment, const AwsProfile& profile) {
  return {
      .dual_stack = ConfiguredSwitch(environment, "AWS_USE_DUALSTACK_ENDPOINT", profile,
                                     "use_dualstack_endpoint"),
      .fips = ConfiguredSwitch(environment, "AWS_USE_FIPS_ENDPOINT", profile, "use_fips_endpoint")};
}

std::string AwsEndpoint(std::string_view service, std::string_view region,
                        EndpointVariant variant) {
  const AwsPartition& partition = *std::ranges::find_if(
      kAwsPartitions,
      [region](const AwsPartition& row) { return region.starts_with(row.region_prefix); });
  const bool s3 = service == "s3";
  // S3 marks IPv6 by a word in the old domain; newer services, STS among them, by another domain:
  // docs.aws.amazon.com/IAM/latest/UserGuide/reference_dual-stack_endpoint_support.html.
  const std::string_view domain =
      variant.dual_stack && !s3 ? partition.dual_stack_domain : partition.domain;
  // GovCloud's STS is FIPS's by its plain name, and has no other one in the old domain.
  const bool plain_is_fips =
      service == "sts" && partition.region_prefix == "us-gov-" && !variant.dual_stack;
  return fmt::format("https://{}{}{}.{}.{}", service, variant.fips && !plain_is_fips ? "-fips" : "",
                     variant.dual_stack && s3 ? ".dualstack" : "", region, domain);
}

Result<LinkOrigin> CompleteOrigin(LinkOrigin partial, std::optional<bool> path_style,
                                  const AwsEnvironment& environment, const RegionSources& sources) {
  const std::string no_bucket = WhyNoBucket(partial.bucket);
  if (!no_bucket.empty()) return Fail(Code::kInvalid, no_bucket);
  Result<AwsProfile> profile = LoadAwsProfile(environment, partial.profile);
  if (!profile) return Fail(std::move(profile.error()));
  if (!partial.profile.empty() && !profile->found) {
    return Fail(Code::kInvalid, fmt::format("there is no profile '{}': looked at {}",
                                            partial.profile, profile->looked_at));
  }

  LinkOrigin origin = std::move(partial);
  const EndpointVariant variant = EndpointVariantOf(environment, *profile);
  if (origin.endpoint.empty()) {
    origin.endpoint = ConfiguredEndpoint(environment, *profile, "s3").value_or("");
  }
  const bool inferred = origin.endpoint.empty();
  const bool given = !origin.region.empty();
  if (!given) origin.region = ConfiguredRegion(environment, *profile).value_or("");
  // Another store than AWS's knows nothing of the region of the instance that asks it.
  if (origin.region.empty() && inferred && sources.instance) {
    origin.region = sources.instance().value_or("");
  }
  if (!origin.region.empty() && !IsRegion(origin.region)) {
    return Fail(Code::kInvalid,
                fmt::format("'{}' is no region: letters, digits, '-' and '_'", origin.region));
  }
  bool amazon = inferred;
  if (!inferred) {
    const Result<Endpoint> valid = ParseEndpoint(origin.endpoint);
    if (!valid) return Fail(valid.error());
    amazon = valid->IsAmazon();
  }
  // On AWS a bucket knows better than its reader's settings; another store's may say anything.
  if (!given && (amazon || origin.region.empty())) AskBucket(origin, inferred, variant, sources);
  if (origin.region.empty()) origin.region = "us-east-1";
  if (inferred) origin.endpoint = AwsEndpoint("s3", origin.region, variant);
  return WithStyle(std::move(origin), path_style, *profile);
}

}  // namespace forebay
