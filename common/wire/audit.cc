#include "common/wire/audit.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <optional>

#include "common/base/log.h"
#include "common/base/log_lines.h"
#include "common/trust/identity.h"

namespace forebay {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::size_t kLongestValue = 200;
constexpr std::size_t kLongestLine = 1500;

/// How a field's value reads.
enum class Form : std::uint8_t {
  kPlain,    ///< Text in quotes, or a number.
  kSigned,   ///< sint32
  kTarget,   ///< The message Target: its text.
  kTexts,    ///< A message of strings alone: all of them.
  kGuessed,  ///< As kPlain, where it is text.
};

/// A field of a request (proto/coordinator.proto) and its name in the line.
struct Field {
  Method method;
  int number;
  std::string_view name;
  Form form = Form::kPlain;
};

/// Of a method that is named here nothing else is logged; of the others all fields, by number, but
/// bytes that are no text.
constexpr auto kFields = std::to_array<Field>({
    {Method::kLink, 1, "name"},
    {Method::kLink, 2, "bucket"},
    {Method::kLink, 3, "prefix"},
    {Method::kLink, 4, "endpoint"},
    {Method::kLink, 10, "block_bytes"},
    {Method::kLink, 20, "manifest"},
    {Method::kLink, 30, "part", Form::kTexts},
    {Method::kLink, 40, "dry_run"},
    {Method::kUnlink, 1, "name"},
    {Method::kUnlink, 2, "evict"},
    {Method::kUnlink, 3, "force"},
    {Method::kEvictTarget, 1, "target", Form::kTarget},
    {Method::kEvictTarget, 2, "dry_run"},
    {Method::kEvictTarget, 3, "unused_for_hours"},
    {Method::kEvictTarget, 4, "force"},
    {Method::kRefresh, 1, "target", Form::kTarget},
    {Method::kSetFillLimits, 1, "bytes_per_s"},
    {Method::kSetFillLimits, 2, "requests_per_s"},
    {Method::kSetFillLimits, 3, "no_limit"},
    {Method::kSetFillLimits, 4, "paused"},
    {Method::kPin, 1, "target", Form::kTarget},
    {Method::kPin, 2, "until_unix_s"},
    {Method::kPin, 3, "job"},
    {Method::kUnpin, 1, "target", Form::kTarget},
    {Method::kSetQuota, 1, "name"},
    {Method::kSetQuota, 2, "quota_bytes"},
    {Method::kSetPriority, 1, "name"},
    {Method::kSetPriority, 2, "priority", Form::kSigned},
    {Method::kSetReplicas, 1, "name"},
    {Method::kSetReplicas, 2, "replicas"},
    {Method::kBackup, 1, "number"},
    {Method::kRestore, 1, "upload"},
    {Method::kCancelTask, 1, "task"},
    {Method::kRetryTask, 1, "task"},
    {Method::kUploadNames, 1, "upload"},
    {Method::kUploadNames, 2, "offset"},
    {Method::kPreload, 1, "target", Form::kTarget},
    {Method::kPreload, 5, "bytes_per_s"},
    {Method::kPreload, 7, "dry_run"},
    {Method::kCreateToken, 1, "role"},
    {Method::kCreateToken, 2, "uses"},
    {Method::kCreateToken, 3, "valid_s"},
    {Method::kCreateToken, 4, "link"},
    {Method::kRevokeToken, 1, "token"},
    {Method::kRevokeMember, 1, "role"},
    {Method::kRevokeMember, 2, "id"},
    {Method::kJoin, 1, "token"},
    {Method::kJoin, 4, "id"},
    {Method::kJoin, 5, "role"},
});

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  AppendPrintable(text.substr(0, kLongestValue), quoted);
  return quoted + (text.size() > kLongestValue ? "…\"" : "\"");
}

bool IsText(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return c >= 0x20 && c < 0x7F; });
}

/// The first string inside a message of one.
std::string_view TextInside(std::string_view message) {
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(message.data()),
                         static_cast<int>(message.size()));
  std::uint32_t size = 0;
  if (input.ReadTag() == 0 || !input.ReadVarint32(&size)) return {};
  const auto begin = static_cast<std::size_t>(input.CurrentPosition());
  return begin + size <= message.size() ? message.substr(begin, size) : std::string_view();
}

/// The strings inside a message of nothing else, with a space between.
std::string TextsInside(std::string_view message) {
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(message.data()),
                         static_cast<int>(message.size()));
  std::string all;
  std::uint32_t size = 0;
  while (input.ReadTag() != 0 && input.ReadVarint32(&size)) {
    const auto begin = static_cast<std::size_t>(input.CurrentPosition());
    if (!input.Skip(static_cast<int>(size))) break;
    if (!all.empty()) all += ' ';
    all += message.substr(begin, size);
  }
  return all;
}

/// Moves `input`, which stands behind `tag`, over the field; nothing when that cannot be shown.
std::optional<std::string> ReadValue(std::string_view message, CodedInputStream& input,
                                     std::uint32_t tag, Form form) {
  const auto kind = WireFormatLite::GetTagWireType(tag);
  if (kind == WireFormatLite::WIRETYPE_VARINT) {
    std::uint64_t number = 0;
    if (!input.ReadVarint64(&number)) return std::nullopt;
    if (form != Form::kSigned) return std::to_string(number);
    return std::to_string(WireFormatLite::ZigZagDecode64(number));
  }
  if (kind != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
    WireFormatLite::SkipField(&input, tag);
    return std::nullopt;
  }
  std::uint32_t size = 0;
  if (!input.ReadVarint32(&size)) return std::nullopt;
  const auto begin = static_cast<std::size_t>(input.CurrentPosition());
  if (!input.Skip(static_cast<int>(size))) return std::nullopt;
  const std::string_view value = message.substr(begin, size);
  if (form == Form::kGuessed && !IsText(value)) return std::nullopt;
  if (form == Form::kTexts) return Quoted(TextsInside(value));
  return Quoted(form == Form::kTarget ? TextInside(value) : value);
}

std::string FieldsOf(Method method, std::string_view message) {
  const bool named =
      std::ranges::any_of(kFields, [&](const Field& f) { return f.method == method; });
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(message.data()),
                         static_cast<int>(message.size()));
  std::string text;
  for (std::uint32_t tag = input.ReadTag(); tag != 0 && text.size() < kLongestLine;
       tag = input.ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    const auto* field = std::ranges::find_if(
        kFields, [&](const Field& f) { return f.method == method && f.number == number; });
    const bool known = field != kFields.end();
    const std::optional<std::string> value =
        ReadValue(message, input, tag, known ? field->form : Form::kGuessed);
    if (!value || (named && !known)) continue;
    text +=
        fmt::format(" {}={}", known ? std::string(field->name) : std::to_string(number), *value);
  }
  return text;
}

}  // namespace

bool IsAudited(const RpcRule& rule, proto::Role caller) {
  return rule.effect != Effect::kLooks &&
         (caller == proto::ROLE_ADMIN || caller == proto::ROLE_STRANGER);
}

std::string DescribeAudited(const RpcRule& rule, const PeerIdentity& peer,
                            std::string_view message) {
  std::string who;
  AppendPrintable(peer.id, who);
  std::string program;
  AppendPrintable(peer.program, program);
  const std::string role = peer.role == proto::ROLE_STRANGER ? "a machine without a certificate"
                                                             : std::string(RoleWord(peer.role));
  return fmt::format("{}{} at {} ({}): {}{}", role, who.empty() ? "" : " '" + who + "'",
                     peer.address.empty() ? "an unknown place" : peer.address, program, rule.name,
                     FieldsOf(rule.method, message));
}

void LogAudited(const std::string& what, const Result<RpcReply>& outcome) {
  if (outcome) {
    LogAlways(LogLevel::kInfo, fmt::format("audit: {}: done", what));
  } else {
    LogAlways(LogLevel::kWarn, fmt::format("audit: {}: failed: {}", what, outcome.error().message));
  }
}

}  // namespace forebay
