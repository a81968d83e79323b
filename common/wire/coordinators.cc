#include "common/wire/coordinators.h"

#include <algorithm>

#include "common/wire/client_pool.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

bool IsElsewhere(const Result<RpcReply>& reply) {
  return !reply &&
         (reply.error().code == Code::kUnavailable || reply.error().code == Code::kTimeout);
}

}  // namespace

Task<std::string> LeaderNamedBy(ClientPool& pool, std::vector<std::string> standbys) {
  for (const std::string& standby : standbys) {
    const proto::GetLeaderRequest request;
    Result<RpcReply> reply =
        co_await pool.Call(standby, Method::kGetLeader, request, Deadline::After(kStandbyPatience));
    proto::GetLeaderReply message;
    const bool named = reply && ParseMessage(reply->message, message) && !message.leader().empty();
    if (named) co_return message.leader();
  }
  co_return "";
}

std::string Coordinators::Current() const {
  if (!named_.empty()) return named_;
  return addresses_.empty() ? "" : addresses_[current_ % addresses_.size()];
}

void Coordinators::PassOver() {
  if (named_.empty()) ++current_;
  named_.clear();
}

Task<Result<RpcReply>> Coordinators::Ask(Method method,
                                         const google::protobuf::MessageLite& request,
                                         Duration patience) {
  Result<RpcReply> reply = Fail(Code::kUnavailable, "no coordinator is configured");
  if (!named_.empty()) {
    const std::string named = named_;
    reply = co_await pool_.Call(named, method, request, Deadline::After(patience));
    if (!IsElsewhere(reply)) co_return reply;
    named_.clear();
  }
  std::vector<std::string> standbys;
  // Several calls at once go round by themselves: none may miss an address for another's sake.
  const std::size_t first = current_;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const std::size_t which = (first + i) % addresses_.size();
    const std::string address = addresses_[which];
    const TimePoint asked = Clock::now();
    reply = co_await pool_.Call(address, method, request, Deadline::After(patience));
    if (!IsElsewhere(reply)) {
      current_ = which;
      co_return reply;
    }
    if (Clock::now() - asked < kStandbyPatience) standbys.push_back(address);
  }
  const std::string leader = co_await LeaderNamedBy(pool_, std::move(standbys));
  if (leader.empty() || std::ranges::find(addresses_, leader) != addresses_.end()) co_return reply;
  Result<RpcReply> led = co_await pool_.Call(leader, method, request, Deadline::After(patience));
  if (IsElsewhere(led)) co_return reply;
  named_ = leader;
  co_return led;
}

}  // namespace forebay
