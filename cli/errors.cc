#include "cli/errors.h"

#include <boost/json/object.hpp>
#include <ostream>

#include "cli/json.h"
#include "cli/text.h"

namespace forebay {

std::string_view HintFor(Code code) {
  switch (code) {
    case Code::kNotFound:
      return "`forebay links` shows what is linked";
    case Code::kStale:
      return "it changed meanwhile: run the command again";
    case Code::kUnavailable:
      return "run the command again; `forebay status` shows what is wrong";
    case Code::kOverloaded:
      return "wait a little and run the command again";
    case Code::kTimeout:
      return "whether it was done is unknown: run the command again, with a longer --timeout";
    case Code::kCorrupt:
      return "run the command again; if it stays, look into the coordinator's log";
    case Code::kDenied:
      return "run it as the user who runs the coordinator, or correct the credentials it names";
    case Code::kInvalid:
      return "see `forebay VERB --help`";
    case Code::kInternal:
      return "look into the coordinator's log";
  }
  return "";
}

void PrintFailure(const Console& console, const Failure& failure) {
  if (console.json()) {
    const std::string_view hint = failure.hint.empty() ? HintFor(failure.error.code) : failure.hint;
    boost::json::object error;
    error["code"] = CodeName(failure.error.code);
    error["message"] = ValidUtf8(failure.error.message);
    error["hint"] = ValidUtf8(hint);
    boost::json::object line;
    line["error"] = std::move(error);
    console.err << JsonText(line) << '\n' << std::flush;
    return;
  }
  console.err << "forebay: " << EscapedSentence(failure.error.message);
  if (!failure.hint.empty()) console.err << "; " << EscapedSentence(failure.hint);
  console.err << '\n' << std::flush;
}

}  // namespace forebay
