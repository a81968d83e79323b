#include "cli/completion_names.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/verb_table.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// TAB must answer at once: of a folder that is larger only the first entries are offered.
constexpr std::uint32_t kMostEntries = 1000;
constexpr std::uint32_t kDirectory = 1;  // ListedEntry.kind

std::string TextOf(const boost::json::value& row, std::string_view key) {
  const boost::json::object* fields = row.if_object();
  const boost::json::value* field = fields == nullptr ? nullptr : fields->if_contains(key);
  const boost::json::string* text = field == nullptr ? nullptr : field->if_string();
  return text == nullptr ? std::string() : std::string(text->begin(), text->end());
}

/// What the verb prints with -o json; empty when it fails.
boost::json::object Printed(std::string_view verb_name, Session& session) {
  const VerbRow* row = FindVerb(verb_name);
  if (row == nullptr) return {};
  std::ostringstream printed;
  std::ostringstream unheard;
  std::istringstream nothing;
  Console console{.out = printed, .err = unheard, .in = nothing, .format = OutputFormat::kJson};
  VerbContext context{.session = session, .console = console, .local = {}};
  const std::unique_ptr<Verb> verb = row->make();
  if (!verb->Run(context)) return {};
  boost::system::error_code failed;
  const boost::json::value document = boost::json::parse(printed.str(), failed);
  const boost::json::object* members = failed ? nullptr : document.if_object();
  return members == nullptr ? boost::json::object() : *members;
}

/// The rows of the array `list`, by two of their members.
std::vector<Candidate> RowsOf(const boost::json::object& document, std::string_view list,
                              std::string_view name, std::string_view about) {
  const boost::json::value* rows = document.if_contains(list);
  if (rows == nullptr || !rows->is_array()) return {};
  std::vector<Candidate> found;
  for (const boost::json::value& each : rows->get_array()) {
    found.push_back({TextOf(each, name), TextOf(each, about)});
  }
  return found;
}

/// What the verb `list` prints under its own name.
std::vector<Candidate> Listed(std::string_view list, std::string_view name, std::string_view about,
                              Session& session) {
  return RowsOf(Printed(list, session), list, name, about);
}

/// Sets, too.
std::vector<Candidate> Links(Session& session) {
  const boost::json::object document = Printed("links", session);
  std::vector<Candidate> found = RowsOf(document, "links", "name", "source");
  for (Candidate& set : RowsOf(document, "sets", "name", "state")) found.push_back(std::move(set));
  return found;
}

/// What lies in the folder `parent`, a NAME/ or NAME/sub/path/.
std::vector<Candidate> Below(const std::string& parent, Session& session) {
  proto::ListTargetRequest request;
  request.mutable_target()->set_text(parent);
  request.set_limit(kMostEntries);
  const auto page = Ask<proto::ListTargetReply>(session, Method::kListTarget, request);
  if (!page) return {};
  std::vector<Candidate> found;
  for (const proto::ListedEntry& entry : page->entries()) {
    found.push_back({parent + entry.name() + (entry.kind() == kDirectory ? "/" : ""), ""});
  }
  return found;
}

Completions Targets(const std::string& begun, Session& session) {
  if (begun.starts_with('/') || begun.starts_with('.') || begun.starts_with('~')) {
    return {.kind = Completions::Kind::kFiles, .words = {}};
  }
  const std::size_t slash = begun.rfind('/');
  if (begun.starts_with("s3://")) return {};
  if (slash != std::string::npos) {
    return {.words = Below(begun.substr(0, slash + 1), session)};
  }
  std::vector<Candidate> found = Links(session);
  const bool whole = std::ranges::find(found, begun, &Candidate::word) != found.end();
  if (whole) found.push_back({begun + "/", ""});
  return {.words = std::move(found)};
}

Completions Words(const std::string& value) {
  Completions found;
  std::istringstream words(value);
  std::string word;
  while (std::getline(words, word, '|')) {
    // In "immutable|on-demand|TIME" the last one stands for others.
    if (std::ranges::none_of(word, [](char c) { return c >= 'A' && c <= 'Z'; })) {
      found.words.push_back({word, ""});
    }
  }
  return found;
}

}  // namespace

Completions NamesFor(const std::string& value, const std::string& verb, const std::string& begun,
                     Session& session) {
  if (value == "TARGET") return Targets(begun, session);
  if (value == "LINK") return {.words = Links(session)};
  if (value == "NODE" || (value == "ID" && verb.starts_with("node"))) {
    return {.words = Listed("nodes", "id", "address", session)};
  }
  if (value == "TASK" || (value == "ID" && verb.starts_with("task"))) {
    return {.words = Listed("tasks", "id", "target", session)};
  }
  if (value == "DIR") return {.kind = Completions::Kind::kFolders, .words = {}};
  if (value.starts_with("FILE") || value == "PATH" || value == "LIST") {
    return {.kind = Completions::Kind::kFiles, .words = {}};
  }
  if (value.find('|') != std::string::npos) return Words(value);
  return {};
}

}  // namespace forebay
