#include "common/s3/auth/container_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/s3/auth/credential_answers.h"
#include "common/s3/auth/http_fetch.h"
#include "common/s3/endpoint.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

constexpr const char* kRelative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
constexpr const char* kFull = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
constexpr const char* kToken = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
constexpr const char* kTokenFile = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
constexpr const char* kEcsEndpoint = "http://169.254.170.2";
// ECS, and EKS Pod Identity by IPv4 and IPv6.
constexpr std::array<std::string_view, 3> kPlainHosts = {"169.254.170.2", "169.254.170.23",
                                                         "fd00:ec2::23"};

// "https://host:port" of a URL.
std::string AuthorityOf(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  return url.substr(0, url.find_first_of("/?#", scheme + 3));
}

std::expected<Secret, NoCredentials> TokenOf(const AwsEnvironment& environment) {
  Secret token;
  if (const std::optional<std::string> file = environment.Get(kTokenFile)) {
    std::expected<Secret, NoCredentials> read = ReadTokenFile(*file);
    if (!read) return read;
    token = *std::move(read);
  } else {
    token = Secret(environment.Get(kToken).value_or(""));
  }
  if (token.Reveal().find_first_of("\r\n") != std::string_view::npos) {
    return Broken("the container's authorization token holds a line end");
  }
  return token;
}

}  // namespace

std::expected<std::string, NoCredentials> ContainerCredentialsUrl(
    const AwsEnvironment& environment) {
  if (const std::optional<std::string> relative = environment.Get(kRelative)) {
    if (relative->starts_with('/')) return kEcsEndpoint + *relative;
    return Broken(fmt::format("{} does not begin with '/'", kRelative));
  }
  std::optional<std::string> full = environment.Get(kFull);
  if (!full) return Absent(fmt::format("neither {} nor {} is set", kRelative, kFull));
  const Result<Endpoint> endpoint = ParseEndpoint(AuthorityOf(*full));
  if (!endpoint) return Broken(fmt::format("{} is no URL that can be used", kFull));
  const bool trusted = endpoint->scheme == "https" || endpoint->IsLoopback() ||
                       std::ranges::find(kPlainHosts, endpoint->host) != kPlainHosts.end();
  if (trusted) return *std::move(full);
  return Broken(
      fmt::format("{} names the host {} without https, and only this machine and the "
                  "addresses of ECS and EKS may be asked so",
                  kFull, endpoint->host));
}

CredentialAnswer AskContainerEndpoint(const AwsEnvironment& environment,
                                      const std::string& ca_bundle, std::stop_token stop) {
  std::expected<std::string, NoCredentials> url = ContainerCredentialsUrl(environment);
  if (!url) return std::unexpected(std::move(url.error()));
  std::expected<Secret, NoCredentials> token = TokenOf(environment);
  if (!token) return std::unexpected(std::move(token.error()));
  const std::string host = AuthorityOf(*url);
  FetchRequest request;
  request.url = *std::move(url);
  request.headers = {"Accept: application/json"};
  if (!token->empty())
    request.secret_header = Secret("Authorization: " + std::string(token->Reveal()));
  request.direct = true;
  request.ca_bundle = ca_bundle;
  Result<FetchReply> reply = Fetch(request, std::move(stop));
  if (!reply) {
    if (reply.error().code == Code::kUnavailable) return Away(reply.error().message);
    return Broken(reply.error().message);
  }
  if (reply->status == 200) {
    return CredentialsFromJson(reply->body, {.token_name = "Token"},
                               fmt::format("the container endpoint {}", host));
  }
  const std::string said = fmt::format("{} answered {}", host, reply->status);
  if (reply->status >= 500 || reply->status == 429) return Away(said);
  return Broken(said);
}

}  // namespace forebay
