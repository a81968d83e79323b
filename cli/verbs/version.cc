#include "common/base/version.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/json.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

class VersionVerb final : public Verb {
 public:
  void Declare(Options&) override {}

  Outcome Run(VerbContext& context) override {
    if (context.console.json()) {
      boost::json::object document = NewDocument();
      document["version"] = Version();
      document["commit"] = Commit();
      PrintDocument(context.console, document);
    } else {
      context.console.out << fmt::format("forebay {} ({})\n", Version(), Commit()) << std::flush;
    }
    return Exit::kDone;
  }
};

}  // namespace

std::unique_ptr<Verb> MakeVersion() { return std::make_unique<VersionVerb>(); }

}  // namespace forebay
