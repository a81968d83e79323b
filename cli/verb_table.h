#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace forebay {

// Each is in verbs/NAME.cc; a new one also needs a row in verb_table.cc. Everything else comes from
// the row and from what the verb declares: --help, the manual, completion, did-you-mean, --watch of
// lists, --wait and --detach of tasks.
std::unique_ptr<Verb> MakeApply();
std::unique_ptr<Verb> MakeBackup();
std::unique_ptr<Verb> MakeCheck();
std::unique_ptr<Verb> MakeCompletion();
std::unique_ptr<Verb> MakeEvict();
std::unique_ptr<Verb> MakeExplain();
std::unique_ptr<Verb> MakeHint();
std::unique_ptr<Verb> MakeExport();
std::unique_ptr<Verb> MakeInit();
std::unique_ptr<Verb> MakeJoin();
std::unique_ptr<Verb> MakeLimit();
std::unique_ptr<Verb> MakeLink();
std::unique_ptr<Verb> MakeLinks();
std::unique_ptr<Verb> MakeLs();
std::unique_ptr<Verb> MakeMounts();
std::unique_ptr<Verb> MakeNode();
std::unique_ptr<Verb> MakeNodes();
std::unique_ptr<Verb> MakeRefresh();
std::unique_ptr<Verb> MakePreload();
std::unique_ptr<Verb> MakePause();
std::unique_ptr<Verb> MakePin();
std::unique_ptr<Verb> MakePins();
std::unique_ptr<Verb> MakeQuota();
std::unique_ptr<Verb> MakePriority();
std::unique_ptr<Verb> MakeReplicas();
std::unique_ptr<Verb> MakeRestore();
std::unique_ptr<Verb> MakeResume();
std::unique_ptr<Verb> MakeStats();
std::unique_ptr<Verb> MakeStatus();
std::unique_ptr<Verb> MakeTask();
std::unique_ptr<Verb> MakeTasks();
std::unique_ptr<Verb> MakeToken();
std::unique_ptr<Verb> MakeMember();
std::unique_ptr<Verb> MakeUnlink();
std::unique_ptr<Verb> MakeUnpin();
std::unique_ptr<Verb> MakeVersion();

/// All verbs, in the order of --help.
const std::vector<VerbRow>& VerbTable();

/// By its name or an alias; nullptr when there is none.
const VerbRow* FindVerb(std::string_view name);

/// All names and aliases.
std::vector<std::string> VerbNames();

}  // namespace forebay
