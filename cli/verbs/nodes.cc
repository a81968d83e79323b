#include <boost/json/array.hpp>
#include <ostream>

#include "cli/cluster_stats.h"
#include "cli/json.h"
#include "cli/node_table.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

class NodesVerb final : public Verb {
 public:
  void Declare(Options&) override {}

  Outcome Run(VerbContext& context) override {
    auto stats = AskStats(context.session);
    if (!stats) return std::unexpected(stats.error());
    if (context.console.json()) {
      boost::json::array nodes;
      for (const proto::NodeStats& node : stats->nodes()) nodes.emplace_back(NodeJson(node));
      boost::json::object document = NewDocument();
      document["nodes"] = std::move(nodes);
      PrintDocument(context.console, document);
    } else {
      PrintNodes(context.console, *stats);
    }
    return Exit::kDone;
  }
};

}  // namespace

std::unique_ptr<Verb> MakeNodes() { return std::make_unique<NodesVerb>(); }

}  // namespace forebay
