#include "common/model/alert.h"

#include <algorithm>
#include <array>

namespace forebay {
namespace {

constexpr std::array kAlerts = {
    AlertDescription{.kind = AlertKind::kNoNodes,
                     .name = "no_nodes",
                     .when = "no cache node is up; `forebay status` alone says it",
                     .to_do = "start `forebay-node` with `--coordinator HOST:PORT`",
                     .fault = "node killed, all of them"},
    AlertDescription{.kind = AlertKind::kFillsPaused,
                     .name = "fills_paused",
                     .when = "from `forebay pause fills` to `forebay resume fills`",
                     .to_do = "`forebay resume fills`",
                     .fault = "none: somebody braked"},
    AlertDescription{.kind = AlertKind::kDiskQuarantined,
                     .name = "disk_quarantined",
                     .when = "a node's disk failed and is not used, until it works again",
                     .to_do = "look at the kernel's log on that machine; the disk comes back by "
                              "itself",
                     .fault = "EIO on read, write, fsync"},
    AlertDescription{.kind = AlertKind::kDiskMissing,
                     .name = "disk_missing",
                     .when = "a node runs without one of its disks, until its next start",
                     .to_do = "mount the disk and restart `forebay-node`, or start it once with "
                              "`--accept-new-disk PATH`",
                     .fault = "disk not mounted, or another one in its place"},
    AlertDescription{.kind = AlertKind::kNodeOut,
                     .name = "node_out",
                     .when = "a node was silent for 10 minutes, until it comes back or is removed",
                     .to_do = "start `forebay-node` on it, or `forebay node remove ID`",
                     .fault = "node killed; cut off from the coordinator"},
    AlertDescription{.kind = AlertKind::kNodeSuspect,
                     .name = "node_suspect",
                     .when = "a node is silent, and readers pass it over; at most 10 minutes",
                     .to_do = "look whether it runs and reaches the coordinator",
                     .fault = "node stopped; cut off from the coordinator"},
    AlertDescription{.kind = AlertKind::kS3Unanswered,
                     .name = "s3_unanswered",
                     .when =
                         "S3 has not answered requests of nodes for 10 s, each tried anew every "
                         "5 s, until it does; where it answers a HEAD alone, until a block comes, "
                         "or nobody has wanted one for a minute",
                     .to_do = "look at S3 and the way to it from the nodes that are named; what is "
                              "cached is read as ever, other nodes fetch the rest where S3 "
                              "answers them, and else it waits as long as `s3_timeout` says",
                     .fault = "500, 502, 504, reset, DNS failure, stall; a broken route"},
    AlertDescription{.kind = AlertKind::kS3Refused,
                     .name = "s3_refused",
                     .when = "S3 has refused several requests of a node for a link one after the "
                             "other, until it answers one, or none was made for a minute",
                     .to_do = "mend the keys or the clock of that machine, or the rights to what "
                              "was asked for; other nodes fetch what it owns, unless S3 "
                              "refuses them, too",
                     .fault = "credentials revoked; wrong clock"},
    AlertDescription{.kind = AlertKind::kNodeDoubled,
                     .name = "node_doubled",
                     .when = "another live process of a node's id has been refused for 15 s, until "
                             "it has not asked for 30 s, or is the member in the other's place",
                     .to_do = "stop one of the two, or give it an id of its own "
                              "([NODES.md](NODES.md#two-nodes-with-one-id))",
                     .fault = "two nodes with one id"},
    AlertDescription{.kind = AlertKind::kAddressShared,
                     .name = "address_shared",
                     .when = "two or more nodes that are up name one address as theirs, until one "
                             "alone does",
                     .to_do = "give each the address at which others reach it, with `--advertise`",
                     .fault = "two nodes at one address"},
    AlertDescription{.kind = AlertKind::kFrozenListingLost,
                     .name = "frozen_listing_lost",
                     .when = "the listing of a frozen link is lost and S3 does not give the same "
                             "again, until it is found, or the link is unlinked",
                     .to_do = "[LINKS.md](LINKS.md#a-frozen-link)",
                     .fault = "index damaged (coordinator)"},
    AlertDescription{.kind = AlertKind::kListingLost,
                     .name = "listing_lost",
                     .when = "the listing of another link is lost and S3 does not give it, until a "
                             "listing succeeds, or the link is unlinked",
                     .to_do = "mend what the message names and run `forebay refresh NAME`",
                     .fault = "index damaged (coordinator)"},
    AlertDescription{.kind = AlertKind::kCoordinatorOutdated,
                     .name = "coordinator_outdated",
                     .when = "nodes have heard of a newer coordinator, until a backup is restored",
                     .to_do = "stop the coordinator that is the wrong one; "
                              "[DEPLOY.md](DEPLOY.md)",
                     .fault = "two coordinators"},
    AlertDescription{.kind = AlertKind::kCoordinatorRefused,
                     .name = "coordinator_refused",
                     .when = "nodes refuse what this coordinator asks, until they do not",
                     .to_do = "stop the coordinator that is the wrong one, or look at its "
                              "certificate",
                     .fault = "two coordinators; wrong role"},
    AlertDescription{
        .kind = AlertKind::kCertificateNotRenewed,
        .name = "certificate_not_renewed",
        .when = "a renewal fails, or a trust folder cannot be read or written, until it succeeds; "
                "of a member only while it asks",
        .to_do = "look at that program's log; `forebay join` with a new token always "
                 "helps ([SECURITY.md](SECURITY.md))",
        .fault = "no certificate"},
    AlertDescription{.kind = AlertKind::kCertificateEnds,
                     .name = "certificate_ends",
                     .when = "a certificate is about to end, until it is renewed",
                     .to_do = "as for `certificate_not_renewed`",
                     .fault = "no certificate"},
    AlertDescription{.kind = AlertKind::kClockWrong,
                     .name = "clock_wrong",
                     .when = "a node's clock is 10 minutes or more from the coordinator's, until "
                             "it is less than 5",
                     .to_do = "set the clock that is wrong, and let a time service keep it",
                     .fault = "wrong clock"},
    AlertDescription{.kind = AlertKind::kNodeSlow,
                     .name = "node_slow",
                     .when = "most mounts find a node several times slower than the others",
                     .to_do = "look at its disks, its network and its load",
                     .fault = "a node 10x slower than its peers; disk slow"},
    AlertDescription{.kind = AlertKind::kNodeOutOfMemory,
                     .name = "node_out_of_memory",
                     .when = "a node was probably killed for want of memory; for an hour",
                     .to_do = "give it less with `--memory-limit`, or the machine more",
                     .fault = "OOM"},
    AlertDescription{.kind = AlertKind::kDiskReadOnly,
                     .name = "disk_readonly",
                     .when = "a node's disk takes no writes: it serves what it holds",
                     .to_do = "look at the kernel's log on that machine; the disk comes back by "
                              "itself",
                     .fault = "disk read-only"},
    AlertDescription{.kind = AlertKind::kS3Throttled,
                     .name = "s3_throttled",
                     .when = "S3 throttles a bucket, until it gives the full rate again",
                     .to_do = "nothing; larger blocks need fewer requests",
                     .fault = "503 SlowDown"},
    AlertDescription{.kind = AlertKind::kLinkFailed,
                     .name = "link_failed",
                     .when = "the last listing of a link failed, and it shows what it showed "
                             "before; until a listing succeeds, or the link is unlinked. A link "
                             "that could not be made has none: its command and its task say why",
                     .to_do = "correct the cause and run `forebay refresh NAME`",
                     .fault = "S3 unreachable; credentials expire; a bad manifest"},
    AlertDescription{.kind = AlertKind::kDrainFailed,
                     .name = "drain_failed",
                     .when = "a drain of a node failed; for an hour, or until it is drained, taken "
                             "back or removed",
                     .to_do = "`forebay node drain ID`, `undrain ID` or `remove ID`",
                     .fault = "node killed while it is drained"},
    AlertDescription{.kind = AlertKind::kNodeFenced,
                     .name = "node_fenced",
                     .when = "from `forebay node fence ID` on, until it is taken back or removed",
                     .to_do = "`forebay node undrain ID` or `forebay node remove ID`",
                     .fault = "none: somebody keeps it out"},
    AlertDescription{.kind = AlertKind::kBlocksSetAside,
                     .name = "blocks_set_aside",
                     .when = "a node crashed on each of these blocks three times",
                     .to_do = "report it with the node's log; `forebay evict` of their files lets "
                              "a newer program try again",
                     .fault = "node killed by what it reads"},
};

constexpr bool InOrder() {
  for (std::size_t i = 0; i < kAlerts.size(); ++i) {
    if (static_cast<std::size_t>(kAlerts[i].kind) != i) return false;
  }
  return kAlerts.size() == static_cast<std::size_t>(AlertKind::kBlocksSetAside) + 1;
}
static_assert(InOrder());

}  // namespace

std::span<const AlertDescription> AllAlerts() { return kAlerts; }

std::string_view AlertName(AlertKind kind) { return kAlerts[static_cast<std::size_t>(kind)].name; }

std::size_t AlertRank(std::string_view name) {
  const auto known = std::ranges::find(kAlerts, name, &AlertDescription::name);
  if (known == kAlerts.end()) return static_cast<std::size_t>(AlertKind::kListingLost);
  return static_cast<std::size_t>(known - kAlerts.begin());
}

}  // namespace forebay
