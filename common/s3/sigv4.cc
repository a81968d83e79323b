#include "common/s3/sigv4.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <span>
#include <utility>

namespace forebay {
namespace {

using Sha256 = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string Hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const unsigned char byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0x0F]);
  }
  return text;
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Sha256 Hash(std::string_view text) {
  Sha256 digest;
  SHA256(Bytes(text), text.size(), digest.data());
  return digest;
}

Sha256 Hmac(std::span<const unsigned char> key, std::string_view text) {
  Sha256 digest;
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Bytes(text), text.size(),
       digest.data(), &size);
  return digest;
}

bool IsUnreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// Without blanks at the ends, and one blank for every run of them.
std::string Collapsed(std::string_view value) {
  std::string text;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) {
      text.push_back(c);
    } else if (!text.empty() && text.back() != ' ') {
      text.push_back(' ');
    }
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

struct CanonicalHeaders {
  std::string lines;  // "host:example.com\n…"
  std::string names;  // "host;x-amz-date"
};

CanonicalHeaders Canonical(const std::vector<NameValue>& headers) {
  std::map<std::string, std::string> sorted;
  for (const NameValue& header : headers) {
    std::string name = header.name;
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto [it, first] = sorted.try_emplace(std::move(name));
    if (!first) it->second += ',';  // one line for a header that comes twice
    it->second += Collapsed(header.value);
  }
  CanonicalHeaders canonical;
  for (const auto& [name, value] : sorted) {
    if (!canonical.names.empty()) canonical.names += ';';
    canonical.names += name;
    canonical.lines.append(name).append(":").append(value).append("\n");
  }
  return canonical;
}

Sha256 SigningKey(const SigningScope& scope, std::string_view day, const Secret& secret) {
  std::string start = "AWS4";
  start += secret.Reveal();
  const Sha256 day_key = Hmac({Bytes(start), start.size()}, day);
  OPENSSL_cleanse(start.data(), start.size());
  return Hmac(Hmac(Hmac(day_key, scope.region), scope.service), "aws4_request");
}

}  // namespace

std::string PayloadHash(std::string_view body) { return Hex(Hash(body)); }

std::string UriEncode(std::string_view bytes, bool keep_slash) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    if (IsUnreserved(c) || (keep_slash && c == '/')) {
      text.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text.push_back('%');
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0x0F]);
  }
  return text;
}

std::string CanonicalQuery(const std::vector<NameValue>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(query.size());
  for (const NameValue& parameter : query) {
    encoded.emplace_back(UriEncode(parameter.name, false), UriEncode(parameter.value, false));
  }
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& [name, value] : encoded) {
    if (!text.empty()) text += '&';
    text.append(name).append("=").append(value);
  }
  return text;
}

std::string AmzDate(std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::string Authorization(const SigningRequest& request, const SigningScope& scope,
                          const S3Credentials& credentials) {
  const CanonicalHeaders headers = Canonical(request.headers);
  const std::string canonical_request = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}", request.method, UriEncode(request.path, true),
      CanonicalQuery(request.query), headers.lines, headers.names, request.payload_hash);
  const std::string date = AmzDate(scope.time);
  const std::string_view day = std::string_view(date).substr(0, 8);
  const std::string scope_text =
      fmt::format("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  const std::string to_sign =
      fmt::format("{}\n{}\n{}\n{}", kAlgorithm, date, scope_text, Hex(Hash(canonical_request)));
  const Sha256 signature = Hmac(SigningKey(scope, day, credentials.secret_key), to_sign);
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                     credentials.key_id, scope_text, headers.names, Hex(signature));
}

std::vector<NameValue> SignedS3Headers(SigningRequest request, const std::string& region,
                                       const S3Credentials& credentials,
                                       std::chrono::sys_seconds time) {
  request.payload_hash = kEmptyPayloadHash;
  request.headers.push_back({"x-amz-content-sha256", request.payload_hash});
  request.headers.push_back({"x-amz-date", AmzDate(time)});
  if (!credentials.session_token.empty()) {
    request.headers.push_back(
        {"x-amz-security-token", std::string(credentials.session_token.Reveal())});
  }
  const SigningScope scope{.region = region, .service = "s3", .time = time};
  std::string authorization = Authorization(request, scope, credentials);
  request.headers.push_back({"Authorization", std::move(authorization)});
  return std::move(request.headers);
}

}  // namespace forebay
