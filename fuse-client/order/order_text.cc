#include "fuse-client/order/order_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <optional>

#include "common/model/limits.h"
#include "fuse-client/order/announced_order.h"

namespace forebay {
namespace {

std::string_view TakeLine(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string FieldOf(const boost::json::object& fields, std::string_view name) {
  const boost::json::value* value = fields.if_contains(name);
  const boost::json::string* word = value == nullptr ? nullptr : value->if_string();
  return word == nullptr ? std::string() : std::string(word->begin(), word->end());
}

bool IsNumber(std::string_view line) {
  return !line.empty() && std::ranges::all_of(line, [](char c) { return c >= '0' && c <= '9'; });
}

/// What stands in the lines, and what was wrong with them.
struct Reading {
  std::vector<std::uint64_t> nodeids = {};
  std::size_t bad = 0;
  std::size_t first_bad = 0;  // number of its line, from 1
  std::string why = "";

  void Bad(std::size_t line, std::string reason) {
    if (bad++ > 0) return;
    first_bad = line;
    why = std::move(reason);
  }
};

template <typename Visit>
void ForEachLine(std::string_view lines, const Visit& visit) {
  for (std::size_t number = 1; !lines.empty(); ++number) {
    const std::string_view line = TakeLine(lines);
    if (!line.empty()) visit(number, line);
  }
}

bool AreNumbers(std::string_view lines) {
  bool all = true;
  ForEachLine(lines, [&](std::size_t, std::string_view line) { all = all && IsNumber(line); });
  return all;
}

Result<std::vector<std::uint64_t>> AllFiles(const Snapshot& snapshot, const SnapshotRow& root) {
  std::vector<std::uint64_t> files;
  const Status walked =
      snapshot.ForEachFile(root.directory, [&](const SnapshotRow& row, std::string_view) {
        files.push_back(row.nodeid);
        return true;
      });
  if (!walked) return Fail(walked.error());
  return files;
}

Status ReadNumbers(const OrderText& order, const Snapshot& snapshot, const SnapshotRow& root,
                   Reading& reading) {
  const Result<std::vector<std::uint64_t>> files = AllFiles(snapshot, root);
  if (!files) return Fail(files.error());
  ForEachLine(order.lines, [&](std::size_t number, std::string_view line) {
    std::uint64_t place = 0;
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), place);
    if (parsed.ec != std::errc() || place >= files->size()) {
      return reading.Bad(number, fmt::format("{} is no place in .forebay/manifest, which has {} "
                                             "files, the first of them 0",
                                             line, files->size()));
    }
    reading.nodeids.push_back((*files)[place]);
  });
  return {};
}

std::string_view WithoutMountpoint(std::string_view path, std::string_view mountpoint) {
  while (mountpoint.ends_with('/')) mountpoint.remove_suffix(1);
  const bool below = !mountpoint.empty() && path.starts_with(mountpoint) &&
                     path.substr(mountpoint.size()).starts_with('/');
  if (below) path.remove_prefix(mountpoint.size());
  while (below && path.starts_with('/')) path.remove_prefix(1);
  while (path.starts_with("./")) path.remove_prefix(2);
  return path;
}

void ReadPaths(const OrderText& order, const Snapshot& snapshot, const SnapshotRow& root,
               Reading& reading) {
  const std::optional<SnapshotDirectory> top = snapshot.DirectoryAt(root.directory);
  const std::string prefix = top && !top->path.empty() ? std::string(top->path) + "/" : "";
  ForEachLine(order.lines, [&](std::size_t number, std::string_view line) {
    const std::string_view path = WithoutMountpoint(line, order.mountpoint);
    if (path.starts_with('/')) {
      return reading.Bad(number, fmt::format("{} does not lie in this mount", line));
    }
    const std::optional<SnapshotRow> row = snapshot.Resolve(prefix + std::string(path));
    if (!row || row->is_directory()) {
      return reading.Bad(number, fmt::format("{} is {}", line, row ? "a directory" : "no file"));
    }
    reading.nodeids.push_back(row->nodeid);
  });
}

}  // namespace

Result<OrderText> ParseOrderText(std::string_view text) {
  OrderText order;
  const std::string_view first = TakeLine(text);
  boost::system::error_code failed;
  const boost::json::value header = boost::json::parse(first, failed);
  const boost::json::object* fields = failed ? nullptr : header.if_object();
  if (fields == nullptr) {
    return Fail(Code::kInvalid, R"(the first line must be a JSON object like {"link":"NAME"})");
  }
  const bool named = fields->contains("job");
  order.job = FieldOf(*fields, "job");
  order.link = FieldOf(*fields, "link");
  order.mountpoint = FieldOf(*fields, "mountpoint");
  if (named && (order.job.empty() || order.job.size() > kMaxJobIdBytes)) {
    return Fail(
        Code::kInvalid,
        fmt::format("\"job\", where it is there, must be a text of 1 to {} bytes", kMaxJobIdBytes));
  }
  order.lines = text;
  return order;
}

Result<std::vector<std::uint64_t>> FilesOfOrder(const OrderText& order, const Snapshot& snapshot,
                                                const SnapshotRow& root) {
  Reading reading;
  if (AreNumbers(order.lines)) {
    const Status read = ReadNumbers(order, snapshot, root, reading);
    if (!read) return Fail(read.error());
  } else {
    ReadPaths(order, snapshot, root, reading);
  }
  if (reading.bad > 0) {
    return Fail(
        Code::kNotFound,
        fmt::format(
            "line {}: {}{}; nothing was announced", reading.first_bad, reading.why,
            reading.bad > 1 ? fmt::format(" ({} more lines mean no file)", reading.bad - 1) : ""));
  }
  if (reading.nodeids.size() > AnnouncedOrder::kMaxFiles) {
    return Fail(Code::kInvalid,
                fmt::format("an order may have {} files, and this one has {}: announce the next "
                            "epoch alone",
                            AnnouncedOrder::kMaxFiles, reading.nodeids.size()));
  }
  return std::move(reading.nodeids);
}

}  // namespace forebay
