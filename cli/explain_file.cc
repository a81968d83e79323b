#include "cli/explain_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/block_lines.h"
#include "cli/json.h"
#include "cli/text.h"
#include "common/base/units.h"
#include "common/model/link.h"

namespace forebay {
namespace {

/// ObjectNow.state.
enum class Now : std::uint32_t { kAsListed = 0, kOther = 1, kGone = 2, kUnknown = 3 };

Now NowOf(const proto::ExplainReply& file) { return static_cast<Now>(file.now().state()); }

std::string NowName(Now now) {
  switch (now) {
    case Now::kAsListed:
      return "as-listed";
    case Now::kOther:
      return "other-version";
    case Now::kGone:
      return "gone";
    case Now::kUnknown:
      break;
  }
  return "unknown";
}

std::string TargetOf(const proto::ExplainReply& file) {
  return file.path().empty() ? file.link() : file.link() + "/" + file.path();
}

/// What makes the link show what S3 has now.
std::string HowToRefresh(const proto::ExplainReply& file) {
  if (!file.immutable()) return fmt::format("run `forebay refresh {}`", TargetOf(file));
  return "its link is immutable: to show what S3 has now, unlink it and link it again";
}

std::string NowText(const proto::ExplainReply& file) {
  const proto::ObjectNow& now = file.now();
  switch (NowOf(file)) {
    case Now::kAsListed:
      return "the same object";
    case Now::kOther:
      return fmt::format("replaced: {}, ETag {}, modified {}; {}", HumanBytes(now.size()),
                         now.etag(), Rfc3339(now.mtime_s()), HowToRefresh(file));
    case Now::kGone:
      return "gone; " + HowToRefresh(file);
    case Now::kUnknown:
      break;
  }
  return "not known: " + now.message();
}

struct Counts {
  std::uint64_t blocks = 0;
  std::uint64_t cached = 0;
  std::uint64_t at_owner = 0;
  std::uint64_t bytes = 0;
  std::uint64_t cached_bytes = 0;
};

Counts CountBlocks(const proto::ExplainReply& file) {
  Counts counts;
  for (const proto::ExplainedBlock& block : file.described()) {
    ++counts.blocks;
    counts.bytes += block.length();
    if (IsAtOwner(block)) ++counts.at_owner;
    if (!IsCached(block)) continue;
    ++counts.cached;
    counts.cached_bytes += block.length();
  }
  return counts;
}

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::vector<Range> CachedRanges(const proto::ExplainReply& file) {
  std::vector<Range> ranges;
  for (const proto::ExplainedBlock& block : file.described()) {
    if (!IsCached(block)) continue;
    if (ranges.empty() || ranges.back().end != block.offset())
      ranges.push_back({block.offset(), block.offset()});
    ranges.back().end += block.length();
  }
  return ranges;
}

std::string CachedText(const proto::ExplainReply& file) {
  constexpr std::size_t kRangesShown = 4;
  const Counts counts = CountBlocks(file);
  const bool all_seen = counts.blocks == file.blocks();
  std::string text = fmt::format("{} of {}{}", HumanBytes(counts.cached_bytes),
                                 all_seen ? "" : "the first ", HumanBytes(counts.bytes));
  if (counts.cached > 0 && counts.cached < counts.blocks) {
    const std::vector<Range> ranges = CachedRanges(file);
    std::vector<std::string> names;
    for (const Range& range : ranges) {
      if (names.size() == kRangesShown) break;
      names.push_back(fmt::format("{}-{}", range.begin, range.end - 1));
    }
    if (ranges.size() > kRangesShown)
      names.push_back(fmt::format("{} more ranges", HumanCount(ranges.size() - kRangesShown)));
    text += ": bytes " + Listed(names, "");
  }
  if (!all_seen) text += fmt::format("; `forebay check {}` looks at all of it", TargetOf(file));
  return text;
}

std::string LastReadText(const proto::ExplainReply& file, std::int64_t now) {
  const LastEvent last = LastRead(file);
  if (last.node != nullptr) {
    const std::string job =
        last.node->job().empty() ? "a reader that named no job" : "job " + last.node->job();
    return fmt::format("{} by {}, at {}", Ago(last.node->read_unix_s(), now), job,
                       last.node->node_id());
  }
  const std::int64_t since = RememberedSince(file);
  if (since == 0) return "not known";
  return fmt::format("not since {}: what was before, the nodes do not remember", Ago(since, now));
}

std::string Lease(const proto::ExplainedPin& pin) {
  std::vector<std::string> ends;
  if (pin.until_unix_s() != 0) ends.push_back("until " + Rfc3339(pin.until_unix_s()));
  if (!pin.job().empty()) ends.push_back("until job " + pin.job() + " ends");
  return Listed(ends, "until it is unpinned");
}

std::string PinText(const proto::ExplainReply& file) {
  std::vector<std::string> pins;
  for (const proto::ExplainedPin& pin : file.pins())
    pins.push_back(fmt::format("by the pin of {} {}", pin.target(), Lease(pin)));
  return Listed(pins, "no");
}

std::string SilentText(const proto::ExplainReply& file) {
  std::vector<std::string> nodes;
  for (const proto::UnknownNode& node : file.silent())
    nodes.push_back(fmt::format("{} ({})", node.node_id(), node.reason()));
  return Listed(nodes, "");
}

boost::json::value TimeOrNull(std::int64_t unix_s) {
  if (unix_s == 0) return nullptr;
  return boost::json::string(Rfc3339(unix_s));
}

boost::json::value TextOrNull(std::string_view text) {
  if (text.empty()) return nullptr;
  return boost::json::string(ValidUtf8(text));
}

boost::json::object NodeJson(const proto::BlockAtNode& node) {
  boost::json::object row;
  row["node"] = node.node_id();
  row["cached"] = node.cached();
  row["remembers_since"] = TimeOrNull(node.since_unix_s());
  row["last_read"] = TimeOrNull(node.read_unix_s());
  row["job"] = TextOrNull(node.job());
  row["lost"] = TimeOrNull(node.lost_unix_s());
  row["lost_because"] =
      node.lost_unix_s() == 0 ? boost::json::value() : boost::json::value(LossName(LossOf(node)));
  return row;
}

boost::json::object BlockJson(const proto::ExplainedBlock& block) {
  boost::json::object row;
  row["offset"] = block.offset();
  row["length"] = block.length();
  row["cached"] = IsCached(block);
  boost::json::array owners;
  for (const std::string& owner : block.owners()) owners.emplace_back(owner);
  row["owners"] = std::move(owners);
  boost::json::array earlier;
  for (const proto::EarlierOwner& owner : block.earlier()) {
    boost::json::object& one = earlier.emplace_back(boost::json::object()).as_object();
    one["node"] = owner.node_id();
    one["until_ring_epoch"] = owner.until_epoch();
    one["left"] = Rfc3339(owner.left_unix_s());
  }
  row["earlier_owners"] = std::move(earlier);
  boost::json::array nodes;
  for (const proto::BlockAtNode& node : block.nodes()) nodes.emplace_back(NodeJson(node));
  row["nodes"] = std::move(nodes);
  return row;
}

boost::json::object NowJson(const proto::ExplainReply& file) {
  const Now state = NowOf(file);
  const bool there = state == Now::kAsListed || state == Now::kOther;
  boost::json::object now;
  now["state"] = NowName(state);
  now["size"] = there ? boost::json::value(file.now().size()) : boost::json::value();
  now["etag"] = there ? boost::json::value(ValidUtf8(file.now().etag())) : boost::json::value();
  now["error"] = state == Now::kUnknown ? TextOrNull(file.now().message()) : boost::json::value();
  return now;
}

void PrintJson(const Console& console, const proto::ExplainReply& file, std::int64_t now_unix_s) {
  boost::json::object document = NewDocument();
  PutBytes(document, "target", TargetOf(file));
  document["link"] = file.link();
  document["bucket"] = file.bucket();
  PutBytes(document, "key", file.key());
  document["generation"] = file.generation();
  document["listed"] = Rfc3339(file.listed_unix_s());
  document["size"] = file.size();
  document["etag"] = ValidUtf8(file.etag());
  document["archived"] = file.archived();
  document["s3_now"] = NowJson(file);
  boost::json::array pins;
  for (const proto::ExplainedPin& pin : file.pins()) {
    boost::json::object& row = pins.emplace_back(boost::json::object()).as_object();
    PutBytes(row, "target", pin.target());
    row["until"] = TimeOrNull(pin.until_unix_s());
    row["job"] = TextOrNull(pin.job());
  }
  document["pins"] = std::move(pins);
  document["priority"] = LinkPriorityName(LinkPriorityOf(file.priority()));
  const Counts counts = CountBlocks(file);
  document["blocks"] = file.blocks();
  document["described_bytes"] = counts.bytes;
  document["cached_bytes"] = counts.cached_bytes;
  document["ring_epoch"] = file.ring_epoch();
  boost::json::array silent;
  for (const proto::UnknownNode& node : file.silent()) {
    boost::json::object& row = silent.emplace_back(boost::json::object()).as_object();
    row["id"] = node.node_id();
    row["reason"] = ValidUtf8(node.reason());
  }
  document["unknown"] = std::move(silent);
  boost::json::array described;
  for (const proto::ExplainedBlock& block : file.described())
    described.emplace_back(BlockJson(block));
  document["described"] = std::move(described);
  document["summary"] = ValidUtf8(SumUp(file, now_unix_s));
  PrintDocument(console, document);
}

/// Why a part is not cached, and what a read of it does.
std::string SumUpMissing(const proto::ExplainReply& file, const Counts& counts, std::int64_t now) {
  const std::string target = TargetOf(file);
  if (file.archived()) {
    return "S3 lists it as archived: reads of what is not cached fail until it is restored there, "
           "be "
           "it for some days; then they work as they are, and keep it cached";
  }
  const bool is_changed = NowOf(file) == Now::kOther || NowOf(file) == Now::kGone;
  if (is_changed && file.immutable()) {
    return fmt::format(
        "S3 has {}: reads of what is not cached get the listed version where the bucket keeps "
        "its versions, and elsewhere fail with ESTALE; {}",
        NowOf(file) == Now::kGone ? "it no more" : "another version now", HowToRefresh(file));
  }
  if (is_changed) {
    return fmt::format(
        "S3 has the listed version no more, and reads of what is not cached fail with ESTALE: {}",
        HowToRefresh(file));
  }
  if (file.silent_size() > 0)
    return "what a silent node holds is not known; readers pass it over and wait for no answer";
  const std::uint64_t missing = counts.blocks - counts.cached;
  std::string cost =
      fmt::format("reading all of it costs {} GET{}", HumanCount(missing), missing == 1 ? "" : "s");
  if (file.s3_requests_per_s() > 0) {
    cost += fmt::format(", which wait: S3 throttles, and the cluster keeps to {:.0f} requests/s",
                        file.s3_requests_per_s());
  }
  const std::string missing_bytes = HumanBytes(counts.bytes - counts.cached_bytes);
  const LastEvent loss = LastLoss(file);
  if (loss.node != nullptr) {
    const BlockLoss why = LossOf(*loss.node);
    const bool pin = why == BlockLoss::kReplaced || why == BlockLoss::kOverQuota;
    return fmt::format("{} of it is not cached, last {}, {}: {}; `forebay {} {}` {}", missing_bytes,
                       Ago(loss.node->lost_unix_s(), now), LossText(why), cost,
                       pin ? "pin" : "preload", target,
                       pin ? "keeps what is read from now on" : "tries to cache it now");
  }
  const std::int64_t since = RememberedSince(file);
  const bool unread = since != 0 && LastRead(file).node == nullptr;
  return fmt::format("{} of it is not cached{}: {}; `forebay preload {}` caches it now",
                     missing_bytes, unread ? ", nothing has read it since " + Ago(since, now) : "",
                     cost, target);
}

}  // namespace

std::string SumUp(const proto::ExplainReply& file, std::int64_t now_unix_s) {
  const Counts counts = CountBlocks(file);
  if (file.size() == 0) return "it is empty: a read costs nothing";
  if (counts.cached < counts.blocks) return SumUpMissing(file, counts, now_unix_s);
  const std::string what =
      counts.blocks == file.blocks() ? "all of it is cached" : "all that was looked at is cached";
  if (counts.at_owner == counts.blocks)
    return what + " where readers ask first: a read costs no GET";
  return what +
         ", in part not where readers ask first: the owners take it from there, and a read costs "
         "no GET";
}

bool PrintExplainedFile(const Console& console, const proto::ExplainReply& file,
                        std::int64_t now_unix_s) {
  const bool complete = file.silent().empty() && NowOf(file) != Now::kUnknown;
  if (console.json()) {
    PrintJson(console, file, now_unix_s);
    return complete;
  }
  const auto line = [&](std::string_view what, const std::string& text) {
    console.out << fmt::format("  {:<11} {}\n", what, Escaped(text));
  };
  console.out << Escaped(TargetOf(file)) << '\n';
  line("object", fmt::format("s3://{}/{}, {}, ETag {}", file.bucket(), file.key(),
                             HumanBytes(file.size()), file.etag()));
  line("listed", fmt::format("{}, in generation {}", Ago(file.listed_unix_s(), now_unix_s),
                             file.generation()));
  line("in S3 now", NowText(file));
  line("pinned", PinText(file));
  line("priority", std::string(LinkPriorityName(LinkPriorityOf(file.priority()))));
  line("cached", CachedText(file));
  line("last read", LastReadText(file, now_unix_s));
  if (file.silent_size() > 0) line("not known", SilentText(file));
  line("in short", SumUp(file, now_unix_s));
  PrintBlockLines(console, file, now_unix_s);
  console.out << std::flush;
  return complete;
}

}  // namespace forebay
