#include "cli/json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/kind.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <ostream>

#include "cli/text.h"

namespace forebay {
namespace {

constexpr int kSchemaVersion = 1;

void Append(std::string& text, const boost::json::value& value) {
  if (const boost::json::object* object = value.if_object()) {
    text += '{';
    bool first = true;
    for (const auto& [key, member] : *object) {
      if (!first) text += ',';
      first = false;
      text += boost::json::serialize(key);
      text += ':';
      Append(text, member);
    }
    text += '}';
  } else if (const boost::json::array* array = value.if_array()) {
    text += '[';
    bool first = true;
    for (const boost::json::value& member : *array) {
      if (!first) text += ',';
      first = false;
      Append(text, member);
    }
    text += ']';
  } else if (const double* number = value.if_double()) {
    // Six digits: a ratio or a rate, never a counter. "0.0" stays a fraction for typed readers.
    const double rounded = std::round(*number * 1e6) / 1e6;
    const std::string digits = fmt::format("{}", rounded);
    text += digits;
    if (digits.find_first_of(".e") == std::string::npos) text += ".0";
  } else {
    text += boost::json::serialize(value);
  }
}

}  // namespace

std::string JsonText(const boost::json::value& value) {
  std::string text;
  Append(text, value);
  return text;
}

boost::json::object NewDocument() {
  boost::json::object document;
  document["schema_version"] = kSchemaVersion;
  return document;
}

void PrintDocument(const Console& console, const boost::json::object& document) {
  console.out << JsonText(document) << '\n' << std::flush;
}

void PutBytes(boost::json::object& object, std::string_view key, std::string_view text) {
  const std::string valid = ValidUtf8(text);
  const bool exact = valid == text;
  object[key] = valid;
  if (exact) return;
  std::string hex;
  for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  object[std::string(key) + "_hex"] = hex;
}

}  // namespace forebay
