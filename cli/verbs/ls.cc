#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

constexpr std::uint32_t kPageEntries = 1000;
/// An MD5 in hexadecimal, the most common one.
constexpr std::size_t kEtagWidth = 32;
constexpr std::uint32_t kDirectory = 1;  // ListedEntry.kind

/// Prints page by page: a folder may have millions of entries.
class LsVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("TARGET", "a folder or a file", text_);
    options.Switch("--cached", "show how much of each entry is cached", cached_);
    options.Switch("--hidden", "list the keys that cannot be shown as files, and why", hidden_);
  }

  Outcome Run(VerbContext& context) override {
    if (cached_ && hidden_) {
      return UsageError("--cached and --hidden do not go together: hidden keys are never read");
    }
    std::expected<std::string, Failure> target = ResolveTargetText(text_, context.local);
    if (!target) return std::unexpected(target.error());
    proto::ListTargetRequest request;
    request.mutable_target()->set_text(*target);
    request.set_with_cached(cached_);
    request.set_hidden(hidden_);
    request.set_limit(kPageEntries);
    const bool wide = context.console.wide();
    Table table(Columns(wide));
    for (bool first = true;; first = false) {
      auto page = Ask<proto::ListTargetReply>(context.session, Method::kListTarget, request);
      if (!page) return std::unexpected(page.error());
      if (context.console.json()) {
        PrintJson(context.console, *target, *page, first);
      } else {
        for (const proto::ListedEntry& entry : page->entries()) table.Add(Row(entry, wide));
        // An empty folder prints nothing, as with ls(1).
        if (!table.empty()) table.Print(context.console);
      }
      if (page->next_cursor() == 0) return Exit::kDone;
      request.set_cursor(page->next_cursor());
    }
  }

 private:
  std::vector<Table::Column> Columns(bool wide) const {
    if (hidden_) return {{.heading = "REASON", .min_width = 30}, {.heading = "KEY"}};
    std::vector<Table::Column> columns = {{.heading = "SIZE", .right = true, .min_width = 8},
                                          {.heading = "MODIFIED", .min_width = 20}};
    if (cached_) columns.push_back({.heading = "CACHED", .right = true, .min_width = 7});
    if (wide) columns.push_back({.heading = "ETAG", .min_width = kEtagWidth});
    columns.push_back({.heading = "NAME"});
    return columns;
  }

  std::vector<Cell> Row(const proto::ListedEntry& entry, bool wide) const {
    if (hidden_) return {Cell(entry.reason()), Cell(entry.name())};
    const bool directory = entry.kind() == kDirectory;
    // Only the look at the cache also sums up what is below a folder.
    const bool sized = !directory || cached_;
    std::vector<Cell> row = {Cell(sized ? HumanBytes(entry.size()) : "-"),
                             Cell(directory ? "-" : Rfc3339(entry.mtime_s()))};
    if (cached_) {
      // Behind a silent node there may be more.
      const std::string_view more = entry.unknown_bytes() > 0 ? "?" : "";
      row.emplace_back(
          fmt::format("{}{}", HumanPercent(Ratio(entry.cached_bytes(), entry.size())), more));
    }
    if (wide) row.emplace_back(directory ? "-" : entry.etag());
    row.emplace_back(entry.name() + (directory ? "/" : ""));
    return row;
  }

  boost::json::object EntryJson(const proto::ListedEntry& entry) const {
    boost::json::object row;
    if (hidden_) {
      PutBytes(row, "key", entry.name());
      row["reason"] = entry.reason();
      return row;
    }
    const bool directory = entry.kind() == kDirectory;
    PutBytes(row, "name", entry.name());
    row["kind"] = directory ? "directory" : "file";
    row["bytes"] = directory && !cached_ ? boost::json::value() : boost::json::value(entry.size());
    row["modified"] =
        directory ? boost::json::value() : boost::json::value(Rfc3339(entry.mtime_s()));
    row["etag"] = directory ? boost::json::value() : boost::json::value(ValidUtf8(entry.etag()));
    if (cached_) {
      row["cached_bytes"] = entry.cached_bytes();
      row["unknown_bytes"] = entry.unknown_bytes();
      row["cached_ratio"] = Ratio(entry.cached_bytes(), entry.size());
    }
    return row;
  }

  /// A part of the one document. What a failure in the middle leaves is no valid JSON, so that
  /// nobody takes it for the whole.
  void PrintJson(const Console& console, const std::string& target,
                 const proto::ListTargetReply& page, bool first) const {
    if (first) {
      boost::json::object document = NewDocument();
      PutBytes(document, "target", target);
      document["link"] = page.link();
      std::string text = JsonText(document);
      text.pop_back();
      console.out << text << R"(,"entries":[)";
    }
    for (int i = 0; i < page.entries_size(); ++i) {
      if (!first || i > 0) console.out << ',';
      console.out << JsonText(EntryJson(page.entries(i)));
    }
    if (page.next_cursor() == 0) console.out << "]}\n";
    console.out << std::flush;
  }

  std::string text_;
  bool cached_ = false;
  bool hidden_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeLs() { return std::make_unique<LsVerb>(); }

}  // namespace forebay
