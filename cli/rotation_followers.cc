#include "cli/rotation_followers.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>

#include "common/trust/standing.h"

namespace forebay {
namespace {

/// A program asks every 5 s, and at once where it has just found the coordinator.
constexpr std::chrono::seconds kAllHaveAsked{15};
/// Who has not asked for so long is away: as for the alerts of certificates.
constexpr std::int64_t kAwaySeconds = 600;
constexpr std::size_t kMostNamed = 3;

Status CheckLeader(const proto::ListMembersReply& reply, const std::vector<Certificate>& believed) {
  if (reply.authorities().empty()) {
    return Fail(Code::kInvalid,
                "the coordinator cannot say who has followed: it is of an earlier release, or has "
                "no certificates");
  }
  bool same = static_cast<std::size_t>(reply.authorities_size()) == believed.size();
  for (std::size_t i = 0; same && i < believed.size(); ++i)
    same = reply.authorities(static_cast<int>(i)) == believed[i].KeyHash();
  if (!same) {
    return Fail(Code::kInvalid,
                "the coordinator that leads has not taken the step before: it looks at its own "
                "trust folder every 5 s; where it is on another machine, copy this folder's ca.pem "
                "and keys there first");
  }
  const std::int64_t left = kAllHaveAsked.count() - (reply.now_unix_s() - reply.since_unix_s());
  if (left <= 0) return {};
  return Fail(Code::kInvalid, fmt::format("the coordinator has just begun to lead, and not all "
                                          "members have asked it: try again in {} s",
                                          left));
}

bool HasFollowed(const proto::MemberState& member, Rotation step) {
  return step == Rotation::kSwitched ? member.follows() : member.renewed();
}

/// Who uses a command asks only then.
bool IsOfCommand(const proto::MemberState& member) {
  return member.role() == RoleWord(proto::ROLE_ADMIN) ||
         member.role() == RoleWord(proto::ROLE_VIEWER);
}

std::string NamesOf(const std::vector<std::string>& all) {
  std::string names;
  for (std::size_t i = 0; i < all.size() && i < kMostNamed; ++i)
    names += (i == 0 ? "" : ", ") + all[i];
  if (all.size() > kMostNamed) names += fmt::format(" and {} more", all.size() - kMostNamed);
  return names;
}

}  // namespace

Result<std::vector<std::string>> CheckFollowers(const proto::ListMembersReply& reply, Rotation step,
                                                const std::vector<Certificate>& believed) {
  Status leader = CheckLeader(reply, believed);
  if (!leader) return Fail(leader.error());
  std::vector<std::string> here;
  std::vector<std::string> away;
  for (const proto::MemberState& member : reply.members()) {
    if (member.revoked_unix_s() != 0 || HasFollowed(member, step)) continue;
    const std::int64_t ago = reply.now_unix_s() - member.seen_unix_s();
    const bool is_away = ago >= kAwaySeconds || IsOfCommand(member);
    (is_away ? away : here).push_back(fmt::format("{} {}", member.role(), member.id()));
  }
  if (here.empty()) return away;
  return Fail(Code::kInvalid,
              fmt::format("not all have followed yet ({}): {}. Try again in some seconds; who does "
                          "not ask for ten minutes is not waited for",
                          step == Rotation::kSwitched ? "they do not believe the new authority"
                                                      : "they have no certificate of it",
                          NamesOf(here)));
}

}  // namespace forebay
