#include "common/wire/coordinators.h"

#include <algorithm>

#include "common/wire/client_pool.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

bool IsElsewhere(const Result<RpcReply>& reply, const CallHandle& call) {
  return !reply && (reply.error().code == Code::kUnavailable ||
                    reply.error().code == Code::kTimeout || RefusedToBeAsked(reply.error(), call));
}

}  // namespace

bool RefusedToBeAsked(const Error& why, const CallHandle& call) {
  return why.code == Code::kDenied && !call.was_sent();
}

void Unanswered::Note(const std::string& address, Error why, bool refused) {
  if (!refused) {
    silent_ = std::move(why);
    return;
  }
  const bool names_it = why.message.find(address) != std::string::npos;
  refusals_ += "; " + (names_it ? "" : address + ": ") + why.message;
  if (!denied_) denied_ = std::move(why);
}

Error Unanswered::Sum() const {
  if (!silent_) return denied_.value_or(Error{Code::kUnavailable, "no coordinator is configured"});
  return Error{silent_->code, silent_->message + refusals_};
}

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
  Unanswered unanswered;
  if (!named_.empty()) {
    const std::string named = named_;
    CallHandle call;
    Result<RpcReply> reply =
        co_await pool_.Call(named, method, request, Deadline::After(patience), &call);
    if (!IsElsewhere(reply, call)) co_return reply;
    named_.clear();
  }
  std::vector<std::string> standbys;
  // Several calls at once go round by themselves: none may miss an address for another's sake.
  const std::size_t first = current_;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const std::size_t which = (first + i) % addresses_.size();
    const std::string address = addresses_[which];
    const TimePoint asked = Clock::now();
    CallHandle call;
    Result<RpcReply> reply =
        co_await pool_.Call(address, method, request, Deadline::After(patience), &call);
    if (!IsElsewhere(reply, call)) {
      current_ = which;
      co_return reply;
    }
    const bool refused = RefusedToBeAsked(reply.error(), call);
    unanswered.Note(address, reply.error(), refused);
    if (!refused && Clock::now() - asked < kStandbyPatience) standbys.push_back(address);
  }
  const std::string leader = co_await LeaderNamedBy(pool_, std::move(standbys));
  const bool asked_it = std::ranges::find(addresses_, leader) != addresses_.end();
  if (leader.empty() || asked_it) co_return Fail(unanswered.Sum());
  CallHandle call;
  Result<RpcReply> led =
      co_await pool_.Call(leader, method, request, Deadline::After(patience), &call);
  if (IsElsewhere(led, call)) co_return Fail(unanswered.Sum());
  named_ = leader;
  co_return led;
}

}  // namespace forebay
