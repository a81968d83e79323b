#include "cli/rotation_followers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <set>

namespace forebay {
namespace {

constexpr int kMostNamed = 5;

Status CheckLeader(const proto::ListMembersReply& reply, const std::vector<Certificate>& believed,
                   const Certificate& present) {
  if (reply.authorities().empty()) {
    return Fail(Code::kInvalid,
                "the coordinator does not say who has followed: it is of an earlier release, has "
                "no certificates, or does not know who stands by beside it");
  }
  const std::set<std::string> there(reply.authorities().begin(), reply.authorities().end());
  std::set<std::string> here;
  for (const Certificate& each : believed) here.insert(each.KeyHash());
  if (there != here || reply.authorities(0) != present.KeyHash()) {
    return Fail(Code::kInvalid,
                "the coordinator that leads has not taken the step before: it looks at its own "
                "trust folder every 5 s; where it is on another machine, copy this folder's ca.pem "
                "and ca.key there first");
  }
  if (reply.settles_in_s() == 0) return {};
  return Fail(Code::kInvalid, fmt::format("the coordinator has just begun to lead, and not all "
                                          "members have asked it: try again in {} s",
                                          reply.settles_in_s()));
}

std::string NamesOf(const google::protobuf::RepeatedPtrField<std::string>& some,
                    std::uint64_t all) {
  const int named = std::min(some.size(), kMostNamed);
  const std::string names = fmt::format("{}", fmt::join(some.begin(), some.begin() + named, ", "));
  const std::uint64_t rest = all - static_cast<std::uint64_t>(named);
  return rest == 0 ? names : fmt::format("{} and {} more", names, rest);
}

}  // namespace

Result<std::string> CheckFollowers(const proto::ListMembersReply& reply, Rotation step,
                                   const std::vector<Certificate>& believed,
                                   const Certificate& present) {
  Status leader = CheckLeader(reply, believed, present);
  if (!leader) return Fail(leader.error());
  const bool switches = step == Rotation::kSwitched;
  const proto::Laggards& laggards = switches ? reply.unaware() : reply.unrenewed();
  if (laggards.all_running() == 0)
    return laggards.all_away() == 0 ? "" : NamesOf(laggards.away(), laggards.all_away());
  return Fail(
      Code::kInvalid,
      fmt::format(
          "not all have followed yet ({}): {}. Try again in some seconds; who does not ask "
          "for ten minutes is not waited for, nor who is revoked",
          switches ? "they do not believe the new authority" : "they have no certificate of it",
          NamesOf(laggards.running(), laggards.all_running())));
}

}  // namespace forebay
