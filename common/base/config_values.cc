#include "common/base/config_values.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>

#include "common/base/host_port.h"
#include "common/base/nearest.h"

namespace forebay {

namespace {

/// A value of one text that `parse` (text to Result<T>) reads and `show` writes.
template <typename T, typename Parse, typename Show>
ConfigValue Single(T& member, std::string_view metavar, Parse parse, Show show) {
  return ConfigValue{.metavar = std::string(metavar),
                     .set = [&member, parse](const std::vector<std::string>& texts) -> Status {
                       Result<T> value = parse(texts.front());
                       if (!value) return Fail(std::move(value.error()));
                       member = std::move(*value);
                       return {};
                     },
                     .show = [&member, show] { return show(member); }};
}

std::unexpected<Error> Bad(std::string_view text, std::string_view why) {
  return Fail(Code::kInvalid, fmt::format("\"{}\" {}", text, why));
}

Result<std::string> ParseOwnAddress(const std::string& text) {
  if (text.empty()) return text;
  Result<HostPort> address = HostPort::Parse(text);
  if (!address) return Fail(std::move(address.error()));
  if (!address->IsIp()) {
    return Bad(text, "names no IP address to listen on; write 127.0.0.1, [::1] or localhost");
  }
  return text;
}

Result<std::string> ParseAddress(const std::string& text) {
  Result<HostPort> address = HostPort::Parse(text);
  if (!address) return Fail(std::move(address.error()));
  return text;
}

Result<std::uint32_t> ParseMode(std::string_view text) {
  constexpr std::uint32_t kAllPermissions = 07777;
  std::string_view digits = text;
  if (digits.starts_with("0o")) digits.remove_prefix(2);
  std::uint32_t mode = 0;
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  const auto [stop, error] = std::from_chars(begin, end, mode, 8);
  if (digits.empty() || error != std::errc() || stop != end || mode > kAllPermissions) {
    return Bad(text, "is not a file mode; write it in octal, such as 0644");
  }
  return mode;
}

Result<std::chrono::milliseconds> InRange(std::string_view text,
                                          Result<std::chrono::milliseconds> duration,
                                          std::chrono::milliseconds min,
                                          std::chrono::milliseconds max) {
  if (duration && (*duration < min || *duration > max)) {
    return Bad(text, max == kForever ? fmt::format("is shorter than {}", FormatDuration(min))
                                     : fmt::format("is not between {} and {}", FormatDuration(min),
                                                   FormatDuration(max)));
  }
  return duration;
}

std::string ShowDuration(std::chrono::milliseconds d) { return TomlString(FormatDuration(d)); }

}  // namespace

std::string TomlString(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      literal += '\\';
      literal += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      literal += fmt::format("\\u{:04X}", byte);
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

Error NotOneOf(std::string_view text, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  std::string message = fmt::format("\"{}\" is not one of {}", text, list);
  const std::string nearest = Nearest(text, names);
  if (!nearest.empty()) message += "; did you mean " + nearest + "?";
  return Error{Code::kInvalid, message};
}

ConfigValue Text(std::string& member, std::string_view metavar) {
  return Single(
      member, metavar, [](const std::string& text) -> Result<std::string> { return text; },
      TomlString);
}

ConfigValue Path(std::string& member, std::string_view metavar) {
  return Single(
      member, metavar,
      [](const std::string& text) -> Result<std::string> {
        if (!text.empty() && text.front() != '/') {
          return Bad(text, "is not an absolute path; begin it with /");
        }
        return text;
      },
      TomlString);
}

ConfigValue Switch(bool& member) {
  ConfigValue value = Single(
      member, "",
      [](const std::string& text) -> Result<bool> {
        if (text == "true") return true;
        if (text == "false") return false;
        return Bad(text, "is not true or false");
      },
      [](bool on) -> std::string { return on ? "true" : "false"; });
  value.is_switch = true;
  return value;
}

ConfigValue Size(std::uint64_t& member, std::uint64_t min, std::uint64_t max) {
  return Single(
      member, "SIZE",
      [min, max](const std::string& text) -> Result<std::uint64_t> {
        Result<std::uint64_t> size = ParseSize(text);
        if (size && *size < min) return Bad(text, "is less than " + FormatSize(min));
        if (size && *size > max) return Bad(text, "is more than " + FormatSize(max));
        return size;
      },
      [](std::uint64_t size) { return TomlString(FormatSize(size)); });
}

ConfigValue Rate(std::uint64_t& member) {
  return Single(
      member, "RATE", [](const std::string& text) { return ParseRate(text); },
      [](std::uint64_t rate) { return TomlString(FormatRate(rate)); });
}

ConfigValue Time(std::chrono::milliseconds& member, std::chrono::milliseconds min,
                 std::chrono::milliseconds max) {
  return Single(
      member, "TIME",
      [min, max](const std::string& text) { return InRange(text, ParseDuration(text), min, max); },
      ShowDuration);
}

ConfigValue TimeOrNone(std::chrono::milliseconds& member, std::chrono::milliseconds min) {
  return Single(
      member, "TIME|none",
      [min](const std::string& text) {
        return InRange(text, ParseDurationOrNone(text), min, kForever);
      },
      ShowDuration);
}

ConfigValue Mode(std::uint32_t& member) {
  return Single(
      member, "MODE", [](const std::string& text) { return ParseMode(text); },
      [](std::uint32_t mode) { return TomlString(fmt::format("{:04o}", mode)); });
}

ConfigValue Address(std::string& member) {
  return Single(
      member, "HOST:PORT",
      [](const std::string& text) { return text.empty() ? text : ParseAddress(text); }, TomlString);
}

ConfigValue OwnAddress(std::string& member) {
  return Single(member, "HOST:PORT", ParseOwnAddress, TomlString);
}

ConfigValue AddressList(std::vector<std::string>& member) {
  return ListOf(member, "HOST:PORT[,…]", ParseAddress,
                [](const std::string& text) { return text; });
}

}  // namespace forebay
