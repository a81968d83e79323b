#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

// What a shell offers when TAB is pressed. The scripts of `forebay completion` run
// `forebay __complete WORD…` and print what it answers, so that they know nothing themselves.
namespace forebay {

/// Comes in place of a verb, with the words up to the cursor behind it.
inline constexpr const char* kCompleteWord = "__complete";

struct Candidate {
  std::string word;   ///< One that ends with '/' or '=' goes on.
  std::string about;  ///< "" or one line.
};

struct Completions {
  enum class Kind : std::uint8_t { kWords, kFiles, kFolders };
  Kind kind = Kind::kWords;  ///< kFiles and kFolders: the shell looks itself.
  std::vector<Candidate> words;
};

/// Completes the last of `words`, which come after the program's name. Names of links, nodes and
/// tasks are asked of `session`; nothing comes of what cannot be asked.
Completions Complete(const std::vector<std::string>& words, Session& session);

/// Lines for the scripts: ":words", ":files" or ":folders", then "word<TAB>about" each. Words that
/// a shell might take for more than a word on one line are left out.
std::string CompletionLines(const Completions& completions);

/// The script for bash, zsh or fish.
std::string CompletionScript(const std::string& shell);

}  // namespace forebay
