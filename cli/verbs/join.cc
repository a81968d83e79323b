#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <istream>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/json.h"
#include "cli/membership.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/host_port.h"
#include "common/config/trust_config.h"
#include "common/trust/join_token.h"

namespace forebay {
namespace {

constexpr std::uint16_t kNodePort = 7441;

/// This machine becomes a member of a cluster, or gets a new certificate in it. What fails leaves
/// everything as it was.
class JoinVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("COORDINATOR", "where the coordinator of the cluster is: HOST:PORT", address_);
    options.Text("--token", "T",
                 "the token, as `forebay init` or `forebay token create` printed it; - reads it "
                 "from standard input, where no other user of this machine can see it",
                 token_);
    options.Text("--role", "client|node|admin|viewer",
                 "refuses a token for anything else (default: the token's)", role_);
    options.Text("--id", "ID", "the name of this member (default: this host's name)", id_);
    options.Text("--advertise", "HOST:PORT",
                 "of a node: where other machines reach it, and the port that it listens on "
                 "(default: this machine's address on the way to the coordinator, port 7441)",
                 advertise_);
    DeclareTrustDir(options, named_dir_);
  }

  Outcome Run(VerbContext& context) override {
    Status checked = Check(context.console);
    if (!checked) return std::unexpected(Failure(checked.error()));
    const Status fits = CheckFolders();
    if (!fits) return std::unexpected(Failure(fits.error()));
    Result<MemberProof> member =
        Join(address_, joined_with_, role_, id_.empty() ? HostAsId() : id_, kept_);
    if (!member) return std::unexpected(Failure(member.error().Within("joining " + address_)));
    const proto::Role role = member->self.role;
    const std::string trust_dir = TrustDirOf(role, named_dir_);
    const Result<Certificate> before = TrustFolder(trust_dir).LoadCertificate(role);
    const Result<Identity> was = before ? before->Member() : Result<Identity>(Fail(before.error()));
    Status saved = TrustFolder(trust_dir).Save(*member);
    if (saved) saved = GiveToServices(role, trust_dir);
    if (!saved) return std::unexpected(Failure(saved.error()));
    const CompletedConfig config =
        Configure(context.console, named_dir_.empty() ? kDefaultTrustDir : named_dir_,
                  Wanted(context.console, role, trust_dir), "forebay join");
    Print(context.console, *member, trust_dir, config);
    if (was && was->id != member->self.id) {
      context.console.err << fmt::format("{} was {} until now: restart the program that uses it\n",
                                         Escaped(trust_dir), NameOf(*was));
    }
    return Exit::kDone;
  }

 private:
  Status Check(const Console& console) {
    if (token_.empty()) return Fail(Code::kInvalid, "--token is missing");
    if (token_ == "-") std::getline(console.in, token_);
    // Also the whole line that has it.
    if (const std::size_t flag = token_.rfind("--token "); flag != std::string::npos)
      token_.erase(0, flag + std::string_view("--token ").size());
    while (!token_.empty() && token_.back() == ' ') token_.pop_back();
    const Secret text(std::exchange(token_, {}));
    if (!role_.empty() && RoleOfWord(role_) == proto::ROLE_UNKNOWN)
      return Fail(Code::kInvalid, "\"" + role_ + "\" is no role: client, node, admin or viewer");
    const Result<HostPort> place = HostPort::Parse(address_);
    if (!place) return Fail(place.error());
    Status named = CheckAdvertise();
    if (!named) return named;
    Result<JoinToken> token = JoinToken::Parse(text.Reveal());
    if (!token) return Fail(token.error());
    joined_with_ = std::move(*token);
    return {};
  }

  /// Before the token is used. Where its role is not known yet, one folder that can be written is
  /// enough.
  Status CheckFolders() {
    Status writable;
    bool any = false;
    for (const proto::Role each : RolesToTake()) {
      const TrustFolder folder(TrustDirOf(each, named_dir_));
      Status fits = KeepCluster(folder);
      if (!fits) return fits;
      Status can = folder.CheckWritable();
      any = any || can;
      if (!can) writable = std::move(can);
    }
    if (any || writable) return {};
    return Fail(writable.error().code, writable.error().message +
                                           ": join as a user who may write there, or name another "
                                           "--trust-dir; the token was not used");
  }

  /// Which one it is may be the token's secret so far.
  std::vector<proto::Role> RolesToTake() const {
    if (!role_.empty()) return {RoleOfWord(role_)};
    return {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_ADMIN, proto::ROLE_VIEWER};
  }

  Status CheckAdvertise() const {
    if (advertise_.empty()) return {};
    const Status usable = CheckAdvertised(advertise_);
    if (!usable) return usable;
    if (role_.empty() || role_ == "node") return {};
    return Fail(Code::kInvalid, "--advertise is for a node, and not for " + role_);
  }

  /// What forebay.toml needs for a member of `role` whose certificate is in `trust_dir`.
  std::vector<SettingGroup> Wanted(const Console& console, proto::Role role,
                                   const std::string& trust_dir) const {
    std::string advertise = advertise_;
    if (role == proto::ROLE_NODE && advertise.empty()) {
      const Result<std::string> host = HostForOthers(address_);
      if (!host) {
        console.err << fmt::format("{}: join with --advertise HOST:PORT\n",
                                   Escaped(host.error().message));
      } else if (!host->empty()) {
        advertise = HostPort{*host, kNodePort}.ToString();
      }
    }
    return MemberSettings(trust_dir, role, address_, advertise);
  }

  /// A certificate of one cluster beside another's authority would be believed by nobody. Who
  /// missed a change of the authority has the one before, of the same cluster: what the
  /// coordinator's certificate says of that decides, before the token is used.
  Status KeepCluster(const TrustFolder& folder) {
    Result<bool> exists = folder.Exists();
    if (!exists) return Fail(exists.error());
    if (!*exists) return {};
    Result<std::vector<Certificate>> authorities = folder.LoadAuthorities();
    if (!authorities) return Fail(authorities.error());
    const bool same = std::ranges::any_of(*authorities, [&](const Certificate& each) {
      return each.KeyHash() == joined_with_.authority_hash;
    });
    if (same) return {};
    std::string refusal = folder.path() + " belongs to another cluster than the token: remove it " +
                          "to leave that, or name another --trust-dir; nothing was changed";
    const std::optional<Uuid> cluster = ClusterOf(folder);
    const bool is_other = !cluster || (kept_ && kept_->cluster != *cluster);
    if (is_other) return Fail(Code::kInvalid, std::move(refusal));
    if (folder.HoldsAuthority()) {
      return Fail(Code::kInvalid, folder.path() +
                                      " belongs to another cluster than the token, or holds the "
                                      "key (ca.key) of an authority that is replaced: remove it to "
                                      "leave that, or name another --trust-dir; nothing was "
                                      "changed");
    }
    kept_ = {.cluster = *cluster, .refusal = std::move(refusal)};
    return {};
  }

  /// By what it holds for any role.
  static std::optional<Uuid> ClusterOf(const TrustFolder& folder) {
    for (const proto::Role role : {proto::ROLE_COORDINATOR, proto::ROLE_NODE, proto::ROLE_CLIENT,
                                   proto::ROLE_ADMIN, proto::ROLE_VIEWER}) {
      const Result<Certificate> certificate = folder.LoadCertificate(role);
      const Result<Identity> member =
          certificate ? certificate->Member() : Result<Identity>(Fail(certificate.error()));
      if (member) return member->cluster;
    }
    return std::nullopt;
  }

  void Print(const Console& console, const MemberProof& member, const std::string& trust_dir,
             const CompletedConfig& config) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["cluster"] = member.self.cluster.ToString();
      document["role"] = RoleWord(member.self.role);
      document["id"] = member.self.id;
      document["ends"] = Rfc3339(member.certificate.ends_unix_s());
      document["trust_dir"] = ValidUtf8(trust_dir);
      document["config"] = ConfigMember(config);
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format("this machine is {} of cluster {} until {}\n", NameOf(member.self),
                               member.self.cluster.ToString(),
                               DescribeTime(member.certificate.ends_unix_s()));
    const std::string changed = DescribeCompleted(config);
    if (!changed.empty()) console.out << Escaped(changed) << "\n";
    if (!config.added.empty()) {
      console.out << fmt::format(
          "services of this machine that run read {} when they are restarted\n",
          Escaped(config.path));
    }
    if (IsOfCommand(member.self.role)) {
      console.out << fmt::format(
          "FOREBAY_COORDINATOR={} tells `forebay` where the coordinator is\n", Escaped(address_));
      if (trust_dir != TrustDirOfEnvironment())
        console.out << fmt::format("FOREBAY_TRUST_DIR={} tells it where this certificate is\n",
                                   Escaped(trust_dir));
    }
    console.out << std::flush;
  }

  std::string address_;
  std::string token_;  // until Check
  JoinToken joined_with_;
  std::optional<TlsContext::KeptCluster> kept_;  // of another authority than the token's
  std::string role_;
  std::string id_;
  std::string advertise_;
  std::string named_dir_;  // "" = whatever is usual for its role
};

}  // namespace

std::unique_ptr<Verb> MakeJoin() { return std::make_unique<JoinVerb>(); }

}  // namespace forebay
