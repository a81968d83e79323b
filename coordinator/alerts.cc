#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/model/alert.h"
#include "common/model/disk_state.h"
#include "common/model/limits.h"
#include "common/s3/list_parser.h"
#include "coordinator/clock_watch.h"
#include "coordinator/drainer.h"
#include "coordinator/preload_records.h"
#include "coordinator/stats.h"

namespace forebay {
namespace {

proto::Alert MakeAlert(AlertKind kind, std::int64_t since, std::string message,
                       std::string action) {
  proto::Alert alert;
  alert.set_name(std::string(AlertName(kind)));
  alert.set_since_unix_s(since);
  alert.set_message(std::move(message));
  alert.set_action(std::move(action));
  return alert;
}

/// "n1, n2, n3 and 5 more".
std::string Named(const std::vector<std::string>& nodes) {
  constexpr std::size_t kNamed = 3;
  const std::size_t named = std::min(nodes.size(), kNamed);
  std::string text = fmt::format(
      "{}", fmt::join(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (nodes.size() > named) text += fmt::format(" and {} more", nodes.size() - named);
  return text;
}

/// Two processes that live take turns at it, or both are asked at the one that is there.
void AddSharedAddresses(const std::vector<MemberView>& members, std::vector<proto::Alert>& alerts) {
  std::map<std::string, std::vector<std::string>> ids;
  for (const MemberView& member : members) {
    const NodeState state = member.info.state;
    if (state == NodeState::kUp || state == NodeState::kDraining)
      ids[member.info.address].push_back(member.info.id);
  }
  for (const auto& [address, nodes] : ids) {
    if (nodes.size() < 2) continue;
    alerts.push_back(MakeAlert(
        AlertKind::kAddressShared, 0,
        fmt::format("nodes {} all say that {} is their address: readers ask there for what each of "
                    "them owns",
                    Named(nodes), Printable(address)),
        "start each with its own --advertise HOST:PORT, at which other machines reach it"));
  }
}

/// Of a node that is silent: nothing that is done on its machine helps one that is not believed.
proto::Alert SilentAlert(const MemberView& member, AlertKind kind, std::int64_t since,
                         const std::string& state, std::string action) {
  const NodeInfo& node = member.info;
  std::string message = fmt::format("node {} at {} {}", node.id, node.address, state);
  if (member.revoked) {
    message = fmt::format("node {} at {} was revoked (`forebay member revoke`) and {}", node.id,
                          node.address, state);
    action = fmt::format(
        "`forebay node remove {0}` if it is not to come back; else join its "
        "machine again with a new token (`forebay token create --role node`) and "
        "--id {0}, and restart forebay-node there",
        node.id);
  }
  return MakeAlert(kind, since, std::move(message), std::move(action));
}

void AddNodeAlerts(const std::vector<MemberView>& members, std::int64_t now,
                   std::vector<proto::Alert>& alerts) {
  for (const MemberView& member : members) {
    const NodeInfo& node = member.info;
    if (member.dismissal == Dismissal::kFenced) {
      alerts.push_back(MakeAlert(
          AlertKind::kNodeFenced, member.out_unix_s,
          fmt::format("node {} at {} is fenced: an administrator keeps it out", node.id,
                      node.address),
          fmt::format("`forebay node undrain {0}` lets it in again, `forebay node remove {0}` "
                      "leaves that to its next start",
                      node.id)));
    }
    // One that was removed or drained is gone because somebody wanted it.
    if (node.state == NodeState::kOut && member.dismissal == Dismissal::kNone) {
      alerts.push_back(
          SilentAlert(member, AlertKind::kNodeOut, member.out_unix_s,
                      "is out of the ring; the others hold its share",
                      fmt::format("start forebay-node on it again to bring {} back", node.id)));
    }
    if (node.state == NodeState::kSuspect) {
      const auto silent = std::chrono::duration_cast<std::chrono::seconds>(member.silence);
      alerts.push_back(SilentAlert(
          member, AlertKind::kNodeSuspect, now - silent.count(),
          fmt::format("has been silent for {} s; readers pass it over", silent.count()),
          fmt::format("look whether forebay-node runs on it and reaches the coordinator; after 10 "
                      "minutes of silence {} goes out of the ring",
                      node.id)));
    }
  }
}

/// Mounts judge it by how it answers beside the others.
void AddSlowAlert(const proto::NodeStats& node, std::vector<proto::Alert>& alerts) {
  if (node.slow_mounts() == 0) return;
  const std::string& id = node.info().id();
  alerts.push_back(MakeAlert(
      AlertKind::kNodeSlow, 0,
      fmt::format(
          "node {} answers {} several times slower than the others do; they read from the "
          "other owners first, which keep copies of its blocks where they have room",
          id, node.slow_mounts() == 1 ? "a mount" : fmt::format("{} mounts", node.slow_mounts())),
      fmt::format("look at the disks, the network and the load of {}", id)));
}

void AddClockAlert(const proto::NodeStats& node, std::int64_t now,
                   std::vector<proto::Alert>& alerts) {
  if (node.clock_wrong_s() == 0) return;
  const std::string& id = node.info().id();
  alerts.push_back(
      MakeAlert(AlertKind::kClockWrong, now - static_cast<std::int64_t>(node.clock_wrong_s()),
                fmt::format("the clock of node {} is {} the coordinator's: reads go on, and one of "
                            "the two machines refuses certificates that the other has just got",
                            id, DescribeAhead(std::chrono::milliseconds(node.clock_ahead_ms()))),
                fmt::format("set the clock of {}, or the coordinator's where it is the wrong one, "
                            "and let a time service keep them",
                            id)));
}

/// A node that was killed for want of memory may be again: told as long as that is news.
constexpr std::uint64_t kToldOfEndSeconds = 3600;

/// HeartbeatRequest.last_end on the wire.
constexpr std::uint32_t kOutOfMemory = 2;

/// What a node says of its own crashes and kills.
void AddCrashAlerts(const proto::NodeStats& node, std::int64_t now,
                    std::vector<proto::Alert>& alerts) {
  const std::string& id = node.info().id();
  if (node.last_end() == kOutOfMemory && node.running_s() < kToldOfEndSeconds) {
    alerts.push_back(MakeAlert(
        AlertKind::kNodeOutOfMemory, now - static_cast<std::int64_t>(node.running_s()),
        fmt::format("node {} was probably killed for want of memory, and runs again", id),
        "give it less with --memory-limit, or the machine or its control group more; the kernel's "
        "log on that machine says what was killed"));
  }
  if (node.blocks_set_aside() > 0) {
    alerts.push_back(MakeAlert(
        AlertKind::kBlocksSetAside, 0,
        fmt::format("node {} keeps {} blocks out of its cache because it crashed on each of them "
                    "three times; they are read from S3",
                    id, node.blocks_set_aside()),
        "report it with the node's log, which names them; `forebay evict` of their files lets a "
        "newer program try again"));
  }
}

/// Since when is not known: the node has left the disk alone since it started.
proto::Alert MissingDisk(const std::string& node, const std::string& path) {
  return MakeAlert(
      AlertKind::kDiskMissing, 0,
      fmt::format("node {} runs without its disk {}: another file system is there, or nothing",
                  node, path),
      fmt::format("mount the disk and restart forebay-node; or start it once with "
                  "--accept-new-disk {} to use what is there",
                  path));
}

void AddDiskAlerts(const proto::StatsReply& reply, std::int64_t now,
                   std::vector<proto::Alert>& alerts) {
  for (const proto::NodeStats& node : reply.nodes()) {
    AddCrashAlerts(node, now, alerts);
    AddSlowAlert(node, alerts);
    AddClockAlert(node, now, alerts);
    for (const proto::DiskReport& disk : node.disks()) {
      if (IsState(disk.state(), DiskState::kOk)) continue;
      if (IsState(disk.state(), DiskState::kMissing)) {
        alerts.push_back(MissingDisk(node.info().id(), disk.path()));
        continue;
      }
      const bool read_only = IsState(disk.state(), DiskState::kReadOnly);
      alerts.push_back(MakeAlert(
          read_only ? AlertKind::kDiskReadOnly : AlertKind::kDiskQuarantined,
          now - node.last_heartbeat_age_ms() / 1000,
          fmt::format("disk {} of node {} {}", disk.path(), node.info().id(),
                      read_only ? "is read-only: it serves what it holds and is not filled"
                                : "failed and is not used"),
          "look at the kernel's log on that machine; the disk comes back by itself when it "
          "works again"));
    }
  }
}

/// An alert for each place, whichever nodes wait for it.
void AddUnanswered(const proto::StatsReply& reply, std::int64_t now,
                   std::vector<proto::Alert>& alerts) {
  struct Place {
    proto::S3Wait longest;
    std::vector<std::string> nodes;
    std::uint64_t calls = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Place> places;
  for (const proto::NodeStats& node : reply.nodes()) {
    // Of one that is silent it is not known.
    if (std::chrono::milliseconds(node.last_heartbeat_age_ms()) > kHeardLately) continue;
    for (const proto::S3Wait& wait : node.s3_waits()) {
      if (wait.longest_ms() < kUnansweredMs) continue;
      Place& place = places[{wait.endpoint(), wait.bucket(), wait.prefix()}];
      place.nodes.push_back(node.info().id());
      place.calls += wait.calls();
      if (wait.longest_ms() > place.longest.longest_ms()) place.longest = wait;
    }
  }
  for (const auto& [key, place] : places) {
    const auto seconds = static_cast<std::int64_t>(place.longest.longest_ms() / 1000);
    alerts.push_back(MakeAlert(
        AlertKind::kS3Unanswered, now - seconds,
        fmt::format("s3://{}/{} leaves {} of {} without an answer, since {} s: {}",
                    Printable(place.longest.bucket()), Printable(place.longest.prefix()),
                    place.calls == 1 ? "a request" : fmt::format("{} requests", place.calls),
                    fmt::join(place.nodes, ", "), seconds, place.longest.why()),
        "look whether S3 and the way to it from there are well; what is cached is read as ever, "
        "other nodes fetch the rest where S3 answers them, and else it waits as long as "
        "s3_timeout says"));
  }
}

/// An alert for each link, whichever nodes are refused. Where all are, readers are told, too.
void AddRefused(const proto::StatsReply& reply, std::int64_t now,
                std::vector<proto::Alert>& alerts) {
  struct Refused {
    const proto::S3Refusal* longest = nullptr;
    std::vector<std::string> nodes;
    std::uint64_t calls = 0;
  };
  std::map<std::string, Refused> links;
  for (const proto::NodeStats& node : reply.nodes()) {
    if (std::chrono::milliseconds(node.last_heartbeat_age_ms()) > kHeardLately) continue;
    for (const proto::S3Refusal& refusal : node.s3_refusals()) {
      Refused& refused = links[refusal.link()];
      refused.nodes.push_back(node.info().id());
      refused.calls += refusal.calls();
      const bool is_longest =
          refused.longest == nullptr || refusal.since_ms() > refused.longest->since_ms();
      if (is_longest) refused.longest = &refusal;
    }
  }
  for (const auto& [link, refused] : links) {
    const auto seconds = static_cast<std::int64_t>(refused.longest->since_ms() / 1000);
    alerts.push_back(MakeAlert(
        AlertKind::kS3Refused, now - seconds,
        fmt::format(
            "S3 refuses what {} of link '{}', {} requests one after the other since {} s: {}",
            refused.nodes.size() == 1 ? "node " + refused.nodes.front() + " asks"
                                      : "nodes " + Named(refused.nodes) + " ask",
            link, refused.calls, seconds, refused.longest->why()),
        "mend the keys or the clock of that machine, or the rights to what was asked for; what it "
        "owns and nobody has cached is fetched by other nodes, unless S3 refuses them, too"));
  }
}

}  // namespace

std::vector<proto::Alert> ClusterAlerts(const proto::StatsReply& reply,
                                        const std::vector<MemberView>& members,
                                        const std::vector<proto::TaskState>& failed_tasks,
                                        std::int64_t now_unix_s) {
  std::vector<proto::Alert> alerts;
  AddNodeAlerts(members, now_unix_s, alerts);
  AddSharedAddresses(members, alerts);
  AddDiskAlerts(reply, now_unix_s, alerts);
  if (reply.fill_limits().paused_since_unix_s() != 0) {
    alerts.push_back(MakeAlert(AlertKind::kFillsPaused, reply.fill_limits().paused_since_unix_s(),
                               "fills are paused: what is not cached cannot be read",
                               "forebay resume fills"));
  }
  AddUnanswered(reply, now_unix_s, alerts);
  AddRefused(reply, now_unix_s, alerts);
  for (const proto::ThrottledPlace& place : reply.throttled()) {
    alerts.push_back(MakeAlert(
        AlertKind::kS3Throttled, place.since_unix_s(),
        fmt::format("S3 throttles s3://{}/{}: the cluster keeps to {:.0f} requests/s; what is "
                    "cached is read as ever",
                    place.bucket(), Printable(place.prefix()), place.requests_per_s()),
        "nothing has to be done; S3 gives more by itself after a while, and larger blocks (`link "
        "--block-size`) need fewer requests"));
  }
  // What a link's or a preload's task could not do its command says, and the task; what stays of it
  // is FailedListingAlerts'. What a fill could not fetch its readers are told of.
  for (const proto::TaskState& task : failed_tasks) {
    if (task.kind() != kDrainKind) continue;
    // Tried again, taken back or removed since then.
    const bool over = std::ranges::none_of(members, [&](const MemberView& member) {
      return member.info.id == task.target() && member.drains;
    });
    if (over) continue;
    alerts.push_back(MakeAlert(
        AlertKind::kDrainFailed, task.ended_unix_s(),
        fmt::format("node {} could not be drained: {}", task.target(), task.error()),
        fmt::format("`forebay node drain {0}` tries again, `forebay node undrain {0}` takes it "
                    "back, `forebay node remove {0}` gives up what it holds",
                    task.target())));
  }
  return alerts;
}

}  // namespace forebay
