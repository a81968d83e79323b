#include "common/base/config_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace forebay {

namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 6;

/// `text` in lines of at most kColumns, each behind `indent` spaces.
std::string Wrap(std::string_view text, std::size_t indent) {
  std::string wrapped;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (column > 0 && column + 1 + word.size() <= kColumns) {
      wrapped += ' ';
      ++column;
    } else {
      if (column > 0) wrapped += '\n';
      wrapped.append(indent, ' ');
      column = indent;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped + "\n";
}

std::string OptionHelp(const ConfigOption& option) {
  std::string head = "  ";
  if (!option.short_flag.empty()) head += option.short_flag + ", ";
  head += option.flag;
  if (!option.value.is_switch && !option.positional) head += " " + option.value.metavar;
  std::string facts = option.required ? "Required." : "Default: " + option.default_text + ".";
  if (option.value.is_list) facts += " May be repeated.";
  return head + "\n" + Wrap(option.help, kIndent) + Wrap(facts, kIndent);
}

std::string Usage(std::string_view program, const std::vector<ConfigSection>& own) {
  std::string usage = fmt::format("Usage: {} [OPTIONS]", program);
  for (const ConfigSection& section : own) {
    for (const ConfigOption& option : section.options) {
      if (option.positional) {
        usage += " " + option.flag;
      } else if (option.required) {
        usage += fmt::format(" {} {}", option.flag, option.value.metavar);
      }
    }
  }
  return usage + "\n";
}

}  // namespace

std::string HelpText(std::string_view program, std::string_view summary,
                     const std::vector<ConfigSection>& own) {
  std::string text = Usage(program, own) + "\n" + Wrap(summary, 0);
  for (const ConfigSection& section : own) {
    text += fmt::format("\n[{}] {}\n", section.name, section.about);
    for (const ConfigOption& option : section.options) text += OptionHelp(option);
  }
  text += "\nGeneral\n";
  for (const GeneralFlag& flag : kGeneralFlags) {
    text += fmt::format("  {}\n{}", flag.flag, Wrap(flag.help, kIndent));
  }
  return text + "\n" + Wrap(kPrecedence, 0);
}

std::string PrintConfig(const std::vector<ConfigSection>& own) {
  std::string text;
  for (const ConfigSection& section : own) {
    std::vector<std::string> lines;
    std::size_t width = 0;
    for (const ConfigOption& option : section.options) {
      lines.push_back(fmt::format("{} = {}", option.key, option.value.show()));
      // A very long value does not push all the others' origins out of sight.
      if (lines.back().size() <= kColumns) width = std::max(width, lines.back().size());
    }
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += fmt::format("{:<{}}  # {}\n", lines[i], width, section.options[i].origin);
    }
  }
  return text;
}

}  // namespace forebay
