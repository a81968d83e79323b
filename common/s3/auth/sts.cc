#include "common/s3/auth/sts.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/s3/auth/credential_answers.h"
#include "common/s3/auth/http_fetch.h"
#include "common/s3/endpoint.h"
#include "common/s3/sigv4.h"

namespace forebay {
namespace {

constexpr std::string_view kVersion = "2011-06-15";
constexpr std::string_view kForm = "application/x-www-form-urlencoded; charset=utf-8";

std::vector<NameValue> Form(std::string_view action, const RoleWish& role) {
  std::vector<NameValue> form = {
      {"Action", std::string(action)},
      {"Version", std::string(kVersion)},
      {"RoleArn", role.arn},
      {"RoleSessionName", role.session_name.empty() ? "forebay" : role.session_name}};
  if (!role.external_id.empty()) form.push_back({"ExternalId", role.external_id});
  if (!role.duration_seconds.empty()) form.push_back({"DurationSeconds", role.duration_seconds});
  return form;
}

// The signed headers of a POST of `body` to STS.
std::vector<std::string> Headers(const Endpoint& endpoint, const StsPlace& place,
                                 const std::string& body, const S3Credentials& source) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  SigningRequest request{.method = "POST",
                         .path = endpoint.base_path + "/",
                         .query = {},
                         .headers = {{"host", endpoint.authority},
                                     {"content-type", std::string(kForm)},
                                     {"x-amz-date", AmzDate(now)}},
                         .payload_hash = PayloadHash(body)};
  if (!source.session_token.empty()) {
    request.headers.push_back({"x-amz-security-token", std::string(source.session_token.Reveal())});
  }
  const SigningScope scope{.region = place.region, .service = "sts", .time = now};
  std::string authorization = Authorization(request, scope, source);
  request.headers.push_back({"Authorization", std::move(authorization)});
  std::vector<std::string> lines;
  lines.reserve(request.headers.size());
  for (const NameValue& header : request.headers) {
    lines.push_back(fmt::format("{}: {}", header.name, header.value));
  }
  return lines;
}

// Posts the form, signed when there is a `source`, and reads the credentials in the answer.
CredentialAnswer Ask(const StsPlace& place, const std::vector<NameValue>& form,
                     const S3Credentials* source, const std::string& provider,
                     std::stop_token stop) {
  const Result<Endpoint> endpoint = ParseEndpoint(place.endpoint);
  if (!endpoint) return Broken(endpoint.error().message);
  FetchRequest request;
  request.method = "POST";
  request.url =
      fmt::format("{}://{}{}/", endpoint->scheme, endpoint->authority, endpoint->base_path);
  request.body = CanonicalQuery(form);
  request.headers = source != nullptr ? Headers(*endpoint, place, request.body, *source)
                                      : std::vector{fmt::format("content-type: {}", kForm)};
  request.connect_timeout = std::chrono::seconds(5);
  request.timeout = std::chrono::seconds(15);
  request.direct = endpoint->IsLoopback();
  request.ca_bundle = place.ca_bundle;
  Result<FetchReply> reply = Fetch(request, std::move(stop));
  if (!reply) {
    const bool away = reply.error().code == Code::kUnavailable;
    return std::unexpected(
        NoCredentials{away ? NoCredentials::Kind::kAway : NoCredentials::Kind::kBroken,
                      fmt::format("for the {}: {}", provider, reply.error().message)});
  }
  if (reply->status == 200) return CredentialsFromSts(reply->body, provider);
  std::string who = fmt::format(
      "STS at {} (region {}), asked for the {} by {},", place.endpoint, place.region, provider,
      source == nullptr ? std::string("its token")
                        : fmt::format("key id {} from {}", source->key_id, source->provider));
  return std::unexpected(StsRefusal(*reply, who));
}

}  // namespace

StsPlace StsPlaceOf(const AwsEnvironment& environment, const AwsProfile& profile,
                    std::string ca_bundle) {
  StsPlace place;
  place.region = ConfiguredRegion(environment, profile).value_or("us-east-1");
  place.ca_bundle = std::move(ca_bundle);
  place.endpoint =
      ConfiguredEndpoint(environment, profile, "sts")
          .value_or(AwsEndpoint("sts", place.region, EndpointVariantOf(environment, profile)));
  return place;
}

CredentialAnswer AssumeRole(const StsPlace& place, const RoleWish& role,
                            const S3Credentials& source, std::stop_token stop) {
  return Ask(place, Form("AssumeRole", role), &source, role.provider, std::move(stop));
}

CredentialAnswer AssumeRoleWithWebIdentity(const StsPlace& place, const RoleWish& role,
                                           const std::string& token_file, std::stop_token stop) {
  std::expected<Secret, NoCredentials> token = ReadTokenFile(token_file);
  if (!token) return std::unexpected(std::move(token.error()));
  std::vector<NameValue> form = Form("AssumeRoleWithWebIdentity", role);
  form.push_back({"WebIdentityToken", std::string(token->Reveal())});
  return Ask(place, form, nullptr, role.provider, std::move(stop));
}

}  // namespace forebay
