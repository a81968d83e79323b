#include "cli/verb_table.h"

#include <algorithm>

namespace forebay {

const std::vector<VerbRow>& VerbTable() {
  static const std::vector<VerbRow> table = {
      {"status", "is the cluster healthy, and what to do when it is not", MakeStatus,
       VerbKind::kList},
      {"link", "makes an S3 prefix mountable under a name", MakeLink, VerbKind::kTask},
      {"links", "what is linked, and how much of it is cached", MakeLinks, VerbKind::kList},
      {"refresh", "looks in S3 again: what is new, gone or changed", MakeRefresh, VerbKind::kTask},
      {"unlink", "takes a link away", MakeUnlink},
      {"preload",
       "fills the cache with a target, in the background",
       MakePreload,
       VerbKind::kTask,
       {"warmup", "prefetch"}},
      {"tasks", "what runs in the background, and how far it is", MakeTasks, VerbKind::kList},
      {"task", "shows, cancels, tries again or waits for one of them", MakeTask, VerbKind::kTask},
      {"ls", "lists a folder of a link, without a mount", MakeLs, VerbKind::kList},
      {"check", "how much of a target is cached", MakeCheck, VerbKind::kList},
      {"evict", "frees what the nodes hold of a target", MakeEvict, VerbKind::kPlain, {"release"}},
      {"stats", "counters of links, nodes and jobs", MakeStats, VerbKind::kList},
      {"explain", "why a file or a job is slow, and what would help", MakeExplain},
      {"nodes", "the cache nodes and what they hold", MakeNodes, VerbKind::kList},
      {"node", "drains, removes, fences or takes back one of them", MakeNode, VerbKind::kTask},
      {"mounts", "the mounts of the cluster, and what each of them shows", MakeMounts,
       VerbKind::kList},
      {"completion", "a script that makes a shell complete what you type", MakeCompletion},
      {"pin", "keeps what is cached of a target, and what will be", MakePin},
      {"unpin", "ends a pin", MakeUnpin},
      {"pins", "what is pinned, and how much of it is cached", MakePins, VerbKind::kList},
      {"quota", "bounds what is cached of a link", MakeQuota},
      {"priority", "which link's blocks a full cache keeps before others'", MakePriority},
      {"replicas", "at how many nodes each cached block of a link is kept", MakeReplicas},
      {"limit", "bounds what the nodes ask of S3", MakeLimit},
      {"pause", "nodes ask S3 for nothing: pause fills", MakePause},
      {"resume", "ends a pause: resume fills", MakeResume},
      {"hint", "says in which order a job will read, so that it waits for nothing", MakeHint},
      {"export", "writes down what is linked and pinned, for apply", MakeExport},
      {"apply", "links and pins what a file says", MakeApply},
      {"backup", "keeps the coordinator's state in a file", MakeBackup},
      {"restore", "makes a new coordinator go on from a backup", MakeRestore},
      {"init", "makes a cluster: its certificates, and a token for other machines", MakeInit},
      {"join", "makes this machine a member of a cluster", MakeJoin},
      {"token", "lets machines join: create, list or revoke tokens", MakeToken},
      {"member", "who belongs to the cluster: list them, or revoke one's certificate", MakeMember,
       VerbKind::kPlain},
      {"version", "the version of this program", MakeVersion},
  };
  return table;
}

const VerbRow* FindVerb(std::string_view name) {
  const auto row = std::ranges::find_if(VerbTable(), [&](const VerbRow& candidate) {
    return candidate.name == name ||
           std::ranges::find(candidate.aliases, name) != candidate.aliases.end();
  });
  return row == VerbTable().end() ? nullptr : &*row;
}

std::vector<std::string> VerbNames() {
  std::vector<std::string> names;
  for (const VerbRow& row : VerbTable()) {
    names.push_back(row.name);
    names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  }
  return names;
}

}  // namespace forebay
