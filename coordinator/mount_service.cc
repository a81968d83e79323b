#include "coordinator/mount_service.h"

#include <chrono>
#include <optional>
#include <utility>

#include "common/wire/messages.h"

namespace forebay {

std::vector<MethodEntry> MountService::Methods() {
  std::vector<MethodEntry> methods;
  methods.push_back(
      {Method::kListMounts, [this](RpcCall call) { return ListMounts(std::move(call)); }});
  return methods;
}

/// The link of that name, or the parts of that set.
std::vector<MountBook::Wanted> MountService::LinksOf(const std::string& name) const {
  std::vector<MountBook::Wanted> wanted;
  for (const Link& part : links_.PartsOf(name))
    wanted.push_back({.link = part.spec.name, .set = part.spec.set});
  if (!wanted.empty()) return wanted;
  const Result<Link> link = links_.Find(name);
  wanted.push_back({.link = name, .set = link ? link->spec.set : "", .exists = link.has_value()});
  return wanted;
}

Task<Result<RpcReply>> MountService::ListMounts(RpcCall call) const {
  proto::ListMountsRequest request;
  Status parsed = ParseMessage(call.message, request);
  if (!parsed) co_return Fail(parsed.error());
  const TimePoint now = Clock::now();
  std::optional<std::vector<MountBook::Wanted>> wanted;
  if (!request.link().empty()) wanted = LinksOf(request.link());
  proto::ListMountsReply reply;
  mounts_.List(wanted, request.after(), now, reply);
  const bool is_nothing = reply.mounts().empty() && request.after().empty();
  // Whoever has mounted what has been removed is shown, and nobody has mounted this.
  if (wanted && is_nothing && !wanted->front().exists) {
    const Result<Link> link = links_.Find(request.link());
    if (!link) co_return Fail(link.error());
  }
  reply.set_listening_ms(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now - began_).count()));
  co_return ReplyWith(reply);
}

}  // namespace forebay
