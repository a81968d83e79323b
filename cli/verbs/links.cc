#include <boost/json/array.hpp>
#include <ostream>

#include "cli/cluster_stats.h"
#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "common/model/link.h"

namespace forebay {
namespace {

class LinksVerb final : public Verb {
 public:
  void Declare(Options&) override {}

  Outcome Run(VerbContext& context) override {
    auto stats = AskStats(context.session);
    if (!stats) return std::unexpected(stats.error());
    if (context.console.json()) {
      PrintJson(context.console, *stats);
    } else if (stats->links().empty()) {
      context.console.out << "no links yet: `forebay link s3://bucket/prefix` makes one\n"
                          << std::flush;
    } else {
      PrintTable(context.console, *stats);
    }
    return Exit::kDone;
  }

 private:
  static void PrintJson(const Console& console, const proto::StatsReply& stats) {
    boost::json::array links;
    for (const proto::LinkStats& link : stats.links()) {
      const proto::GenerationInfo& generation = link.generation();
      boost::json::object row;
      row["name"] = link.name();
      PutBytes(row, "source", link.source());
      row["include"] = Globs(link.includes());
      row["exclude"] = Globs(link.excludes());
      row["manifest"] = link.manifest().empty() ? boost::json::value()
                                                : boost::json::value(ValidUtf8(link.manifest()));
      row["posix_metadata"] = link.posix_metadata();
      row["objects"] = generation.objects();
      row["bytes"] = generation.bytes();
      row["cached_bytes"] = link.total().cached_bytes();
      row["cached_ratio"] = CachedRatio(link);
      row["generation"] = generation.generation();
      row["digest"] = generation.listing_digest().empty()
                          ? boost::json::value()
                          : boost::json::value(generation.listing_digest());
      row["listed"] = link.has_generation()
                          ? boost::json::value(Rfc3339(generation.listed_unix_s()))
                          : boost::json::value();
      row["hidden_keys"] = generation.hidden_keys();
      row["pinned_bytes"] = link.pinned_bytes();
      row["quota_bytes"] =
          link.quota_bytes() == 0 ? boost::json::value() : boost::json::value(link.quota_bytes());
      row["priority"] = LinkPriorityName(LinkPriorityOf(link.priority()));
      row["state"] = LinkStateName(link.state());
      links.emplace_back(std::move(row));
    }
    boost::json::object document = NewDocument();
    document["links"] = std::move(links);
    PrintDocument(console, document);
  }

  template <typename Repeated>
  static boost::json::array Globs(const Repeated& globs) {
    boost::json::array array;
    for (const std::string& glob : globs) array.emplace_back(ValidUtf8(glob));
    return array;
  }

  static double CachedRatio(const proto::LinkStats& link) {
    if (!link.has_generation()) return 0;
    return Ratio(link.total().cached_bytes(), link.generation().bytes());
  }

  static void PrintTable(const Console& console, const proto::StatsReply& stats) {
    std::vector<Table::Column> columns = {{.heading = "NAME"},
                                          {.heading = "SOURCE"},
                                          {.heading = "OBJECTS", .right = true},
                                          {.heading = "BYTES", .right = true},
                                          {.heading = "CACHED", .right = true},
                                          {.heading = "GENERATION", .right = true},
                                          {.heading = "STATE"}};
    if (console.wide()) {
      columns.push_back({.heading = "CACHED-BYTES", .right = true});
      columns.push_back({.heading = "PINNED", .right = true});
      columns.push_back({.heading = "QUOTA", .right = true});
      columns.push_back({.heading = "PRIORITY"});
      columns.push_back({.heading = "HIDDEN-KEYS", .right = true});
      columns.push_back({.heading = "LISTED"});
    }
    Table table(std::move(columns));
    for (const proto::LinkStats& link : stats.links()) {
      const proto::GenerationInfo& generation = link.generation();
      const bool known = link.has_generation();
      std::vector<Cell> row = {
          Cell(link.name()),
          Cell(link.source()),
          Cell(known ? HumanCount(generation.objects()) : "-"),
          Cell(known ? HumanBytes(generation.bytes()) : "-"),
          Cell(known ? HumanPercent(CachedRatio(link)) : "-"),
          Cell(known ? std::to_string(generation.generation()) : "-"),
          Cell(std::string(LinkStateName(link.state())), LinkTone(link.state()))};
      if (console.wide()) {
        row.emplace_back(HumanBytes(link.total().cached_bytes()));
        row.emplace_back(HumanBytes(link.pinned_bytes()));
        row.emplace_back(link.quota_bytes() == 0 ? "-" : HumanBytes(link.quota_bytes()));
        row.emplace_back(std::string(LinkPriorityName(LinkPriorityOf(link.priority()))));
        row.emplace_back(HumanCount(generation.hidden_keys()));
        row.emplace_back(known ? Rfc3339(generation.listed_unix_s()) : "-");
      }
      table.Add(std::move(row));
    }
    table.Print(console);
  }
};

}  // namespace

std::unique_ptr<Verb> MakeLinks() { return std::make_unique<LinksVerb>(); }

}  // namespace forebay
