#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/config_option.h"
#include "common/base/units.h"

// The kinds of values that an option can have. Each refers to a member of a config struct.
namespace forebay {

/// `text` as a TOML string with its quotes.
std::string TomlString(std::string_view text);

ConfigValue Text(std::string& member, std::string_view metavar);
/// An absolute path; "" stays "".
ConfigValue Path(std::string& member, std::string_view metavar = "PATH");
ConfigValue Switch(bool& member);
ConfigValue Size(std::uint64_t& member, std::uint64_t min = 0,
                 std::uint64_t max = std::numeric_limits<std::uint64_t>::max());
ConfigValue Rate(std::uint64_t& member);
ConfigValue Time(std::chrono::milliseconds& member, std::chrono::milliseconds min,
                 std::chrono::milliseconds max);
/// As Time, and "none" is kForever.
ConfigValue TimeOrNone(std::chrono::milliseconds& member, std::chrono::milliseconds min);
/// File permissions, written in octal: "0644".
ConfigValue Mode(std::uint32_t& member);
/// HOST:PORT; "" stays "" (not set).
ConfigValue Address(std::string& member);
/// An address to listen on: an IP address of this machine or "localhost", with a port. "" stays ""
/// (does not listen).
ConfigValue OwnAddress(std::string& member);
ConfigValue AddressList(std::vector<std::string>& member);

/// A whole number in [min, max] for a member of any unsigned type.
template <typename T>
ConfigValue Number(T& member, std::type_identity_t<T> min, std::type_identity_t<T> max) {
  static_assert(std::is_unsigned_v<T>);
  return ConfigValue{.metavar = "N",
                     .set = [&member, min, max](const std::vector<std::string>& texts) -> Status {
                       const Result<std::uint64_t> number = ParseUint(texts.front(), min, max);
                       if (!number) return Fail(number.error());
                       member = static_cast<T>(*number);
                       return {};
                     },
                     .show = [&member] { return std::to_string(member); }};
}

/// The error of a text that is not one of the choices.
Error NotOneOf(std::string_view text, const std::vector<std::string>& names);

/// One of a few words for an enum.
template <typename E>
ConfigValue Choice(E& member, std::vector<std::pair<std::string, E>> choices) {
  std::vector<std::string> names;
  std::string metavar;
  for (const auto& choice : choices) {
    names.push_back(choice.first);
    metavar += (metavar.empty() ? "" : "|") + choice.first;
  }
  return ConfigValue{
      .metavar = metavar,
      .set = [&member, choices, names](const std::vector<std::string>& texts) -> Status {
        for (const auto& [name, value] : choices) {
          if (name != texts.front()) continue;
          member = value;
          return {};
        }
        return Fail(NotOneOf(texts.front(), names));
      },
      .show =
          [&member, choices] {
            for (const auto& [name, value] : choices) {
              if (value == member) return TomlString(name);
            }
            return TomlString("");
          }};
}

/// A list whose elements are read by `parse` (text to Result<T>) and written by `format`.
template <typename T, typename Parse, typename Format>
ConfigValue ListOf(std::vector<T>& member, std::string_view metavar, Parse parse, Format format) {
  return ConfigValue{.metavar = std::string(metavar),
                     .is_list = true,
                     .set = [&member, parse](const std::vector<std::string>& texts) -> Status {
                       std::vector<T> parsed;
                       for (const std::string& text : texts) {
                         Result<T> element = parse(text);
                         if (!element) return Fail(std::move(element.error()));
                         parsed.push_back(std::move(*element));
                       }
                       member = std::move(parsed);
                       return {};
                     },
                     .show =
                         [&member, format] {
                           std::string literal = "[";
                           for (const T& element : member) {
                             if (literal.size() > 1) literal += ", ";
                             literal += TomlString(format(element));
                           }
                           return literal + "]";
                         }};
}

}  // namespace forebay
