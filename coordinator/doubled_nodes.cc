#include "coordinator/doubled_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "common/model/alert.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

/// A sentence is not to become a list.
constexpr std::size_t kMostNamed = 3;

/// The processes that are refused for one id.
struct Seconds {
  std::vector<std::string> addresses;
  std::string holder;
  TimePoint since;
  TimePoint last;
};

std::string Describe(const std::string& id, const Seconds& seconds) {
  const std::string holder = Printable(seconds.holder);
  if (seconds.addresses.size() == 1 && seconds.addresses.front() == seconds.holder) {
    return fmt::format(
        "two live processes are node {}, both at {}, as after a copy of a machine that had joined: "
        "one of them is refused and takes no part",
        id, holder);
  }
  std::vector<std::string> named;
  for (const std::string& address : seconds.addresses)
    if (named.size() < kMostNamed) named.push_back(Printable(address));
  const std::size_t more = seconds.addresses.size() - named.size();
  const std::string rest = more == 0 ? "" : fmt::format(" and {} more", more);
  if (seconds.addresses.size() == 1) {
    return fmt::format(
        "two live processes are node {}: the one at {} is the member, and the one at {} is refused "
        "and takes no part",
        id, holder, named.front());
  }
  return fmt::format(
      "{} live processes are node {}: the one at {} is the member, and those at {}{} are refused "
      "and take no part",
      seconds.addresses.size() + 1, id, holder, fmt::join(named, ", "), rest);
}

}  // namespace

void DoubledNodes::NoteRefused(const NodeInfo& node, std::uint64_t incarnation,
                               const std::string& holder, TimePoint now) {
  std::erase_if(refused_, [&](const auto& row) { return now - row.second.last > held_for_; });
  const Key key(node.id, node.address);
  if (refused_.size() >= kMaxRefused && !refused_.contains(key)) {
    refused_.erase(
        std::ranges::min_element(refused_, {}, [](const auto& row) { return row.second.last; }));
  }
  Refused& row =
      refused_.try_emplace(key, Refused{.holder = {}, .since = now, .last = now}).first->second;
  row.incarnation = incarnation;
  row.holder = holder;
  row.last = now;
}

void DoubledNodes::NoteTaken(const NodeInfo& node, std::uint64_t incarnation) {
  const auto row = refused_.find(Key(node.id, node.address));
  if (row == refused_.end()) return;
  // Where it was refused beside another one at its own address, that is not known to be the same.
  const bool beside = row->second.holder == node.address;
  if (!beside || row->second.incarnation == incarnation) refused_.erase(row);
}

bool DoubledNodes::IsSecond(const Refused& row, TimePoint now) const {
  return row.last - row.since >= believed_after_ && now - row.last <= held_for_;
}

std::vector<proto::Alert> DoubledNodes::Alerts(TimePoint now, std::int64_t now_unix_s) const {
  std::map<std::string, Seconds> doubled;
  for (const auto& [key, row] : refused_) {
    if (!IsSecond(row, now)) continue;
    Seconds& seconds = doubled[key.first];
    if (seconds.addresses.empty() || row.since < seconds.since) seconds.since = row.since;
    if (seconds.addresses.empty() || row.last > seconds.last) {
      seconds.last = row.last;
      seconds.holder = row.holder;
    }
    seconds.addresses.push_back(key.second);
  }
  std::vector<proto::Alert> alerts;
  for (const auto& [id, seconds] : doubled) {
    const auto ago = std::chrono::duration_cast<std::chrono::seconds>(now - seconds.since);
    proto::Alert& alert = alerts.emplace_back();
    alert.set_name(std::string(AlertName(AlertKind::kNodeDoubled)));
    alert.set_since_unix_s(now_unix_s - ago.count());
    alert.set_message(Describe(id, seconds));
    alert.set_action(
        "stop all but one; each that is to be a node of its own needs its own id and address: "
        "`forebay join HOST:PORT --token T --id NEW` there, or without certificates --node-id NEW, "
        "and a restart");
  }
  return alerts;
}

}  // namespace forebay
