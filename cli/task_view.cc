#include "cli/task_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cmath>
#include <optional>
#include <ostream>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {
namespace {

constexpr std::uint32_t kRunning = 0;  // TaskState.state

std::optional<double> SecondsLeft(const proto::TaskState& task) {
  if (task.state() != kRunning || task.bytes_per_second() == 0) return std::nullopt;
  const std::uint64_t over = task.bytes() + task.failed_bytes() + task.not_kept_bytes();
  if (task.total_bytes() < over) return std::nullopt;
  return static_cast<double>(task.total_bytes() - over) /
         static_cast<double>(task.bytes_per_second());
}

boost::json::value Known(std::uint64_t value) {
  return value == 0 ? boost::json::value() : boost::json::value(value);
}

std::string Rate(const proto::TaskState& task) {
  return task.bytes_per_second() == 0 ? "" : HumanBytes(task.bytes_per_second()) + "/s";
}

std::string Left(const proto::TaskState& task) {
  const std::optional<double> seconds = SecondsLeft(task);
  if (!seconds) return "";
  return HumanDuration(std::chrono::milliseconds(std::llround(*seconds * 1000)));
}

/// Why a background fill ended before all was filled, as JSON says it; "" = it did not.
std::string EndedBecause(const proto::TaskState& task) {
  if (task.no_room()) return "no_room";
  return task.job_left() ? "job_left" : "";
}

std::string JobsText(const proto::TaskState& task) {
  std::string text;
  for (const std::string& job : task.jobs()) text += (text.empty() ? "" : ", ") + Escaped(job);
  return text;
}

boost::json::value VerificationJson(const proto::TaskState& task) {
  if (!task.has_verification()) return nullptr;
  boost::json::object document;
  document["verified"] = task.verification().verified();
  document["without_checksum"] = task.verification().without_checksum();
  document["mismatched"] = task.verification().mismatched();
  document["not_cached"] = task.verification().not_cached();
  return document;
}

Tone ToneOf(const proto::TaskState& task) {
  const std::string name = TaskStateName(task);
  if (name == "failed") return Tone::kBad;
  if (name == "done") return Tone::kGood;
  return name == "cancelled" ? Tone::kFaint : Tone::kPlain;
}

}  // namespace

std::string TaskStateName(const proto::TaskState& task) {
  static const char* const kNames[] = {"running", "done", "failed", "cancelled"};
  return task.state() < std::size(kNames) ? kNames[task.state()] : "unknown";
}

boost::json::object TaskJson(const proto::TaskState& task) {
  boost::json::object document;
  document["id"] = task.id();
  document["kind"] = task.kind();
  PutBytes(document, "target", task.target());
  document["state"] = TaskStateName(task);
  document["started"] = Rfc3339(task.started_unix_s());
  const bool ended = task.ended_unix_s() != 0;
  document["ended"] = ended ? boost::json::value(Rfc3339(task.ended_unix_s())) : nullptr;
  document["total"] = Known(task.total());
  document["done"] = task.done();
  document["failed"] = task.failed();
  document["not_kept"] = task.not_kept();
  document["total_bytes"] = Known(task.total_bytes());
  document["bytes"] = task.bytes();
  document["failed_bytes"] = task.failed_bytes();
  document["not_kept_bytes"] = task.not_kept_bytes();
  document["fetched_blocks"] = task.fetched_blocks();
  document["fetched_bytes"] = task.fetched_bytes();
  document["bytes_per_second"] = Known(task.bytes_per_second());
  const std::optional<double> left = SecondsLeft(task);
  document["eta_seconds"] = left ? boost::json::value(*left) : nullptr;
  document["copies_missing"] = task.copies_missing();
  document["quota_bound"] = task.quota_bound();
  document["verification"] = VerificationJson(task);
  document["waiting"] =
      task.waiting().empty() ? boost::json::value() : boost::json::value(task.waiting());
  document["error"] =
      task.error().empty() ? boost::json::value() : boost::json::value(task.error());
  if (task.kind() != "fill") return document;
  boost::json::array jobs;
  for (const std::string& job : task.jobs()) jobs.emplace_back(ValidUtf8(job));
  document["jobs"] = std::move(jobs);
  const std::string why = EndedBecause(task);
  document["ended_because"] = why.empty() ? boost::json::value() : boost::json::value(why);
  return document;
}

std::string FillText(const proto::TaskState& fill) {
  const double share = fill.total_bytes() == 0 ? 0
                                               : static_cast<double>(fill.bytes()) /
                                                     static_cast<double>(fill.total_bytes());
  const std::string left = Left(fill);
  return fmt::format("the rest of {}: {}{} (task {})", Escaped(fill.target()), HumanPercent(share),
                     left.empty() ? "" : ", " + left + " left", fill.id());
}

void PrintTasks(const Console& console, const proto::ListTasksReply& tasks) {
  std::vector<Table::Column> columns = {{.heading = "ID"},
                                        {.heading = "KIND"},
                                        {.heading = "STATE"},
                                        {.heading = "TOTAL", .right = true},
                                        {.heading = "DONE", .right = true},
                                        {.heading = "FAILED", .right = true},
                                        {.heading = "NOT KEPT", .right = true},
                                        {.heading = "BYTES", .right = true},
                                        {.heading = "RATE", .right = true},
                                        {.heading = "ETA", .right = true},
                                        {.heading = "STARTED"},
                                        {.heading = "TARGET"}};
  if (console.wide()) columns.push_back({.heading = "ERROR"});
  Table table(std::move(columns));
  for (const proto::TaskState& task : tasks.tasks()) {
    std::vector<Cell> row = {
        Cell(task.id()),
        Cell(task.kind()),
        Cell(TaskStateName(task), ToneOf(task)),
        Cell(task.total() == 0 ? "" : HumanCount(task.total())),
        Cell(HumanCount(task.done())),
        Cell(HumanCount(task.failed()), task.failed() > 0 ? Tone::kBad : Tone::kPlain),
        Cell(HumanCount(task.not_kept()), task.not_kept() > 0 ? Tone::kWarning : Tone::kPlain),
        Cell(HumanBytes(task.bytes())),
        Cell(Rate(task)),
        Cell(Left(task)),
        Cell(Rfc3339(task.started_unix_s())),
        Cell(task.target())};
    if (console.wide()) row.emplace_back(task.error());
    table.Add(std::move(row));
  }
  if (table.empty()) {
    console.out << "no tasks\n" << std::flush;
  } else {
    table.Print(console);
  }
}

void PrintTask(const Console& console, const proto::TaskState& task) {
  const auto line = [&](const char* what, const std::string& value) {
    if (!value.empty()) console.out << fmt::format("  {:<10}{}\n", what, value);
  };
  console.out << fmt::format("{}: {} of {}, {}\n", task.id(), task.kind(), Escaped(task.target()),
                             Coloured(console, TaskStateName(task), ToneOf(task)));
  line("started", Rfc3339(task.started_unix_s()));
  if (task.ended_unix_s() != 0) line("ended", Rfc3339(task.ended_unix_s()));
  const auto count = [&](const char* what, std::uint64_t objects, std::uint64_t bytes) {
    const char* unit = task.kind() == "drain" ? "block" : "object";
    line(what, fmt::format("{}, {}", Counted(objects, unit), HumanBytes(bytes)));
  };
  if (task.total() > 0) count("total", task.total(), task.total_bytes());
  count("done", task.done(), task.bytes());
  if (task.failed() > 0) count("failed", task.failed(), task.failed_bytes());
  if (task.not_kept() > 0) count("not kept", task.not_kept(), task.not_kept_bytes());
  if (task.quota_bound()) line("why", "the link's quota leaves no room for the others");
  if (task.copies_missing() > 0) line("copies", HumanCount(task.copies_missing()) + " are missing");
  if (task.fetched_blocks() > 0) {
    line("fetched", fmt::format("{} blocks, {}", HumanCount(task.fetched_blocks()),
                                HumanBytes(task.fetched_bytes())));
  }
  line("rate", Rate(task));
  line("left", Left(task));
  line("jobs", JobsText(task));
  if (task.no_room()) line("why", "nothing is free in the cache any more");
  if (task.job_left()) line("why", "no job reads the link any more");
  line("waits", task.waiting().empty() ? "" : "for S3: " + Escaped(task.waiting()));
  line("error", Escaped(task.error()));
  if (!task.failures().empty()) {
    console.out << (task.failed() > static_cast<std::uint64_t>(task.failures_size())
                        ? fmt::format("the first {} of the {} objects that failed:\n",
                                      HumanCount(static_cast<std::uint64_t>(task.failures_size())),
                                      HumanCount(task.failed()))
                        : std::string("objects that failed:\n"));
    for (const proto::TaskFailure& failure : task.failures()) {
      console.out << fmt::format("  {}: {}\n", Escaped(failure.key()), Escaped(failure.reason()));
    }
  }
  console.out << std::flush;
}

}  // namespace forebay
