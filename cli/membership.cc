#include "cli/membership.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/config_values.h"
#include "common/base/executors.h"
#include "common/base/files.h"
#include "common/base/host_port.h"
#include "common/base/version.h"
#include "common/base/wall_clock.h"
#include "common/config/trust_config.h"
#include "common/trust/join_token.h"
#include "common/trust/tls.h"
#include "common/wire/client_pool.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

constexpr std::chrono::seconds kJoinWithin{10};
// While others ask to join, too.
constexpr std::chrono::milliseconds kJoinPause{300};

Task<Result<RpcReply>> AskToJoin(ClientPool* pool, std::string address, proto::JoinRequest request,
                                 const Secret* secret) {
  const Deadline deadline = Deadline::After(kJoinWithin);
  Result<std::string> channel = co_await pool->Channel(address, deadline);
  if (!channel) co_return Fail(channel.error());
  request.set_proof(JoinProof(*secret, *channel, request.request()));
  for (;;) {
    Result<RpcReply> reply = co_await pool->Call(address, Method::kJoin, request, deadline);
    const bool crowded = !reply && reply.error().code == Code::kOverloaded;
    if (!crowded || deadline.Expired()) co_return reply;
    co_await SleepFor(kJoinPause);
  }
}

Result<RpcReply> RunJoin(const std::string& address, const proto::JoinRequest& request,
                         const JoinToken& token) {
  Result<std::shared_ptr<const TlsContext>> context = TlsContext::Joining(token.authority_hash);
  if (!context) return Fail(context.error());
  asio::io_context loop(1);
  ClientPoolOptions options;
  options.credentials.role = proto::ROLE_STRANGER;
  options.credentials.program = "forebay " + std::string(Version());
  options.credentials.trust = std::make_shared<Trust>(std::move(*context));
  ClientPool pool(loop, std::move(options), [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
  std::optional<Result<RpcReply>> answer;
  asio::co_spawn(loop, AskToJoin(&pool, address, request, &token.secret),
                 [&answer](const std::exception_ptr& failed, Result<RpcReply> reply) {
                   if (failed) std::rethrow_exception(failed);
                   answer = std::move(reply);
                 });
  while (!answer) loop.run_one();
  pool.Close();
  loop.restart();
  loop.poll();
  return std::move(*answer);
}

}  // namespace

std::string TrustDirOfEnvironment() {
  const char* folder = ::secure_getenv("FOREBAY_TRUST_DIR");
  return folder == nullptr ? kDefaultTrustDir : folder;
}

void DeclareTrustDir(Options& options, std::string& out) {
  out = TrustDirOfEnvironment();
  options.Text("--trust-dir", "DIR",
               "where the certificates of this machine are (default FOREBAY_TRUST_DIR, or " +
                   std::string(kDefaultTrustDir) + ")",
               out);
}

std::string HostAsId() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  std::string id(name.data());
  return CheckMemberId(id) ? id : "";
}

std::string AsOthersReach(const std::string& address) {
  Result<HostPort> place = HostPort::Parse(address);
  const std::string host = HostAsId();
  if (!place || !place->IsLoopback() || host.empty()) return address;
  return HostPort{host, place->port}.ToString();
}

Result<MemberProof> Join(const std::string& address, const JoinToken& token,
                         const std::string& role, const std::string& id) {
  Result<PrivateKey> key = PrivateKey::Generate();
  if (!key) return Fail(key.error());
  Result<std::string> certificate_request = MakeRequest(*key);
  if (!certificate_request) return Fail(certificate_request.error());
  proto::JoinRequest request;
  request.set_token_id(token.id);
  request.set_request(*certificate_request);
  request.set_id(id);
  request.set_role(role);
  request.set_clock_unix_s(UnixSeconds());
  Result<RpcReply> answer = RunJoin(address, request, token);
  if (!answer) return Fail(answer.error());
  proto::JoinReply reply;
  Status parsed = ParseMessage(answer->message, reply);
  if (!parsed) return Fail(parsed.error());
  Result<Certificate> certificate = Certificate::FromPem(reply.certificate());
  if (!certificate) return Fail(certificate.error().Within("the coordinator's answer"));
  Result<std::vector<Certificate>> authorities = Certificate::AllFromPem(reply.authorities());
  if (!authorities) return Fail(authorities.error().Within("the coordinator's answer"));
  Result<Identity> self = certificate->Member();
  if (!self) return Fail(self.error());
  const bool pinned = std::ranges::any_of(*authorities, [&](const Certificate& each) {
    return each.KeyHash() == token.authority_hash;
  });
  if (!pinned || !certificate->Fits(*key))
    return Fail(Code::kCorrupt, "the coordinator's answer does not fit the token or the key");
  return MemberProof{.authorities = std::move(*authorities),
                     .certificate = *certificate,
                     .key = *key,
                     .self = std::move(*self)};
}

Result<std::string> WriteFirstConfig(const TrustFolder& folder, const std::string& coordinator) {
  const std::string path =
      (std::filesystem::path(folder.path()).parent_path() / "forebay.toml").string();
  std::error_code error;
  if (std::filesystem::exists(path, error) || error) return std::string();
  const std::string named = "coordinator = [" + TomlString(coordinator) + "]\n";
  const std::string text = "[trust]\ndir = " + TomlString(folder.path()) + "\n\n[node]\n" + named +
                           "\n[mount]\n" + named;
  Status written = WriteFileAtomically(path, text);
  if (!written) return Fail(written.error());
  return path;
}

}  // namespace forebay
