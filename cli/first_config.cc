#include "cli/first_config.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/base/files.h"

namespace forebay {
namespace {

Result<toml::table> Parse(std::string_view text, const std::string& path) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, fmt::format("{}:{}: not TOML: {}", path, error.source().begin.line,
                                            error.description()));
  }
}

std::string Shown(const toml::node& node) {
  std::ostringstream text;
  text << toml::toml_formatter(node, toml::format_flags::none);
  return text.str();
}

/// Of `key` in `section`; nullptr: it is not set.
const toml::node* Find(const toml::table& root, const Setting& setting) {
  const toml::table* section = root[setting.section].as_table();
  return section == nullptr ? nullptr : section->get(setting.key);
}

/// What is set instead of `wanted`; nothing when it is just that, or not set.
std::optional<Setting> SetOtherwise(const toml::table& root, const Setting& wanted) {
  const toml::node* found = Find(root, wanted);
  if (found == nullptr) return std::nullopt;
  const toml::table same = toml::parse(wanted.key + " = " + wanted.value);
  std::string value = Shown(*found);
  if (value == Shown(*same.get(wanted.key))) return std::nullopt;
  return Setting{.section = wanted.section, .key = wanted.key, .value = std::move(value)};
}

/// Behind the line `number`, of which the first is 1.
std::optional<std::size_t> EndOfLine(std::string_view text, std::size_t number) {
  std::size_t end = 0;
  for (std::size_t line = 0; line < number; ++line) {
    const std::size_t next = text.find('\n', end);
    if (next == std::string_view::npos)
      return line + 1 == number ? std::optional(text.size()) : std::nullopt;
    end = next + 1;
  }
  return end;
}

/// Behind the line [section]; nothing when it is not written so.
std::optional<std::size_t> BehindHeader(std::string_view text, const toml::table& section,
                                        const std::string& name) {
  const std::size_t line = section.source().begin.line;
  if (section.is_inline() || line == 0) return std::nullopt;
  const std::optional<std::size_t> begin = EndOfLine(text, line - 1);
  const std::optional<std::size_t> end = EndOfLine(text, line);
  if (!begin || !end) return std::nullopt;
  std::string header(text.substr(*begin, *end - *begin));
  std::erase_if(header, [](char c) { return c == ' ' || c == '\t'; });
  return header.starts_with("[" + name + "]") ? end : std::nullopt;
}

/// `text` with the settings, all of one section, which is not `found` where it is nullptr.
Result<std::string> WithSettings(std::string text, const toml::node* found,
                                 const std::vector<Setting>& settings, std::string_view by) {
  const std::string& section = settings.front().section;
  std::string lines = fmt::format("# {}\n", by);
  for (const Setting& each : settings) lines += fmt::format("{} = {}\n", each.key, each.value);
  if (found == nullptr) {
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    return text + (text.empty() ? "" : "\n") + "[" + section + "]\n" + lines;
  }
  const toml::table* table = found->as_table();
  const std::optional<std::size_t> place =
      table == nullptr ? std::nullopt : BehindHeader(text, *table, section);
  if (!place)
    return Fail(Code::kInvalid, "[" + section + "] does not stand on a line of its own there");
  if (*place > 0 && text[*place - 1] != '\n') lines.insert(0, "\n");
  return text.insert(*place, lines);
}

/// With the permissions and the owner of what was there, or readable by all, since the services
/// have a user of their own and nothing in it is secret.
Status Replace(const std::string& path, const std::string& text) {
  struct stat before{};
  const bool existed = ::stat(path.c_str(), &before) == 0;
  const std::string ours = TemporaryNameFor(path);
  Status written = WriteFileAtomically(ours, text);
  if (!written) return written;
  const mode_t mode = existed ? before.st_mode & 07777 : 0644;
  const bool fits = (!existed || ::chown(ours.c_str(), before.st_uid, before.st_gid) == 0) &&
                    ::chmod(ours.c_str(), mode) == 0;
  if (!fits) {
    written = Fail(Code::kInternal,
                   "the owner of " + path + ": " + std::generic_category().message(errno));
  }
  if (written) written = CommitFile(ours, path);
  if (!written) ::unlink(ours.c_str());
  return written;
}

}  // namespace

Result<CompletedConfig> CompleteConfig(std::string_view text, std::string path,
                                       const std::vector<SettingGroup>& wanted,
                                       std::string_view by) {
  CompletedConfig done{.path = std::move(path), .text = std::string(text), .added = {}, .kept = {}};
  const Result<toml::table> before = Parse(text, done.path);
  if (!before) return Fail(before.error());
  std::vector<std::string> sections;
  for (const SettingGroup& group : wanted) {
    const bool set = std::ranges::any_of(
        group, [&](const Setting& each) { return Find(*before, each) != nullptr; });
    for (const Setting& each : group) {
      const std::optional<Setting> other = SetOtherwise(*before, each);
      if (other) done.kept.push_back(*other);
      if (set) continue;
      done.added.push_back(each);
      if (std::ranges::find(sections, each.section) == sections.end())
        sections.push_back(each.section);
    }
  }
  for (const std::string& section : sections) {
    std::vector<Setting> here;
    std::ranges::copy_if(done.added, std::back_inserter(here),
                         [&](const Setting& each) { return each.section == section; });
    // Anew, for lines may stand above it now.
    const Result<toml::table> now = Parse(done.text, done.path);
    if (!now) return Fail(now.error());
    Result<std::string> longer = WithSettings(std::move(done.text), now->get(section), here, by);
    if (!longer) return Fail(longer.error().Within(done.path));
    done.text = std::move(*longer);
  }
  const Result<toml::table> after = Parse(done.text, done.path);
  if (!after) return Fail(after.error());
  return done;
}

Result<CompletedConfig> CompleteConfigFile(const std::string& path,
                                           const std::vector<SettingGroup>& wanted,
                                           std::string_view by) {
  std::error_code none;
  const std::filesystem::path real = std::filesystem::canonical(path, none);
  Result<std::string> text = ReadWholeFile(path);
  if (!text && text.error().code != Code::kNotFound) return Fail(text.error());
  Result<CompletedConfig> completed = CompleteConfig(text ? *text : "", path, wanted, by);
  if (!completed || completed->added.empty()) return completed;
  Status written = Replace(none ? path : real.string(), completed->text);
  if (!written) return Fail(written.error());
  return completed;
}

std::string TextInConfigFile(const std::string& path, std::string_view section,
                             std::string_view key) {
  const Result<std::string> text = ReadWholeFile(path);
  const Result<toml::table> root = text ? Parse(*text, path) : Fail(text.error());
  return root ? (*root)[section][key].value_or(std::string()) : "";
}

std::string ShowSettings(const std::vector<Setting>& settings) {
  std::string shown;
  std::string section;
  for (const Setting& each : settings) {
    if (!shown.empty()) shown += ", ";
    if (each.section != section) shown += "[" + each.section + "] ";
    section = each.section;
    shown += each.key + " = " + each.value;
  }
  return shown;
}

std::string DescribeCompleted(const CompletedConfig& config) {
  if (config.added.empty() && config.kept.empty()) return "";
  if (config.kept.empty()) return config.path + " says now " + ShowSettings(config.added);
  const std::string kept = "keeps its own " + ShowSettings(config.kept);
  if (config.added.empty()) return config.path + " " + kept;
  return config.path + " says now " + ShowSettings(config.added) + "; it " + kept;
}

}  // namespace forebay
