#include "common/s3/auth/instance_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/s3/auth/credential_answers.h"
#include "common/s3/auth/http_fetch.h"
#include "common/s3/endpoint.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

constexpr const char* kDisabled = "AWS_EC2_METADATA_DISABLED";
constexpr std::string_view kRolePath = "/latest/meta-data/iam/security-credentials/";

std::uint64_t NumberOf(const AwsEnvironment& environment, std::string_view name,
                       std::uint64_t most) {
  const std::optional<std::uint64_t> number = ParseDecimal(environment.Get(name).value_or("1"));
  return std::clamp<std::uint64_t>(number.value_or(1), 1, most);
}

std::string PlaceOf(const AwsEnvironment& environment) {
  std::optional<std::string> place = environment.Get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  std::optional<std::string> mode = environment.Get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
  if (!place || !mode) {
    // A damaged file is the shared files' to report.
    const Result<AwsProfile> profile = LoadAwsProfile(environment, "");
    if (profile && !place) place = profile->Get("ec2_metadata_service_endpoint");
    if (profile && !mode) mode = profile->Get("ec2_metadata_service_endpoint_mode");
  }
  if (place) return NormalisedEndpoint(*place);
  const bool ipv6 = mode && (*mode == "IPv6" || *mode == "ipv6");
  return ipv6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

bool IsRoleName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("+=,.@_-").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

// One look: a token and what is asked with it.
class InstanceMetadata::Session {
 public:
  Session(const AwsEnvironment& environment, std::stop_token stop)
      : place_(PlaceOf(environment)),
        timeout_(std::chrono::seconds(NumberOf(environment, "AWS_METADATA_SERVICE_TIMEOUT", 30))),
        attempts_(NumberOf(environment, "AWS_METADATA_SERVICE_NUM_ATTEMPTS", 10)),
        stop_(std::move(stop)) {}

  // Gets the token without which nothing else is answered. `is_known`: somebody is there, so that
  // silence is an outage.
  std::expected<void, NoCredentials> Open(bool is_known) {
    if (!ParseEndpoint(place_)) {
      return Broken(fmt::format("the metadata endpoint '{}' is no http://host[:port]", place_));
    }
    Result<FetchReply> reply =
        Ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 300"}, Secret());
    if (!reply && is_known) return Away(reply.error().message);
    if (!reply) return Absent(reply.error().message);  // most machines are no EC2 instances
    if (reply->status != 200) return Refused(*reply, "the request for a token");
    if (reply->body.find_first_of("\r\n") != std::string::npos) {
      return Broken(fmt::format("the token of {} holds a line end", place_));
    }
    token_ = Secret("X-aws-ec2-metadata-token: " + reply->body);
    return {};
  }

  Result<FetchReply> Get(std::string_view path) { return Ask("GET", path, {}, token_); }

  std::unexpected<NoCredentials> Refused(const FetchReply& reply, std::string_view what) const {
    const std::string said = fmt::format("{} answered {} to {}", place_, reply.status, what);
    if (reply.status >= 500 || reply.status == 429) return Away(said);
    return reply.status == 404 ? Absent(said) : Broken(said);
  }

 private:
  Result<FetchReply> Ask(std::string method, std::string_view path,
                         std::vector<std::string> headers, const Secret& token) {
    FetchRequest request;
    request.method = std::move(method);
    request.url = fmt::format("{}{}", place_, path);
    request.headers = std::move(headers);
    request.secret_header = token;
    request.connect_timeout = timeout_;
    request.timeout = timeout_;
    request.direct = true;
    Result<FetchReply> reply = Fetch(request, stop_);
    for (std::uint64_t tried = 1; tried < attempts_ && (!reply || reply->status >= 500); ++tried) {
      reply = Fetch(request, stop_);
    }
    return reply;
  }

  const std::string place_;
  const Duration timeout_;
  const std::uint64_t attempts_;
  const std::stop_token stop_;
  Secret token_;  // as a header
};

CredentialAnswer InstanceMetadata::Credentials(std::stop_token stop) const {
  if (environment_.IsTrue(kDisabled)) return Absent(fmt::format("{} is true", kDisabled));
  Session session(environment_, std::move(stop));
  std::expected<void, NoCredentials> opened = session.Open(*has_given_);
  if (!opened) return std::unexpected(std::move(opened.error()));
  Result<FetchReply> roles = session.Get(kRolePath);
  if (!roles) return Away(roles.error().message);
  if (roles->status == 404) return Absent("the instance has no role");
  if (roles->status != 200) return session.Refused(*roles, "the question for its role");
  const std::string role = roles->body.substr(0, roles->body.find_first_of("\r\n"));
  if (!IsRoleName(role)) return Broken("the instance's role has no valid name");
  Result<FetchReply> keys = session.Get(std::string(kRolePath) + role);
  if (!keys) return Away(keys.error().message);
  if (keys->status != 200) return session.Refused(*keys, "the question for its credentials");
  CredentialAnswer answer = CredentialsFromJson(keys->body, {.token_name = "Token"},
                                                fmt::format("instance metadata, role {}", role));
  if (answer) *has_given_ = true;
  return answer;
}

std::optional<std::string> InstanceMetadata::Region(std::stop_token stop) const {
  if (environment_.IsTrue(kDisabled)) return std::nullopt;
  Session session(environment_, std::move(stop));
  if (!session.Open(false)) return std::nullopt;
  Result<FetchReply> region = session.Get("/latest/meta-data/placement/region");
  if (!region || region->status != 200 || !IsRegion(region->body)) return std::nullopt;
  return std::move(region->body);
}

}  // namespace forebay
