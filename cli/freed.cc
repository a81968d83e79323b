#include "cli/freed.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/table.h"
#include "common/base/units.h"

namespace forebay {

Freed SumOf(const NodesEvicted& nodes) {
  Freed sum;
  int failed = 0;
  for (const proto::NodeEvicted& node : nodes) {
    sum.blocks += node.blocks();
    sum.bytes += node.bytes();
    sum.pinned_blocks += node.pinned_blocks();
    sum.pinned_bytes += node.pinned_bytes();
    if (!node.error().empty()) ++failed;
  }
  if (failed > 0) sum.exit = failed == nodes.size() ? Exit::kFailed : Exit::kPartly;
  return sum;
}

void PrintFreed(const Console& console, const NodesEvicted& nodes, bool dry_run) {
  const Freed sum = SumOf(nodes);
  Table table({{.heading = "NODE"},
               {.heading = "BLOCKS", .right = true},
               {.heading = "FREED", .right = true},
               {.heading = "PROBLEM"}});
  for (const proto::NodeEvicted& node : nodes) {
    table.Add({Cell(node.node_id()), Cell(HumanCount(node.blocks())),
               Cell(HumanBytes(node.bytes())), Cell(node.error(), Tone::kBad)});
  }
  table.Print(console);
  console.out << fmt::format("{} {} in {} blocks\n", dry_run ? "would free" : "freed",
                             HumanBytes(sum.bytes), HumanCount(sum.blocks));
  if (sum.pinned_blocks > 0) {
    console.out << fmt::format("{} in {} blocks stay: they are pinned, `forebay unpin` ends that\n",
                               HumanBytes(sum.pinned_bytes), HumanCount(sum.pinned_blocks));
  }
  console.out << std::flush;
}

}  // namespace forebay
