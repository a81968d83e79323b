#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <expected>
#include <system_error>

#include "common/base/config_sources.h"
#include "common/base/nearest.h"

namespace forebay {

namespace {

/// What stands in the file for one value, as the text that a flag would have; nothing for dates and
/// tables.
std::optional<std::string> ScalarText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  if (const auto* whole = node.as_integer()) {
    // 0o644 means the same as "0644": keep the digits that were written.
    const bool octal =
        (whole->flags() & toml::value_flags::format_as_octal) != toml::value_flags::none;
    return octal ? fmt::format("0o{:o}", whole->get()) : fmt::format("{}", whole->get());
  }
  return std::nullopt;
}

class Reader {
 public:
  Reader(std::string path, const std::vector<ConfigSection*>& sections,
         std::vector<std::string>& faults)
      : path_(std::move(path)), sections_(sections), faults_(faults) {}

  std::vector<ConfigEntry> Read(const toml::table& root) {
    for (const auto& [name, node] : root) {
      ConfigSection* section = FindSection(name.str());
      const toml::table* table = node.as_table();
      if (section == nullptr) {
        ReportUnknownSection(std::string(name.str()), name.source(), table != nullptr);
      } else if (table == nullptr) {
        Report(name.source(), fmt::format("{0} is a section; write [{0}] on a line of its own and "
                                          "its options below",
                                          name.str()));
      } else {
        ReadSection(*section, *table);
      }
    }
    return std::move(entries_);
  }

 private:
  ConfigSection* FindSection(std::string_view name) {
    for (ConfigSection* section : sections_) {
      if (section->name == name) return section;
    }
    return nullptr;
  }

  std::string Where(const toml::source_region& source) const {
    return fmt::format("{}:{}", path_, source.begin.line);
  }

  void Report(const toml::source_region& source, std::string_view what) {
    faults_.push_back(fmt::format("{}: {}", Where(source), what));
  }

  void ReportUnknownSection(const std::string& name, const toml::source_region& source,
                            bool is_table) {
    std::vector<std::string> names;
    for (const ConfigSection* section : sections_) {
      names.push_back("[" + section->name + "]");
      for (const ConfigOption& option : section->options) {
        if (is_table || option.key != name) continue;
        Report(source, fmt::format("{} stands outside of a section; write it below [{}]", name,
                                   section->name));
        return;
      }
    }
    const std::string shown = is_table ? "[" + name + "]" : name;
    Report(source, fmt::format("no such section {}; {}", shown, Suggest("[" + name + "]", names)));
  }

  void ReadSection(ConfigSection& section, const toml::table& table) {
    for (const auto& [key, node] : table) {
      ConfigOption* option = nullptr;
      std::vector<std::string> known;
      for (ConfigOption& candidate : section.options) {
        known.push_back(candidate.key);
        if (candidate.key == key.str()) option = &candidate;
      }
      if (option == nullptr) {
        Report(key.source(), fmt::format("no option {} in [{}]; {}", key.str(), section.name,
                                         Suggest(key.str(), known)));
      } else {
        ReadValue(*option, node, Where(key.source()));
      }
    }
  }

  void ReadValue(ConfigOption& option, const toml::node& node, std::string where) {
    std::vector<std::string> texts;
    if (const toml::array* array = node.as_array()) {
      if (!option.value.is_list) {
        faults_.push_back(fmt::format("{}: {}: takes one value, not a list", where, option.key));
        return;
      }
      for (const toml::node& element : *array) {
        std::optional<std::string> text = ScalarText(element);
        if (!text) return ReportKind(option, where);
        texts.push_back(std::move(*text));
      }
    } else {
      std::optional<std::string> text = ScalarText(node);
      if (!text) return ReportKind(option, where);
      texts = option.value.is_list ? SplitList(*text) : std::vector<std::string>{std::move(*text)};
    }
    entries_.push_back({&option, std::move(texts), std::move(where)});
  }

  void ReportKind(const ConfigOption& option, const std::string& where) {
    faults_.push_back(
        fmt::format("{}: {}: is neither text nor a number nor true or false; put it "
                    "into quotes",
                    where, option.key));
  }

  const std::string path_;
  const std::vector<ConfigSection*>& sections_;
  std::vector<std::string>& faults_;
  std::vector<ConfigEntry> entries_;
};

/// The whole file, or the errno of what failed.
std::expected<std::string, int> ReadAll(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::unexpected(errno);
  std::string content;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    const int error = n < 0 ? errno : 0;
    if (n <= 0) {
      ::close(fd);
      if (error != 0) return std::unexpected(error);
      return content;
    }
    content.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

std::vector<ConfigEntry> ReadConfigFile(const std::string& path, bool must_exist,
                                        const std::vector<ConfigSection*>& sections,
                                        std::vector<std::string>& faults) {
  const std::expected<std::string, int> content = ReadAll(path);
  if (!content) {
    if (content.error() != ENOENT || must_exist) {
      faults.push_back(fmt::format("{}: cannot be read: {}; name a readable file with --config",
                                   path, std::generic_category().message(content.error())));
    }
    return {};
  }
  try {
    const toml::table root = toml::parse(*content, path);
    return Reader(path, sections, faults).Read(root);
  } catch (const toml::parse_error& error) {
    faults.push_back(
        fmt::format("{}:{}: not TOML: {}", path, error.source().begin.line, error.description()));
    return {};
  }
}

}  // namespace forebay
