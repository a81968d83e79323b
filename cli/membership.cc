#include "cli/membership.h"

#include <fmt/format.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <system_error>
#include <utility>

#include "cli/text.h"
#include "common/base/config_values.h"
#include "common/base/executors.h"
#include "common/base/machine_id.h"
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
// Of the packages' services (ops/debian/postinst).
constexpr const char* kCoordinatorUser = "forebay";
constexpr const char* kNodeUser = "forebay-node";
constexpr std::size_t kUserRoom = 16384;  // as UserName

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
                         const JoinToken& token,
                         const std::optional<TlsContext::KeptCluster>& kept) {
  Result<std::shared_ptr<const TlsContext>> context =
      TlsContext::Joining(token.authority_hash, kept);
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

struct UserIds {
  uid_t user;
  gid_t group;
};

std::optional<UserIds> FindUser(const char* name) {
  std::string room(kUserRoom, '\0');
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(name, &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return UserIds{.user = found->pw_uid, .group = found->pw_gid};
}

/// What [trust] dir of the file names to who is `role`; "" where it names nothing, or that reads no
/// configuration.
std::string ConfiguredTrustDir(proto::Role role, const std::string& config) {
  return IsOfCommand(role) ? "" : TextInConfigFile(config, "trust", "dir");
}

/// Of all programs, where the folder is not the one that who is `role` looks into by itself; also
/// where the file names one, so that another one is said.
std::vector<SettingGroup> TrustSettings(proto::Role role, const std::string& trust_dir,
                                        const std::string& config) {
  if (trust_dir == PackagesTrustDir(role) && ConfiguredTrustDir(role, config).empty()) return {};
  return {{{.section = "trust", .key = "dir", .value = TomlString(trust_dir)}}};
}

/// It is written into configurations, which services read from anywhere.
std::string Absolute(const std::string& folder) {
  std::error_code error;
  std::string whole = std::filesystem::absolute(folder, error).string();
  if (error) return folder;
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  return whole;
}

/// "" where it names no folder.
std::string NamedByEnvironment() {
  const char* folder = ::secure_getenv("FOREBAY_TRUST_DIR");
  return folder == nullptr || *folder == '\0' ? "" : Absolute(folder);
}

}  // namespace

proto::Role RoleOfCommand(const TrustFolder& folder) {
  const Result<Certificate> admin = folder.LoadCertificate(proto::ROLE_ADMIN);
  const bool is_admin = admin || admin.error().code != Code::kNotFound;
  return is_admin || !folder.LoadCertificate(proto::ROLE_VIEWER) ? proto::ROLE_ADMIN
                                                                 : proto::ROLE_VIEWER;
}

std::string TrustDirOfEnvironment() {
  const std::string named = NamedByEnvironment();
  return named.empty() ? kDefaultTrustDir : named;
}

void DeclareTrustDir(Options& options, std::string& out) {
  out = NamedByEnvironment();
  options.Flag("--trust-dir", "DIR",
               "where the certificates of this machine are (default FOREBAY_TRUST_DIR, or " +
                   std::string(kDefaultTrustDir) + ", or for a node of the packages " +
                   kNodeTrustDir + ")",
               [&out](const std::string& folder) -> Status {
                 out = Absolute(folder);
                 return {};
               });
}

std::string HostAsId() {
  std::string id = HostName();
  return CheckMemberId(id) ? id : "";
}

std::string AsOthersReach(const std::string& address) {
  Result<HostPort> place = HostPort::Parse(address);
  const std::string host = HostAsId();
  if (!place || !place->IsLoopback() || host.empty()) return address;
  return HostPort{host, place->port}.ToString();
}

Result<MemberProof> Join(const std::string& address, const JoinToken& token,
                         const std::string& role, const std::string& id,
                         const std::optional<TlsContext::KeptCluster>& kept) {
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
  Result<RpcReply> answer = RunJoin(address, request, token, kept);
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

std::string PackagesTrustDir(proto::Role role) {
  const bool is_apart = role == proto::ROLE_NODE && ::geteuid() == 0 && FindUser(kNodeUser);
  return is_apart ? kNodeTrustDir : kDefaultTrustDir;
}

std::string TrustDirOf(proto::Role role, const std::string& named, const std::string& config) {
  if (!named.empty()) return named;
  const std::string configured = ConfiguredTrustDir(role, config);
  return configured.starts_with('/') ? configured : PackagesTrustDir(role);
}

Status GiveToServices(proto::Role role, const std::string& trust_dir) {
  const bool is_packages = trust_dir == kNodeTrustDir || trust_dir == kDefaultTrustDir;
  struct stat folder{};
  const bool is_roots = ::geteuid() == 0 && is_packages &&
                        ::stat(trust_dir.c_str(), &folder) == 0 && folder.st_uid == 0;
  if (!is_roots) return {};
  const bool is_nodes = trust_dir == kNodeTrustDir || PackagesTrustDir(role) == kNodeTrustDir;
  const char* name = is_nodes ? kNodeUser : kCoordinatorUser;
  const std::optional<UserIds> owner = FindUser(name);
  if (!owner) return {};
  const auto give = [&](const std::filesystem::path& path) -> Status {
    if (::lchown(path.c_str(), owner->user, owner->group) == 0) return {};
    return Fail(Code::kInternal, "giving " + path.string() + " to the user " + name + ": " +
                                     std::generic_category().message(errno));
  };
  std::error_code error;
  Status given;
  for (const auto& each : std::filesystem::directory_iterator(trust_dir, error))
    if (given) given = give(each.path());
  // The folder last: while it is root's this is done anew.
  return given ? give(trust_dir) : given;
}

Result<std::string> HostForOthers(const std::string& coordinator) {
  const Result<HostPort> place = HostPort::Parse(coordinator);
  if (!place) return Fail(place.error());
  if (place->IsLoopback()) return std::string();
  asio::io_context loop(1);
  boost::system::error_code error;
  const auto found =
      asio::ip::udp::resolver(loop).resolve(place->host, std::to_string(place->port), error);
  for (const auto& each : found) {
    asio::ip::udp::socket socket(loop);
    const asio::ip::udp::endpoint other = each.endpoint();
    // Chooses the way there; nothing is sent.
    socket.open(other.protocol(), error);
    if (!error) socket.connect(other, error);
    if (error) continue;
    const asio::ip::udp::endpoint own = socket.local_endpoint(error);
    if (error) continue;
    const bool is_here = own.address().is_loopback() || other.address() == own.address();
    return is_here ? place->host : own.address().to_string();
  }
  return Fail(Code::kUnavailable, "this machine has no address towards " + coordinator);
}

Status CheckAdvertised(const std::string& advertise) {
  const Result<HostPort> place = HostPort::Parse(advertise);
  if (!place) return Fail(place.error().Within("--advertise"));
  if (place->host != "0.0.0.0" && place->host != "::" && place->port != 0) return {};
  return Fail(Code::kInvalid, "--advertise: \"" + advertise +
                                  "\" is no address that others can use; name this machine's");
}

std::string AllAddresses(const HostPort& advertised) {
  if (advertised.IsLoopback()) return advertised.ToString();
  const bool is_v6 = advertised.host.find(':') != std::string::npos;
  return HostPort{is_v6 ? "::" : "0.0.0.0", advertised.port}.ToString();
}

std::vector<SettingGroup> MemberSettings(const std::string& trust_dir, proto::Role role,
                                         const std::string& coordinator,
                                         const std::string& advertise, const std::string& config) {
  if (IsOfCommand(role)) return {};
  std::vector<SettingGroup> settings = TrustSettings(role, trust_dir, config);
  const bool is_node = role == proto::ROLE_NODE;
  const std::string section = is_node ? "node" : "mount";
  settings.push_back(
      {{.section = section, .key = "coordinator", .value = "[" + TomlString(coordinator) + "]"}});
  const Result<HostPort> place = HostPort::Parse(advertise);
  if (!is_node || !place) return settings;
  SettingGroup reach = {
      {.section = section, .key = "listen", .value = TomlString(AllAddresses(*place))}};
  if (!place->IsLoopback())
    reach.push_back({.section = section, .key = "advertise", .value = TomlString(advertise)});
  settings.push_back(std::move(reach));
  return settings;
}

std::vector<SettingGroup> CoordinatorSettings(const std::string& trust_dir,
                                              const HostPort& advertise,
                                              const std::string& config) {
  if (advertise.IsLoopback()) return {};
  std::vector<SettingGroup> settings = TrustSettings(proto::ROLE_COORDINATOR, trust_dir, config);
  settings.push_back(
      {{.section = "coordinator", .key = "listen", .value = TomlString(AllAddresses(advertise))}});
  return settings;
}

CompletedConfig Configure(const Console& console, const std::string& trust_dir,
                          const std::vector<SettingGroup>& wanted, const std::string& verb) {
  const std::string path =
      (std::filesystem::path(trust_dir).parent_path() / "forebay.toml").string();
  Result<CompletedConfig> config = CompleteConfigFile(path, wanted, "By " + verb + ".");
  if (config) return std::move(*config);
  std::vector<Setting> all;
  for (const SettingGroup& group : wanted) all.insert(all.end(), group.begin(), group.end());
  console.err << fmt::format("{}: {} is not changed, and needs {}\n",
                             Escaped(config.error().message), Escaped(path),
                             Escaped(ShowSettings(all)));
  return {.path = path, .text = {}, .added = {}, .kept = {}};
}

boost::json::value ConfigMember(const CompletedConfig& config) {
  return config.added.empty() ? boost::json::value() : boost::json::value(ValidUtf8(config.path));
}

}  // namespace forebay
