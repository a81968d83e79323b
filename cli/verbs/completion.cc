#include "cli/completion.h"

#include <ostream>

#include "cli/json.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

class CompletionVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Choice("SHELL", {"bash", "zsh", "fish"}, "the shell that shall complete", shell_);
  }

  Outcome Run(VerbContext& context) override {
    const std::string script = CompletionScript(shell_);
    if (context.console.json()) {
      boost::json::object document = NewDocument();
      document["shell"] = shell_;
      document["script"] = script;
      PrintDocument(context.console, document);
    } else {
      context.console.out << script << std::flush;
    }
    return Exit::kDone;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Verb> MakeCompletion() { return std::make_unique<CompletionVerb>(); }

}  // namespace forebay
