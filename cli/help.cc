#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/common_options.h"
#include "cli/text.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

/// Longer ones push their text onto the next line.
constexpr std::size_t kLeftColumn = 30;

std::string OptionLines(const Options& options) {
  std::string text;
  for (const Option& option : options.all()) {
    std::string left = option.name;
    if (!option.short_name.empty()) left = option.short_name + ", " + left;
    if (!option.value.empty()) left += " " + option.value;
    // "HOST:PORT[,…]" has more bytes than characters.
    const std::size_t width = DisplayWidth(left);
    const std::size_t blanks = kLeftColumn - std::min(kLeftColumn, width);
    text += fmt::format("  {}{:{}}  {}\n", left, "", blanks, option.help);
  }
  return text;
}

std::string GlobalHelp() {
  CommandLine line;
  OutputFormat output = OutputFormat::kTable;
  return OptionLines(GlobalOptions(line, output));
}

}  // namespace

std::string Synopsis(const VerbRow& row, const Options& options) {
  std::string text = "forebay " + row.name;
  for (const Option& option : options.all()) {
    if (!option.positional()) continue;
    std::string shown = option.value.empty() ? option.name : option.value;
    if (option.repeats) shown += "…";
    text += option.required ? " " + shown : " [" + shown + "]";
  }
  return text + " [OPTIONS]";
}

std::string ProgramHelp() {
  std::string text =
      "forebay [OPTIONS] VERB …\n"
      "Administers a Forebay cluster: a read cache between S3 and training jobs.\n\nVerbs\n";
  for (const VerbRow& row : VerbTable()) {
    text += fmt::format("  {:<10}  {}", row.name, row.summary);
    if (!row.aliases.empty()) text += fmt::format(" (also: {})", fmt::join(row.aliases, ", "));
    text += '\n';
  }
  text += fmt::format("\n{}\n\nOptions, before or after the verb\n{}\nExit codes\n", kTargetText,
                      GlobalHelp());
  for (const ExitText& exit : kExitTexts)
    text += fmt::format("  {:<3}  {}\n", exit.code, exit.meaning);
  return text + "\n`forebay VERB --help` or `forebay help VERB` says more, `man forebay` all.\n";
}

std::string VerbHelp(const VerbRow& row) {
  const std::unique_ptr<Verb> verb = row.make();
  CommandLine line;
  const Options options = VerbOptions(row, *verb, line);
  std::string also;
  if (!row.aliases.empty()) also = fmt::format("Also called {}.\n", fmt::join(row.aliases, ", "));
  return fmt::format("{}\n{}\n{}\n{}\nOptions of every verb\n{}", Synopsis(row, options),
                     row.summary, also, OptionLines(options), GlobalHelp());
}

}  // namespace forebay
