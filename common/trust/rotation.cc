#include "common/trust/rotation.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace forebay {
namespace {

/// Every member that runs has asked the coordinator, which looks at its files every few seconds.
constexpr std::chrono::seconds kHeardBy{30};

Status CheckAge(std::int64_t begins_unix_s, std::int64_t now_unix_s, const std::string& what) {
  const std::int64_t issued = begins_unix_s + std::chrono::seconds(kClockTolerance).count();
  const std::int64_t left = issued + kHeardBy.count() - now_unix_s;
  if (left <= 0) return {};
  return Fail(Code::kInvalid, "the members have to hear of " + what + " first: try again in " +
                                  std::to_string(left) + " s");
}

Result<Rotation> Begin(const TrustFolder& folder, const Authority& now, std::int64_t now_unix_s) {
  Result<MemberProof> coordinator = folder.Load(proto::ROLE_COORDINATOR);
  if (!coordinator) return Fail(coordinator.error());
  Result<Authority> next = Authority::Make(coordinator->self.cluster, now_unix_s);
  if (!next) return Fail(next.error());
  // Interrupted in between it is believed without a key, which costs nothing: see below.
  Status saved = folder.SaveAuthorities({now.certificate(), next->certificate()});
  if (saved) saved = folder.SaveNextAuthority(*next);
  if (!saved) return Fail(saved.error());
  return Rotation::kBegun;
}

/// The one whose key is beside the present one's. kNotFound: there is none; a key that was left
/// behind when another machine's files were copied here, of what is the present one by now, is
/// none.
Result<Authority> LoadNext(const TrustFolder& folder, const Authority& now) {
  Result<Authority> next = folder.LoadNextAuthority();
  if (next && next->certificate().KeyHash() == now.certificate().KeyHash())
    return Fail(Code::kNotFound, "that is the present authority");
  return next;
}

Result<Authority> LoadPresent(const TrustFolder& folder) {
  Result<Authority> now = folder.LoadAuthority();
  if (now || now.error().code != Code::kNotFound) return now;
  return Fail(Code::kInvalid, folder.path() +
                                  " does not hold the authority's key (ca.key): only where it is "
                                  "can the next one be made");
}

}  // namespace

Result<Rotation> NextRotation(const TrustFolder& folder) {
  Result<Authority> now = LoadPresent(folder);
  if (!now) return Fail(now.error());
  Result<std::vector<Certificate>> believed = folder.LoadAuthorities();
  if (!believed) return Fail(believed.error());
  const Result<Authority> next = LoadNext(folder, *now);
  if (next) return Rotation::kSwitched;
  if (next.error().code != Code::kNotFound) return Fail(next.error());
  return believed->size() == 1 ? Rotation::kBegun : Rotation::kEnded;
}

Result<Rotation> RotateAuthority(const TrustFolder& folder, std::int64_t now_unix_s,
                                 HeardBy heard_by) {
  Result<Rotation> step = NextRotation(folder);
  if (!step) return step;
  Result<Authority> now = LoadPresent(folder);
  if (!now) return Fail(now.error());
  if (*step == Rotation::kBegun) return Begin(folder, *now, now_unix_s);
  if (*step == Rotation::kSwitched) {
    Result<Authority> next = LoadNext(folder, *now);
    if (!next) return Fail(next.error());
    Status heard = CheckAge(next->certificate().begins_unix_s(), now_unix_s, "the new authority");
    if (heard) heard = folder.SwitchAuthority();
    if (!heard) return Fail(heard.error());
    return step;
  }
  Result<MemberProof> coordinator = folder.Load(proto::ROLE_COORDINATOR);
  if (!coordinator) return Fail(coordinator.error());
  if (!coordinator->certificate.IsIssuedBy(now->certificate())) {
    return Fail(Code::kInvalid,
                "the coordinator has not renewed its own certificate yet: is it "
                "running, and may it write to " +
                    folder.path() + "?");
  }
  // Certificates of a minute or two are renewed before they are that old.
  Status heard;
  if (heard_by == HeardBy::kTime) {
    heard = CheckAge(coordinator->certificate.begins_unix_s(), now_unix_s,
                     "the authority that issues now");
  }
  if (heard) heard = folder.SaveAuthorities({now->certificate()});
  if (heard) heard = folder.RemoveNextAuthority();
  if (!heard) return Fail(heard.error());
  return step;
}

}  // namespace forebay
