#include <fmt/format.h>

#include <boost/json.hpp>
#include <chrono>
#include <fstream>
#include <iterator>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "cli/wait_for_task.h"
#include "cli/wanted_state.h"

namespace forebay {
namespace {

/// The document on several lines: people keep it under version control.
void PrintLines(std::ostream& out, const boost::json::object& document) {
  out << "{\n  \"schema_version\": " << JsonText(document.at("schema_version"));
  for (const char* list : {"links", "pins"}) {
    const boost::json::array& rows = document.at(list).as_array();
    out << fmt::format(",\n  \"{}\": [", list);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out << (i == 0 ? "\n    " : ",\n    ") << JsonText(rows[i]);
    }
    out << (rows.empty() ? "]" : "\n  ]");
  }
  out << "\n}\n" << std::flush;
}

class ExportVerb final : public Verb {
 public:
  void Declare(Options&) override {}

  Outcome Run(VerbContext& context) override {
    auto document = DescribeState(context.session);
    if (!document) return std::unexpected(document.error());
    if (context.console.json()) {
      PrintDocument(context.console, *document);
    } else {
      PrintLines(context.console.out, *document);
    }
    return Exit::kDone;
  }
};

class ApplyVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Add({.name = "--file",
                 .short_name = "-f",
                 .value = "FILE",
                 .help = "what is to be, as `forebay export` prints it; - reads the input",
                 .required = true,
                 .take = [this](const std::string& text) -> Status {
                   file_ = text;
                   return {};
                 }});
    options.Switch("--dry-run", "show what would change, and change nothing", dry_run_);
  }

  Outcome Run(VerbContext& context) override {
    std::string text;
    if (!Read(context.console, text))
      return UsageError(fmt::format("cannot read '{}'", file_), "name a file, or - for the input");
    const Result<WantedState> wanted = ParseWanted(text);
    if (!wanted) return UsageError(wanted.error().Within(file_).message);
    auto plan = PlanFor(context.session, *wanted);
    if (!plan) return std::unexpected(plan.error());
    if (!plan->conflicts.empty()) {
      std::string all;
      for (const std::string& conflict : plan->conflicts)
        all += (all.empty() ? "" : "; ") + conflict;
      return UsageError(all, "nothing was changed");
    }
    if (dry_run_) {
      Print(context.console, *plan, false);
      return Exit::kDone;
    }
    for (const WantedChange& change : plan->changes) {
      Outcome made = MakeAndWait(context, change);
      if (!made || *made != Exit::kDone) return made;
    }
    Print(context.console, *plan, true);
    return Exit::kDone;
  }

 private:
  bool Read(const Console& console, std::string& text) const {
    std::ifstream file;
    if (file_ != "-") file.open(file_, std::ios::binary);
    std::istream& in = file_ == "-" ? console.in : file;
    if (!in) return false;
    text.assign(std::istreambuf_iterator<char>(in), {});
    return !in.bad();
  }

  /// A pin may be below a link that is new: it must be listed first.
  static Outcome MakeAndWait(VerbContext& context, const WantedChange& change) {
    auto task = Make(context.session, change);
    if (!task) {
      task.error().error = task.error().error.Within(change.text);
      return std::unexpected(task.error());
    }
    if (task->empty()) return Exit::kDone;
    const TaskWait wait{.id = *task,
                        .subject = change.text,
                        .title = {.what = "listing"},
                        .detached = {},
                        .after_failure = "run the command again: what is done stays"};
    return WaitForTask(context, wait, [](const proto::TaskState&) { return Exit::kDone; });
  }

  static boost::json::array Texts(const std::vector<std::string>& all) {
    boost::json::array texts;
    for (const std::string& text : all) texts.emplace_back(ValidUtf8(text));
    return texts;
  }

  static void Print(const Console& console, const WantedPlan& plan, bool made) {
    std::vector<std::string> changes;
    for (const WantedChange& change : plan.changes) changes.push_back(change.text);
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["applied"] = made;
      document["changes"] = Texts(changes);
      document["not_named"] = Texts(plan.unnamed);
      PrintDocument(console, document);
      return;
    }
    for (const std::string& change : changes) console.out << Escaped(change) << '\n';
    for (const std::string& stays : plan.unnamed) {
      console.out << fmt::format("{} is not in the file and stays\n", Escaped(stays));
    }
    if (changes.empty()) {
      console.out << "nothing to change\n";
    } else if (!made) {
      console.out << fmt::format(
          "{} to make; nothing was changed (--dry-run)\n",
          changes.size() == 1 ? "1 change" : fmt::format("{} changes", changes.size()));
    }
    console.out << std::flush;
  }

  std::string file_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeExport() { return std::make_unique<ExportVerb>(); }
std::unique_ptr<Verb> MakeApply() { return std::make_unique<ApplyVerb>(); }

}  // namespace forebay
