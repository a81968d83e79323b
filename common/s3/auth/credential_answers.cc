#include "common/s3/auth/credential_answers.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <fstream>
#include <pugixml.hpp>

#include "common/s3/iso_time.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

// AWS allows 20,000 characters for the longest of them.
constexpr std::size_t kMaxTokenBytes = std::size_t{64} * 1024;

// A member that is a string; "" for anything else.
std::string Text(const boost::json::object& object, std::string_view name) {
  const boost::json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return {};
  return std::string(value->get_string());
}

// Sets the end of their life. False when `text` is there and no time.
bool TakeExpiry(S3Credentials& credentials, const std::string& text) {
  if (text.empty()) return true;
  credentials.expires = ParseIsoTime(text);
  return credentials.expires.has_value();
}

}  // namespace

CredentialAnswer CredentialsFromJson(std::string_view text, const JsonForm& form,
                                     std::string provider) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(text, error);
  if (error || !parsed.is_object()) return Broken("what it answered is no JSON object");
  const boost::json::object& object = parsed.get_object();
  if (form.has_version) {
    const boost::json::value* version = object.if_contains("Version");
    if (version == nullptr || !version->is_int64() || version->get_int64() != 1) {
      return Broken("what it answered has no \"Version\": 1");
    }
  }
  const std::string code = Text(object, "Code");
  if (!code.empty() && code != "Success") {
    return Broken(
        fmt::format("it answered {} ({})", Printable(code), Printable(Text(object, "Message"))));
  }
  S3Credentials credentials{.key_id = Text(object, "AccessKeyId"),
                            .secret_key = Secret(Text(object, "SecretAccessKey")),
                            .session_token = Secret(Text(object, form.token_name)),
                            .provider = std::move(provider),
                            .expires = std::nullopt,
                            .local = false};
  if (!TakeExpiry(credentials, Text(object, "Expiration"))) {
    return Broken("the Expiration that it answered is no time");
  }
  return Checked(std::move(credentials));
}

CredentialAnswer CredentialsFromSts(std::string_view xml, std::string provider) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) {
    return Broken("what STS answered is no XML");
  }
  const pugi::xml_node node = document.find_node(
      [](const pugi::xml_node& n) { return std::string_view(n.name()) == "Credentials"; });
  S3Credentials credentials{.key_id = node.child_value("AccessKeyId"),
                            .secret_key = Secret(node.child_value("SecretAccessKey")),
                            .session_token = Secret(node.child_value("SessionToken")),
                            .provider = std::move(provider),
                            .expires = std::nullopt,
                            .local = false};
  if (!TakeExpiry(credentials, node.child_value("Expiration"))) {
    return Broken("the Expiration that STS answered is no time");
  }
  return Checked(std::move(credentials));
}

NoCredentials StsRefusal(const FetchReply& reply, std::string_view who) {
  pugi::xml_document document;
  std::string said;
  if (document.load_buffer(reply.body.data(), reply.body.size(), pugi::parse_default,
                           pugi::encoding_utf8)) {
    const pugi::xml_node error = document.find_node(
        [](const pugi::xml_node& n) { return std::string_view(n.name()) == "Error"; });
    said = Printable(error.child_value("Code"));
    const std::string message = Printable(error.child_value("Message"));
    if (!message.empty()) said += fmt::format(" ({})", message);
  }
  const bool away = reply.status >= 500 || reply.status == 429 || said.starts_with("Throttling");
  return {away ? NoCredentials::Kind::kAway : NoCredentials::Kind::kBroken,
          fmt::format("{} answered {}{}{}", who, reply.status, said.empty() ? "" : " ", said)};
}

std::expected<Secret, NoCredentials> ReadTokenFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Broken(fmt::format("the token file {} cannot be read", path));
  std::string text(kMaxTokenBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxTokenBytes) {
    return Broken(fmt::format("{} is longer than any token", path));
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return Broken(fmt::format("the token file {} is empty", path));
  return Secret(text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first));
}

}  // namespace forebay
