#include "cli/rpc_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <tuple>
#include <utility>

#include "cli/membership.h"
#include "cli/user_name.h"
#include "common/base/version.h"
#include "common/base/wall_clock.h"
#include "common/config/trust_config.h"
#include "common/trust/renewal.h"
#include "common/wire/address.h"
#include "common/wire/coordinators.h"
#include "common/wire/handshake.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// All coordinators together have so long to answer the first time: a verb that finds none says so
/// within 5 s, its start and its end included.
constexpr std::chrono::milliseconds kReachWithin{4500};

/// A call whose work is alive is only bounded by this: a silent coordinator is noticed by
/// ClientPool within seconds. A `check` of a billion objects is the longest work that there is.
constexpr std::chrono::hours kLongestCall{6};

}  // namespace

RpcSession::RpcSession(Options options)
    : options_(std::move(options)),
      deadline_(Deadline::After(options_.timeout.value_or(kLongestCall))) {}

RpcSession::~RpcSession() {
  if (pool_) pool_->Close();
  boost::system::error_code ignored;
  signals_.cancel(ignored);
  // Lets what was closed end while the objects it refers to live.
  context_.restart();
  context_.poll();
}

std::string RpcSession::Address() const {
  return address_.empty() ? fmt::format("{}", fmt::join(options_.coordinators, ", ")) : address_;
}

std::expected<void, Failure> RpcSession::MakePool() {
  const TrustFolder folder(options_.trust_dir);
  Result<std::shared_ptr<Trust>> trust = Trust::Open(folder, RoleOfCommand(folder));
  if (!trust) return std::unexpected(Failure(trust.error()));
  const Status alone = *trust ? Status() : ExpectNoCluster(options_.trust_dir);
  if (!alone) return std::unexpected(Failure(alone.error()));
  // Who has a certificate needs no runtime directory, as a user whom a service runs as.
  const bool is_tls = *trust && std::ranges::all_of(options_.coordinators, [](const auto& each) {
    return UnixPathOf(each).empty();
  });
  Result<Secret> secret = is_tls ? Secret() : LoadOrCreateSecret();
  if (!secret) return std::unexpected(Failure(secret.error(), "", Exit::kFailed));
  ClientPoolOptions options;
  trust_ = *trust;
  options.credentials.trust = trust_;
  options.credentials.role = *trust ? (*trust)->self().role : proto::ROLE_ADMIN;
  // For the audit, where no certificate says who this is.
  options.credentials.id = *trust ? (*trust)->self().id : UserName();
  options.credentials.program = "forebay " + std::string(Version());
  options.credentials.secret = std::move(*secret);
  options.connect_timeout = std::max<Duration>(kReachWithin / options_.coordinators.size(),
                                               std::chrono::milliseconds(500));
  // The CLI reads no blocks: it has no ring table that could be old.
  pool_ = std::make_unique<ClientPool>(
      context_, std::move(options), [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  return {};
}

Result<RpcReply> RpcSession::CallAt(std::string address, Method method,
                                    const google::protobuf::MessageLite& request, Deadline deadline,
                                    CallHandle* call) {
  std::optional<Result<RpcReply>> answer;
  asio::co_spawn(context_, pool_->Call(std::move(address), method, request, deadline, call),
                 [&answer](const std::exception_ptr& failed, Result<RpcReply> reply) {
                   if (failed) std::rethrow_exception(failed);
                   answer = std::move(reply);
                 });
  context_.restart();
  while (!answer && !interrupted_) context_.run_one();
  if (answer) return std::move(*answer);
  // Its coroutine must end before `answer` and `request` do.
  pool_->Close();
  while (!answer) context_.run_one();
  pool_.reset();
  address_.clear();
  return Fail(Code::kTimeout, "interrupted");
}

Failure RpcSession::NotReached(const std::string& reasons) const {
  return Failure(Error{Code::kUnavailable, "no coordinator answers: " + reasons},
                 "start forebay-coordinator, or name another with --coordinator HOST:PORT or "
                 "FOREBAY_COORDINATOR",
                 Exit::kFailed);
}

Failure RpcSession::TimedOutFailure() const {
  const auto given = std::chrono::duration<double>(*options_.timeout).count();
  return Failure(Error{Code::kTimeout, fmt::format("not done within --timeout, {:.3g} s", given)},
                 "run the command again with a longer --timeout", Exit::kTimeout);
}

/// A certificate of the command is renewed when it is used, and with it whom to believe. Whether
/// that works decides nothing: what is asked next says whether it matters.
void RpcSession::KeepCertificate(const std::string& address, Deadline deadline) {
  if (!trust_) return;
  Renewal renewal(trust_);
  const Result<proto::RenewRequest> request = renewal.Prepare(UnixSeconds());
  if (!request) return;
  const Result<RpcReply> answer = CallAt(address, Method::kRenew, *request, deadline);
  proto::RenewReply reply;
  const Status good = answer ? ParseMessage(answer->message, reply) : Fail(answer.error());
  if (good) {
    std::ignore = renewal.Take(reply, UnixSeconds());
  } else if (good.error().code != Code::kUnavailable && good.error().code != Code::kTimeout) {
    renewal.Failed(good.error(), UnixSeconds());
  }
}

/// Who leads, as the coordinator at `address` says; "" = it does not.
std::string RpcSession::LeaderNamedBy(const std::string& address) {
  const proto::GetLeaderRequest request;
  Result<RpcReply> answer =
      CallAt(address, Method::kGetLeader, request, deadline_.AtMost(kStandbyPatience));
  proto::GetLeaderReply message;
  return answer && ParseMessage(answer->message, message) ? message.leader() : "";
}

/// Finds the first coordinator that answers. Asked is something cheap that cannot fail, so that a
/// failure means that nobody is there, and a later one is the coordinator's own word.
std::expected<void, Failure> RpcSession::Connect() {
  if (!pool_) {
    std::expected<void, Failure> made = MakePool();
    if (!made) return made;
  }
  std::vector<std::string> places = options_.coordinators;
  std::vector<std::string> standbys;
  std::string reasons;
  std::size_t refusals = 0;
  const Deadline all = deadline_.AtMost(kReachWithin);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string address = places[i];
    const TimePoint asked = Clock::now();
    // Who is silent takes its own share only: the next one may answer.
    const auto left = static_cast<int>(places.size() - i);
    CallHandle call;
    Status found = TryAt(address, all.AtMost(all.Remaining() / left), call);
    if (found) return {};
    if (interrupted_ || TimedOut()) break;
    if (!reasons.empty()) reasons += "; ";
    const std::string& message = found.error().message;
    const bool names_it = message.find(address) != std::string::npos;
    reasons += names_it ? message : address + ": " + message;
    const bool refused = RefusedToBeAsked(found.error(), call);
    if (refused) ++refusals;
    // It was asked and denies it, or none of them lets itself be asked: the reason must not drown.
    if ((found.error().code == Code::kDenied && !refused) || refusals == places.size()) {
      const bool needs_one = !trust_ && reasons.find("certificate") != std::string::npos;
      const std::string hint =
          needs_one ? fmt::format("{} holds none; FOREBAY_TRUST_DIR names another folder",
                                  options_.trust_dir)
                    : "";
      return std::unexpected(Failure(Error{Code::kDenied, reasons}, hint, Exit::kFailed));
    }
    if (!refused && Clock::now() - asked < kStandbyPatience) standbys.push_back(address);
    if (i + 1 < places.size()) continue;
    for (const std::string& standby : std::exchange(standbys, {})) {
      const std::string leader = LeaderNamedBy(standby);
      if (leader.empty()) continue;
      if (std::ranges::find(places, leader) == places.end()) places.push_back(leader);
      break;
    }
  }
  if (TimedOut()) return std::unexpected(TimedOutFailure());
  return std::unexpected(NotReached(reasons));
}

Status RpcSession::TryAt(const std::string& address, Deadline deadline, CallHandle& call) {
  KeepCertificate(address, deadline);
  proto::GetRingRequest probe;
  probe.set_have_epoch(UINT64_MAX);
  Result<RpcReply> answer = CallAt(address, Method::kGetRing, probe, deadline, &call);
  if (!answer) return Fail(answer.error());
  address_ = address;
  return {};
}

std::expected<RpcReply, Failure> RpcSession::Call(Method method,
                                                  const google::protobuf::MessageLite& request) {
  if (address_.empty()) {
    std::expected<void, Failure> connected = Connect();
    if (!connected) return std::unexpected(connected.error());
  }
  CallHandle call;
  Result<RpcReply> reply = CallAt(address_, method, request, deadline_, &call);
  if (reply) return std::move(*reply);
  if (TimedOut()) return std::unexpected(TimedOutFailure());
  const std::string& message = reply.error().message;
  if (message.starts_with("forebay-node ") && message.find(" has no request ") != message.npos) {
    return std::unexpected(
        Failure(Error{Code::kInvalid, address_ + " is a node, and no coordinator"},
                "name the coordinator with --coordinator HOST:PORT or "
                "FOREBAY_COORDINATOR",
                Exit::kFailed));
  }
  if (reply.error().code != Code::kUnavailable) return std::unexpected(Failure(reply.error()));
  // It may have gone away; the next call looks for one that answers. Every verb can be repeated.
  address_.clear();
  const bool in_doubt = call.was_sent() && !call.was_answered();
  return std::unexpected(
      Failure(reply.error(), in_doubt ? "whether it was done is not known: run the command again"
                                      : std::string()));
}

void RpcSession::CatchInterrupts() {
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  signals_.async_wait([this](boost::system::error_code stopped, int) {
    if (!stopped) interrupted_ = true;
  });
}

bool RpcSession::Pause(Duration duration) {
  bool over = false;
  asio::steady_timer timer(context_, deadline_.AtMost(duration).at());
  timer.async_wait([&over](boost::system::error_code) { over = true; });
  context_.restart();
  while (!over && !interrupted_) context_.run_one();
  timer.cancel();
  while (!over) context_.run_one();
  return !interrupted_;
}

}  // namespace forebay
