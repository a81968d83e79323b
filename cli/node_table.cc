#include "cli/node_table.h"

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/cluster_stats.h"
#include "cli/table.h"
#include "common/base/units.h"
#include "common/model/membership.h"

namespace forebay {
namespace {

/// "up"; "up, slow"; "up, wrong clock"; "out, fenced".
Cell StateOf(const proto::NodeStats& node) {
  const std::uint32_t state = node.info().state();
  std::string text(NodeStateName(state));
  const std::string_view why = OutBecause(node);
  if (!why.empty()) text.append(", ").append(why);
  const bool slow = node.slow_mounts() > 0 && state == static_cast<std::uint32_t>(NodeState::kUp);
  const bool wrong_clock = node.clock_wrong_s() > 0;
  if (slow) text.append(", slow");
  if (wrong_clock) text.append(", wrong clock");
  return Cell(text, slow || wrong_clock ? Tone::kWarning : NodeTone(state));
}

}  // namespace

void PrintNodes(const Console& console, const proto::StatsReply& stats) {
  if (stats.nodes().empty()) {
    console.out << "no nodes yet: start forebay-node with --coordinator HOST:PORT\n" << std::flush;
    return;
  }
  std::vector<Table::Column> columns = {{.heading = "ID"},
                                        {.heading = "ADDRESS"},
                                        {.heading = "STATE"},
                                        {.heading = "USED", .right = true},
                                        {.heading = "CAPACITY", .right = true},
                                        {.heading = "BLOCKS", .right = true},
                                        {.heading = "HITS", .right = true},
                                        {.heading = "MISSES", .right = true},
                                        {.heading = "S3-GETS", .right = true}};
  if (console.wide()) {
    columns.push_back({.heading = "S3-BYTES", .right = true});
    columns.push_back({.heading = "PEER-FILLS", .right = true});
    columns.push_back({.heading = "CHECKSUM-FAILURES", .right = true});
    columns.push_back({.heading = "SET-ASIDE", .right = true});
    columns.push_back({.heading = "DISKS", .right = true});
    columns.push_back({.heading = "ZONE"});
  }
  Table table(std::move(columns));
  for (const proto::NodeStats& node : stats.nodes()) {
    const DiskSpace space = SpaceOf(node);
    std::vector<Cell> row = {Cell(node.info().id()),
                             Cell(node.info().address()),
                             StateOf(node),
                             Cell(HumanBytes(space.used_bytes)),
                             Cell(HumanBytes(space.capacity_bytes)),
                             Cell(HumanCount(node.blocks())),
                             Cell(HumanCount(node.total().hits())),
                             Cell(HumanCount(node.total().misses())),
                             Cell(HumanCount(node.total().s3_gets()))};
    if (console.wide()) {
      row.emplace_back(HumanBytes(node.total().s3_bytes()));
      row.emplace_back(HumanCount(node.total().peer_fills()));
      row.emplace_back(HumanCount(node.checksum_failures()),
                       node.checksum_failures() == 0 ? Tone::kPlain : Tone::kBad);
      row.emplace_back(HumanCount(node.blocks_set_aside()),
                       node.blocks_set_aside() == 0 ? Tone::kPlain : Tone::kBad);
      row.emplace_back(std::to_string(node.disks().size()));
      row.emplace_back(node.info().zone().empty() ? "-" : node.info().zone());
    }
    table.Add(std::move(row));
  }
  table.Print(console);
}

}  // namespace forebay
