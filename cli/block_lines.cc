#include "cli/block_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>

#include "cli/table.h"
#include "cli/text.h"
#include "common/base/units.h"

namespace forebay {
namespace {

/// Without `-o wide`.
constexpr std::size_t kLines = 16;

bool IsOwner(const proto::ExplainedBlock& block, const std::string& node) {
  return block.owners_size() > 0 && block.owners(0) == node;
}

const proto::BlockAtNode* LatestRead(const proto::ExplainedBlock& block) {
  const auto latest = std::ranges::max_element(block.nodes(), {}, &proto::BlockAtNode::read_unix_s);
  return latest == block.nodes().end() || latest->read_unix_s() == 0 ? nullptr : &*latest;
}

const proto::BlockAtNode* LatestLoss(const proto::ExplainedBlock& block) {
  const auto latest = std::ranges::max_element(block.nodes(), {}, &proto::BlockAtNode::lost_unix_s);
  return latest == block.nodes().end() || latest->lost_unix_s() == 0 ? nullptr : &*latest;
}

std::string CachedAt(const proto::ExplainedBlock& block) {
  std::vector<std::string> names;
  for (const proto::BlockAtNode& node : block.nodes()) {
    if (node.cached()) names.push_back(node.node_id());
  }
  return Listed(names, "no");
}

std::string ReadText(const proto::ExplainedBlock& block, std::int64_t now) {
  const proto::BlockAtNode* read = LatestRead(block);
  if (read == nullptr) return "-";
  std::string text = Ago(read->read_unix_s(), now);
  if (!read->job().empty()) text += " by " + read->job();
  if (!IsOwner(block, read->node_id())) text += " at " + read->node_id();
  return text;
}

std::string WhyNot(const proto::ExplainedBlock& block, std::int64_t now) {
  if (IsCached(block)) return "";
  if (const proto::BlockAtNode* loss = LatestLoss(block)) {
    const std::string at = IsOwner(block, loss->node_id()) ? "" : " at " + loss->node_id();
    return fmt::format("{}{}, {}", Ago(loss->lost_unix_s(), now), at, LossText(LossOf(*loss)));
  }
  if (block.nodes().empty()) return "not known";
  if (LatestRead(block) != nullptr) return "read, and not kept; why is not remembered";
  return "not read since " + Ago(block.nodes(0).since_unix_s(), now);
}

std::string EarlierOwners(const proto::ExplainedBlock& block, std::int64_t now) {
  std::vector<std::string> owners;
  for (const proto::EarlierOwner& owner : block.earlier())
    owners.push_back(owner.node_id() + " until " + Ago(owner.left_unix_s(), now));
  return Listed(owners, "");
}

std::vector<std::string> LineOf(const proto::ExplainedBlock& block, bool with_earlier,
                                std::int64_t now) {
  std::vector<std::string> line = {Listed({block.owners().begin(), block.owners().end()}, "none")};
  if (with_earlier) line.push_back(EarlierOwners(block, now));
  line.push_back(CachedAt(block));
  line.push_back(ReadText(block, now));
  line.push_back(WhyNot(block, now));
  return line;
}

}  // namespace

bool IsCached(const proto::ExplainedBlock& block) {
  return std::ranges::any_of(block.nodes(), [](const auto& node) { return node.cached(); });
}

bool IsAtOwner(const proto::ExplainedBlock& block) {
  return std::ranges::any_of(block.nodes(), [&](const proto::BlockAtNode& node) {
    return node.cached() && IsOwner(block, node.node_id());
  });
}

std::string Ago(std::int64_t then_unix_s, std::int64_t now_unix_s) {
  // Clocks of machines differ.
  const std::int64_t seconds = std::max<std::int64_t>(now_unix_s - then_unix_s, 0);
  return HumanDuration(std::chrono::seconds(seconds)) + " ago";
}

std::string Listed(const std::vector<std::string>& names, const std::string& none) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? none : text;
}

LastEvent LastRead(const proto::ExplainReply& file) {
  LastEvent last;
  for (const proto::ExplainedBlock& block : file.described()) {
    const proto::BlockAtNode* read = LatestRead(block);
    if (read == nullptr) continue;
    if (last.node == nullptr || read->read_unix_s() > last.node->read_unix_s())
      last = {.block = &block, .node = read};
  }
  return last;
}

LastEvent LastLoss(const proto::ExplainReply& file) {
  LastEvent last;
  for (const proto::ExplainedBlock& block : file.described()) {
    const proto::BlockAtNode* loss = IsCached(block) ? nullptr : LatestLoss(block);
    if (loss == nullptr) continue;
    if (last.node == nullptr || loss->lost_unix_s() > last.node->lost_unix_s())
      last = {.block = &block, .node = loss};
  }
  return last;
}

BlockLoss LossOf(const proto::BlockAtNode& node) { return static_cast<BlockLoss>(node.loss()); }

std::string LossText(BlockLoss loss) {
  switch (loss) {
    case BlockLoss::kReplaced:
      return "evicted: the cache was full and other blocks came";
    case BlockLoss::kOverQuota:
      return "evicted: its link's quota left no room for it";
    case BlockLoss::kAsked:
      return "evicted: somebody asked for it (`forebay evict`, `unlink --evict`)";
    case BlockLoss::kDamaged:
      return "dropped: it could not be read as it was stored";
    case BlockLoss::kNoRoom:
      return "not kept: the cache is full of what is in use or of higher priority, or the link at "
             "its quota";
    case BlockLoss::kUnwritable:
      return "not kept: the disks refuse to write";
    case BlockLoss::kSetAside:
      return "not kept: the node crashed on it three times (`forebay evict` lets it try again)";
    case BlockLoss::kReleased:
      return "released: it was pinned, and the nodes that own it had it, too";
    case BlockLoss::kNone:
      break;
  }
  return "not there, for a reason that this program does not know";
}

std::string LossName(BlockLoss loss) {
  switch (loss) {
    case BlockLoss::kReplaced:
      return "replaced";
    case BlockLoss::kOverQuota:
      return "over-quota";
    case BlockLoss::kAsked:
      return "asked";
    case BlockLoss::kDamaged:
      return "damaged";
    case BlockLoss::kNoRoom:
      return "no-room";
    case BlockLoss::kUnwritable:
      return "unwritable";
    case BlockLoss::kSetAside:
      return "set-aside";
    case BlockLoss::kReleased:
      return "released";
    case BlockLoss::kNone:
      break;
  }
  return "unknown";
}

std::int64_t RememberedSince(const proto::ExplainReply& file) {
  std::int64_t since = 0;
  for (const proto::ExplainedBlock& block : file.described()) {
    if (block.nodes().empty()) return 0;
    for (const proto::BlockAtNode& node : block.nodes())
      since = std::max(since, node.since_unix_s());
  }
  return since;
}

void PrintBlockLines(const Console& console, const proto::ExplainReply& file,
                     std::int64_t now_unix_s) {
  const int count = file.described_size();
  if (count == 0) return;
  const bool with_earlier = std::ranges::any_of(
      file.described(), [](const auto& block) { return !block.earlier().empty(); });
  std::vector<Table::Column> columns = {
      {.heading = "BLOCKS"}, {.heading = "BYTES"}, {.heading = "OWNERS"}};
  if (with_earlier) columns.push_back({.heading = "EARLIER OWNERS"});
  columns.push_back({.heading = "CACHED AT"});
  columns.push_back({.heading = "LAST READ"});
  columns.push_back({.heading = "WHY NOT CACHED"});
  Table table(std::move(columns));
  std::size_t lines = 0;
  int first = 0;
  while (first < count && (console.wide() || lines < kLines)) {
    const std::vector<std::string> line = LineOf(file.described(first), with_earlier, now_unix_s);
    int last = first;
    while (last + 1 < count && LineOf(file.described(last + 1), with_earlier, now_unix_s) == line) {
      ++last;
    }
    const proto::ExplainedBlock& end = file.described(last);
    std::vector<Cell> row;
    row.emplace_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
    row.emplace_back(
        fmt::format("{}-{}", file.described(first).offset(), end.offset() + end.length() - 1));
    for (const std::string& text : line) row.emplace_back(text);
    table.Add(std::move(row));
    ++lines;
    first = last + 1;
  }
  console.out << '\n';
  table.Print(console);
  if (first < count) {
    console.out << fmt::format("… and {} more blocks: `-o wide` shows them\n",
                               HumanCount(static_cast<std::uint64_t>(count - first)));
  }
}

}  // namespace forebay
