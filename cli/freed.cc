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
    if (!node.error().empty()) ++failed;
  }
  if (failed > 0) sum.exit = failed == nodes.size() ? Exit::kFailed : Exit::kPartly;
  return sum;
}

void PrintFreed(const Console& console, const NodesEvicted& nodes) {
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
  console.out << fmt::format("freed {} in {} blocks\n", HumanBytes(sum.bytes),
                             HumanCount(sum.blocks))
              << std::flush;
}

}  // namespace forebay
