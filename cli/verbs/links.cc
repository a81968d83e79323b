#include <algorithm>
#include <boost/json/array.hpp>
#include <map>
#include <ostream>

#include "cli/cluster_stats.h"
#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "common/model/link.h"
#include "common/model/link_set.h"

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
      row["sharing_domain"] = link.sharing_domain().empty()
                                  ? boost::json::value()
                                  : boost::json::value(link.sharing_domain());
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
      row["replicas"] = CopiesOf(link);
      row["copies_missing"] = link.copies_looked_unix_s() == 0
                                  ? boost::json::value()
                                  : boost::json::value(link.copies_missing());
      row["state"] = LinkStateName(link.state());
      row["set"] = link.set().empty() ? boost::json::value() : boost::json::value(link.set());
      links.emplace_back(std::move(row));
    }
    boost::json::object document = NewDocument();
    document["links"] = std::move(links);
    document["sets"] = SetsJson(SetsOf(stats));
    PrintDocument(console, document);
  }

  /// A set, and what its parts have together.
  struct LinkSet {
    proto::LinkStats sum;
    std::vector<const proto::LinkStats*> parts;
  };

  static std::map<std::string, LinkSet> SetsOf(const proto::StatsReply& stats) {
    std::map<std::string, LinkSet> sets;
    for (const proto::LinkStats& link : stats.links()) {
      if (link.set().empty()) continue;
      LinkSet& set = sets[link.set()];
      proto::LinkStats& sum = set.sum;
      sum.set_name(link.set());
      proto::GenerationInfo& all = *sum.mutable_generation();
      all.set_objects(all.objects() + link.generation().objects());
      all.set_bytes(all.bytes() + link.generation().bytes());
      proto::LinkCounters& total = *sum.mutable_total();
      total.set_cached_bytes(total.cached_bytes() + link.total().cached_bytes());
      sum.set_pinned_bytes(sum.pinned_bytes() + link.pinned_bytes());
      const bool is_first = set.parts.empty();
      if (is_first) sum.set_replicas(link.replicas());
      if (is_first || !link.has_generation()) sum.set_state(link.state());
      set.parts.push_back(&link);
    }
    return sets;
  }

  static boost::json::array SetsJson(const std::map<std::string, LinkSet>& sets) {
    boost::json::array rows;
    for (const auto& [name, set] : sets) {
      boost::json::array parts;
      for (const proto::LinkStats* link : set.parts) {
        const std::string& digest = link->generation().listing_digest();
        boost::json::object part;
        part["part"] = PartOf(name, link->name());
        part["link"] = link->name();
        part["digest"] = digest.empty() ? boost::json::value() : boost::json::value(digest);
        parts.emplace_back(std::move(part));
      }
      boost::json::object row;
      row["name"] = name;
      row["parts"] = std::move(parts);
      row["objects"] = set.sum.generation().objects();
      row["bytes"] = set.sum.generation().bytes();
      row["cached_bytes"] = set.sum.total().cached_bytes();
      row["cached_ratio"] = CachedRatio(set.sum);
      row["state"] = LinkStateName(set.sum.state());
      rows.emplace_back(std::move(row));
    }
    return rows;
  }

  static std::vector<Cell> SumRow(const proto::LinkStats& sum, std::size_t parts,
                                  const Console& console) {
    std::vector<Cell> row = {Cell(sum.name()),
                             Cell("set of " + std::to_string(parts)),
                             Cell(HumanCount(sum.generation().objects())),
                             Cell(HumanBytes(sum.generation().bytes())),
                             Cell(HumanPercent(CachedRatio(sum))),
                             Cell("-"),
                             Cell(std::string(LinkStateName(sum.state())), LinkTone(sum.state()))};
    if (console.wide()) {
      row.emplace_back(HumanBytes(sum.total().cached_bytes()));
      row.emplace_back(HumanBytes(sum.pinned_bytes()));
      for (int i = 0; i < 5; ++i) row.emplace_back("-");
    }
    return row;
  }

  template <typename Repeated>
  static boost::json::array Globs(const Repeated& globs) {
    boost::json::array array;
    for (const std::string& glob : globs) array.emplace_back(ValidUtf8(glob));
    return array;
  }

  /// What is there of copies that are missing, beside their number.
  static std::string CopiesText(const proto::LinkStats& link) {
    if (link.copies_missing() == 0) return std::to_string(CopiesOf(link));
    return std::to_string(CopiesOf(link)) + ", " + HumanCount(link.copies_missing()) + " missing";
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
      columns.push_back({.heading = "REPLICAS"});
      columns.push_back({.heading = "HIDDEN-KEYS", .right = true});
      columns.push_back({.heading = "LISTED"});
    }
    Table table(std::move(columns));
    std::map<std::string, LinkSet> sets = SetsOf(stats);
    for (const proto::LinkStats& link : stats.links()) {
      // The sum of a set stands above the first of its parts.
      const auto set = sets.extract(link.set());
      if (!set.empty()) table.Add(SumRow(set.mapped().sum, set.mapped().parts.size(), console));
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
        row.emplace_back(CopiesText(link));
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
