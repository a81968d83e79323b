#include "cli/verb_table.h"

#include <algorithm>

namespace forebay {

const std::vector<VerbRow>& VerbTable() {
  static const std::vector<VerbRow> table = {
      {"status", "is the cluster healthy, and what to do when it is not", MakeStatus},
      {"link", "makes an S3 prefix mountable under a name", MakeLink},
      {"links", "what is linked, and how much of it is cached", MakeLinks},
      {"unlink", "takes a link away", MakeUnlink},
      {"ls", "lists a folder of a link, without a mount", MakeLs},
      {"check", "how much of a target is cached", MakeCheck},
      {"evict", "frees what the nodes hold of a target", MakeEvict},
      {"stats", "counters of links, nodes and jobs", MakeStats},
      {"nodes", "the cache nodes and what they hold", MakeNodes},
      {"version", "the version of this program", MakeVersion},
  };
  return table;
}

const VerbRow* FindVerb(std::string_view name) {
  const auto row = std::ranges::find(VerbTable(), name, &VerbRow::name);
  return row == VerbTable().end() ? nullptr : &*row;
}

}  // namespace forebay
