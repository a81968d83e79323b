#include "cli/preload_result.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/json.h"
#include "cli/task_view.h"
#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {
namespace {

Outcome PrintDone(const Console& console, const proto::TaskState& task) {
  if (console.json()) {
    boost::json::object document = NewDocument();
    document["task"] = TaskJson(task);
    PrintDocument(console, document);
  } else {
    console.out << fmt::format(
        "'{}': {} of {} objects are cached, {}; {} in {} blocks was fetched\n",
        Escaped(task.target()), HumanCount(task.done()), HumanCount(task.total()),
        HumanBytes(task.bytes()), HumanBytes(task.fetched_bytes()),
        HumanCount(task.fetched_blocks()));
    if (task.has_verification()) {
      console.out << fmt::format(
          "{} objects are what was uploaded, by S3's own checksums; of {} S3 has none that can be "
          "compared\n",
          HumanCount(task.verification().verified()),
          HumanCount(task.verification().without_checksum()));
      if (task.verification().not_cached() > 0) {
        console.out << fmt::format("{} objects are not cached whole, and were not compared\n",
                                   HumanCount(task.verification().not_cached()));
      }
    }
    if (task.not_kept() > 0) {
      const std::string what = task.quota_bound()
                                   ? "the quota of link '" + Escaped(task.link()) + "' leaves"
                                   : "the cache has";
      console.out << fmt::format("{} no room for {} objects with {}\n", what,
                                 HumanCount(task.not_kept()), HumanBytes(task.not_kept_bytes()));
    }
    if (task.copies_missing() > 0) {
      console.out << fmt::format(
          "{} further copies of blocks are not there: their nodes have no room, or do not answer\n",
          HumanCount(task.copies_missing()));
    }
    console.out << std::flush;
  }
  return task.not_kept() > 0 || task.copies_missing() > 0 ? Exit::kPartly : Exit::kDone;
}

}  // namespace

Outcome WaitForPreload(VerbContext& context, const proto::TaskState& task) {
  boost::json::object detached = NewDocument();
  detached["task"] = task.id();
  PutBytes(detached, "target", task.target());
  const TaskWait wait{
      .id = task.id(),
      .subject = "preload of '" + task.target() + "'",
      .title = {.what = "preloading " + task.target(), .moves_bytes = true},
      .detached = std::move(detached),
      .after_failure = fmt::format(
          "`forebay task show {0}` lists what failed, `forebay task retry {0}` tries it again",
          task.id())};
  const Console& console = context.console;
  return WaitForTask(context, wait,
                     [&](const proto::TaskState& done) { return PrintDone(console, done); });
}

}  // namespace forebay
