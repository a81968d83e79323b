#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace forebay {

// Each is in verbs/NAME.cc; a new one also needs a row in verb_table.cc.
std::unique_ptr<Verb> MakeCheck();
std::unique_ptr<Verb> MakeEvict();
std::unique_ptr<Verb> MakeLink();
std::unique_ptr<Verb> MakeLinks();
std::unique_ptr<Verb> MakeLs();
std::unique_ptr<Verb> MakeNodes();
std::unique_ptr<Verb> MakeStats();
std::unique_ptr<Verb> MakeStatus();
std::unique_ptr<Verb> MakeUnlink();
std::unique_ptr<Verb> MakeVersion();

/// All verbs, in the order of --help.
const std::vector<VerbRow>& VerbTable();

/// nullptr when there is none of this name.
const VerbRow* FindVerb(std::string_view name);

}  // namespace forebay
