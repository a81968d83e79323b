#include "cli/completion.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/command_line.h"
#include "cli/common_options.h"
#include "cli/completion_names.h"
#include "cli/text.h"
#include "cli/verb_table.h"

namespace forebay {
namespace {

const Option* FindOption(const Options& options, std::string_view word) {
  const auto found = std::ranges::find_if(options.all(), [&](const Option& option) {
    return !option.positional() && (option.name == word || option.short_name == word);
  });
  return found == options.all().end() ? nullptr : &*found;
}

/// Where the cursor stands in a command line.
class Place {
 public:
  explicit Place(const std::vector<std::string>& words)
      : global_(GlobalOptions(line_, output_)), current_(words.empty() ? "" : words.back()) {
    const std::vector<std::string> before(words.begin(), words.end() - (words.empty() ? 0 : 1));
    const std::size_t verb_at = FindVerbWord(before, global_);
    if (verb_at < before.size()) {
      row_ = FindVerb(before[verb_at]);
      unknown_verb_ = row_ == nullptr;
    }
    if (row_ != nullptr) {
      verb_ = row_->make();
      own_ = VerbOptions(*row_, *verb_, line_);
    }
    Walk(before, verb_at);
  }

  Completions Find(Session& session) const {
    const std::size_t equals = current_.find('=');
    if (current_.starts_with("--") && equals != std::string::npos) {
      const Option* option = Named(current_.substr(0, equals));
      if (option == nullptr || option->value.empty()) return {};
      Completions found = NamesFor(option->value, VerbName(), current_.substr(equals + 1), session);
      // A shell looks for files by the whole word.
      if (found.kind != Completions::Kind::kWords) return {};
      for (Candidate& each : found.words) each.word.insert(0, current_, 0, equals + 1);
      return found;
    }
    if (waiting_ != nullptr) return NamesFor(waiting_->value, VerbName(), current_, session);
    if (current_.starts_with('-')) return Flags();
    if (unknown_verb_) return {};
    if (row_ == nullptr) return Verbs();
    std::size_t skipped = arguments_;
    for (const Option& option : own_.all()) {
      if (!option.positional() || skipped-- > 0) continue;
      const std::string& kind = option.value.empty() ? option.name : option.value;
      return NamesFor(kind == "NAME" ? "LINK" : kind, VerbName(), current_, session);
    }
    return {};
  }

 private:
  /// Counts the arguments that stand before the cursor, and sees whether a flag awaits its value.
  void Walk(const std::vector<std::string>& before, std::size_t verb_at) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Option* taken = std::exchange(waiting_, nullptr);
      if (taken != nullptr || i == verb_at) continue;
      if (!IsFlag(before[i])) {
        ++arguments_;
        continue;
      }
      const Option* option = Named(before[i]);
      if (option != nullptr && !option->value.empty()) waiting_ = option;
    }
  }

  std::string VerbName() const { return row_ == nullptr ? std::string() : row_->name; }

  const Option* Named(std::string_view word) const {
    const Option* option = FindOption(own_, word);
    return option != nullptr ? option : FindOption(global_, word);
  }

  Completions Flags() const {
    Completions found;
    for (const Options* options : {&own_, &global_}) {
      for (const Option& option : options->all()) {
        if (!option.positional()) found.words.push_back({option.name, option.help});
      }
    }
    return found;
  }

  /// An alias is only offered to who has begun to write it.
  Completions Verbs() const {
    Completions found;
    for (const VerbRow& row : VerbTable()) {
      found.words.push_back({row.name, row.summary});
      if (current_.empty()) continue;
      for (const std::string& alias : row.aliases) found.words.push_back({alias, row.summary});
    }
    return found;
  }

  CommandLine line_;
  OutputFormat output_ = OutputFormat::kTable;
  const Options global_;
  const std::string current_;
  const VerbRow* row_ = nullptr;
  bool unknown_verb_ = false;
  std::unique_ptr<Verb> verb_;
  Options own_;
  const Option* waiting_ = nullptr;
  std::size_t arguments_ = 0;
};

/// No line of it could be taken for another, and no terminal obeys it.
bool IsPlain(const std::string& word) {
  return !word.empty() && ValidUtf8(word) == word && std::ranges::none_of(word, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '\x7F';
  });
}

}  // namespace

Completions Complete(const std::vector<std::string>& words, Session& session) {
  const Place place(words);
  Completions found = place.Find(session);
  const std::string current = words.empty() ? "" : words.back();
  std::erase_if(found.words, [&](const Candidate& each) {
    return !each.word.starts_with(current) || !IsPlain(each.word);
  });
  return found;
}

std::string CompletionLines(const Completions& completions) {
  switch (completions.kind) {
    case Completions::Kind::kFiles:
      return ":files\n";
    case Completions::Kind::kFolders:
      return ":folders\n";
    case Completions::Kind::kWords:
      break;
  }
  std::string lines = ":words\n";
  for (const Candidate& each : completions.words) {
    lines += each.word + "\t" + Escaped(each.about) + "\n";
  }
  return lines;
}

}  // namespace forebay
