#include "common/base/config_option.h"

#include <unistd.h>

#include <algorithm>

namespace forebay {

namespace {
std::string Dashed(std::string_view key) {
  std::string text(key);
  std::ranges::replace(text, '_', '-');
  return text;
}

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}
/// A TOML literal as people say it: without quotes and brackets.
std::string Bare(std::string literal) {
  std::erase_if(literal, [](char c) { return c == '"' || c == '[' || c == ']'; });
  return literal.empty() ? "none" : literal;
}
}  // namespace

Environment ProcessEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

ConfigOption::ConfigOption(std::string_view section, std::string_view option_key,
                           ConfigValue option_value, std::string_view option_help)
    : key(option_key),
      flag("--" + Dashed(option_key)),
      environment("FOREBAY_" + Upper(section) + "_" + Upper(option_key)),
      help(option_help),
      default_text(Bare(option_value.show())),
      value(std::move(option_value)) {}

ConfigOption& ConfigOption::Required() {
  required = true;
  default_text.clear();
  return *this;
}

ConfigOption& ConfigOption::Positional(std::string_view name) {
  positional = true;
  flag = name;
  return *this;
}

ConfigOption& ConfigOption::Short(std::string_view name) {
  short_flag = name;
  return *this;
}

ConfigOption& ConfigOption::Flag(std::string_view name) {
  flag = name;
  return *this;
}

ConfigOption& ConfigOption::Default(std::string_view text) {
  default_text = text;
  return *this;
}

ConfigOption& ConfigSection::Add(std::string_view key, ConfigValue value, std::string_view help) {
  return options.emplace_back(name, key, std::move(value), help);
}

}  // namespace forebay
