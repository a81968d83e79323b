#include "cli/man/pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/common_options.h"
#include "cli/help.h"
#include "cli/man/roff.h"
#include "cli/verb_table.h"
#include "common/base/config_text.h"
#include "common/config/programs.h"
#include "common/config/sections.h"
#include "common/config/trust_config.h"

namespace forebay {
namespace {

constexpr const char* kConfigText =
    "One file serves all programs of a machine; each reads its own sections and checks the others. "
    "Sizes read 1.5TiB or 200GB, times 30s or 2h, rates 100MB/s. Unknown keys are errors that name "
    "the nearest known one, and a wrong file lists all its faults at once.";

void Name(Roff& page, std::string_view name, std::string_view what) {
  page.Section("name");
  page.Paragraph(fmt::format("{} - {}", name, what));
}

void SeeAlso(Roff& page, std::string_view self) {
  page.Section("see also");
  std::string others;
  for (const char* each : {"forebay(1)", "forebay.toml(5)", "forebay-coordinator(8)",
                           "forebay-mount(8)", "forebay-node(8)"}) {
    if (std::string_view(each).substr(0, std::string_view(each).find('(')) == self) continue;
    others += fmt::format("{}`{}`", others.empty() ? "" : ", ", each);
  }
  page.Paragraph(others);
}

/// A phrase of a table as a sentence.
std::string Sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') {
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  }
  return text + ".";
}

void Items(Roff& page, const Options& options) {
  for (const Option& option : options.all()) {
    std::string tag = option.name;
    if (!option.short_name.empty()) tag = option.short_name + ", " + tag;
    if (!option.value.empty()) tag += " " + option.value;
    page.Item(tag, option.help);
  }
}

void VerbSections(Roff& page) {
  page.Section("verbs");
  for (const VerbRow& row : VerbTable()) {
    const std::unique_ptr<Verb> verb = row.make();
    CommandLine line;
    const Options options = VerbOptions(row, *verb, line);
    page.Subsection(Synopsis(row, options));
    page.Paragraph(Sentence(row.summary));
    if (!row.aliases.empty()) {
      page.Paragraph(fmt::format("Also called `{}`.", fmt::join(row.aliases, "`, `")));
    }
    Items(page, options);
  }
}

void Surroundings(Roff& page) {
  page.Section("environment");
  page.Item("FOREBAY_COORDINATOR", "Where the coordinator is, when --coordinator does not say.");
  page.Item("NO_COLOR",
            "When it is set to anything, output has no colours. They are only used on a terminal.");
  page.Item("TERM",
            "When it is \"dumb\" or not set, there are neither colours nor a progress bar.");
  page.Section("files");
  page.Item("/run/forebay/, $XDG_RUNTIME_DIR/forebay/",
            "The secret by which the programs of one user know one another.");
}

ManPage CliPage() {
  Roff page("forebay", 1);
  Name(page, "forebay", "administers a read cache between S3 and training jobs");
  page.Section("synopsis");
  page.Command("forebay [OPTIONS] VERB ...");
  page.Section("description");
  page.Paragraph(
      "`forebay` asks the coordinator of a cluster. Results go to standard output, progress, "
      "questions and errors to standard error. Every verb can be repeated: what is already so is "
      "done.");
  page.Paragraph(kTargetText);
  page.Paragraph(
      "Verbs that take long wait for their task and show how far it is: one line on a terminal, a "
      "line each 10 s elsewhere, a JSON line each second with `-o json`. Ctrl-C ends the wait and "
      "not the task, and says how to come back to it. `--detach` does not wait at all. Lists take "
      "`--watch`.");
  VerbSections(page);
  page.Section("options");
  page.Paragraph("Before or after the verb:");
  CommandLine line;
  OutputFormat output = OutputFormat::kTable;
  Items(page, GlobalOptions(line, output));
  page.Section("exit status");
  for (const ExitText& exit : kExitTexts) {
    page.Item(std::to_string(exit.code), exit.meaning);
  }
  Surroundings(page);
  page.Section("examples");
  page.Command("forebay link s3://my-bucket/train/ --as train");
  page.Command("forebay-mount train /mnt/train");
  page.Command("forebay stats --watch 2s");
  page.Command("source <(forebay completion bash)");
  SeeAlso(page, "forebay");
  return {"man1/forebay.1", page.text()};
}

/// As `--help` writes it.
std::string FlagTag(const ConfigOption& option) {
  std::string tag =
      option.short_flag.empty() ? option.flag : option.short_flag + ", " + option.flag;
  if (!option.value.is_switch && !option.positional) tag += " " + option.value.metavar;
  return tag;
}

std::string Facts(const ConfigOption& option) {
  std::string facts = option.required ? "Required." : "Default: " + option.default_text + ".";
  if (option.value.is_list) facts += " May be repeated.";
  return facts;
}

bool Reads(const ProgramText& program, std::string_view section) {
  return std::ranges::find(program.sections, section) != program.sections.end();
}

std::string OnHangUp(const ProgramText& program) {
  std::string again = "the certificates";
  if (Reads(program, "s3")) again = "the S3 credentials and " + again;
  if (Reads(program, "node")) again = "the sizes of `cache_dir`, " + again;
  return "SIGHUP reopens the log, and reads " + again + " anew.";
}

void DaemonFiles(Roff& page, const ProgramText& program) {
  const bool is_node = Reads(program, "node");
  page.Section("files");
  page.Item("/etc/forebay/forebay.toml", "The configuration, `forebay.toml(5)`.");
  page.Item(std::string(kDefaultTrustDir) + "/", "The certificates of this machine.");
  if (is_node) {
    page.Item(std::string(kNodeTrustDir) + "/",
              "Instead of that, where it is there: of the Debian packages' node.");
  }
  page.Item("/run/forebay/, $XDG_RUNTIME_DIR/forebay/",
            "The secret by which the programs of one user know one another, and their sockets.");
  if (!Reads(program, "coordinator"))
    page.Item("/run/forebay-node/", "Those of the Debian packages' node.");
}

ManPage DaemonPage(const ProgramText& program) {
  Roff page(program.name, 8);
  std::string what(program.summary.substr(0, program.summary.find_first_of(".;")));
  what.front() = static_cast<char>(what.front() - 'A' + 'a');
  Name(page, program.name, what);
  AllConfigs all;
  std::vector<ConfigSection> own;
  for (ConfigSection& section : all.Sections()) {
    if (Reads(program, section.name)) own.push_back(std::move(section));
  }
  std::string arguments;
  for (const ConfigOption& option : own.front().options) {
    if (option.positional) arguments += " " + option.flag;
    if (option.required && !option.positional) {
      arguments += fmt::format(" {} {}", option.flag, option.value.metavar);
    }
  }
  page.Section("synopsis");
  page.Command(fmt::format("{} [OPTIONS]{}", program.name, arguments));
  page.Section("description");
  page.Paragraph(program.summary);
  page.Section("options");
  for (const ConfigSection& section : own) {
    page.Subsection(fmt::format("[{}]", section.name));
    page.Paragraph(section.about);
    for (const ConfigOption& option : section.options) {
      page.Item(FlagTag(option), option.help);
      page.MoreOfItem(Facts(option));
    }
  }
  page.Subsection("General");
  for (const GeneralFlag& flag : kGeneralFlags) page.Item(flag.flag, flag.help);
  page.Paragraph(kPrecedence);
  page.Section("signals");
  page.Paragraph("SIGTERM and SIGINT drain for at most 10 s and exit with 0. " + OnHangUp(program));
  page.Section("exit status");
  page.Paragraph("0 done, 1 failed, 2 wrong usage or configuration.");
  DaemonFiles(page, program);
  SeeAlso(page, program.name);
  return {fmt::format("man8/{}.8", program.name), page.text()};
}

ManPage ConfigPage() {
  Roff page("forebay.toml", 5);
  Name(page, "forebay.toml", "the configuration of the programs of Forebay");
  page.Section("synopsis");
  page.Command("/etc/forebay/forebay.toml");
  page.Section("description");
  page.Paragraph(kConfigText);
  page.Paragraph(kPrecedence);
  AllConfigs all;
  for (const ConfigSection& section : all.Sections()) {
    page.Section(fmt::format("[{}]", section.name));
    page.Paragraph(section.about);
    for (const ConfigOption& option : section.options) {
      page.Item(option.key, option.help);
      page.MoreOfItem(fmt::format("{} {}: `{}`. Environment: `{}`.", Facts(option),
                                  option.positional ? "Argument" : "Flag", FlagTag(option),
                                  option.environment));
    }
  }
  page.Section("examples");
  page.Command("[node]");
  page.Command("cache_dir = [\"/nvme0/forebay=1.5TiB\", \"/nvme1/forebay=1.5TiB\"]");
  SeeAlso(page, "forebay.toml");
  return {"man5/forebay.toml.5", page.text()};
}

}  // namespace

std::vector<ManPage> ManPages() {
  ManPage mount = DaemonPage(kMountProgram);
  // mount(8) calls the program by this name.
  ManPage helper{.file = "man8/mount.forebay.8", .text = mount.text};
  return {
      CliPage(),        ConfigPage(),     DaemonPage(kCoordinatorProgram), DaemonPage(kNodeProgram),
      std::move(mount), std::move(helper)};
}

}  // namespace forebay
