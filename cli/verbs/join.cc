#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/json.h"
#include "cli/membership.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/host_port.h"
#include "common/trust/join_token.h"

namespace forebay {
namespace {

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
    options.Text("--role", "ROLE",
                 "client, node or admin: refuses a token for anything else (default: the token's)",
                 role_);
    options.Text("--id", "ID", "the name of this member (default: this host's name)", id_);
    DeclareTrustDir(options, trust_dir_);
  }

  Outcome Run(VerbContext& context) override {
    Status checked = Check(context.console);
    if (!checked) return std::unexpected(Failure(checked.error()));
    const TrustFolder folder(trust_dir_);
    Status fits = CheckSameCluster(folder);
    if (!fits) return std::unexpected(Failure(fits.error()));
    Result<MemberProof> member =
        Join(address_, joined_with_, role_, id_.empty() ? HostAsId() : id_);
    if (!member) return std::unexpected(Failure(member.error().Within("joining " + address_)));
    Status saved = folder.Save(*member);
    if (!saved) return std::unexpected(Failure(saved.error()));
    Result<std::string> config = WriteFirstConfig(folder, address_);
    if (!config) {
      context.console.err << fmt::format(
          "forebay.toml, which would name the coordinator to the programs, is not written: {}\n",
          Escaped(config.error().message));
      config = std::string();
    }
    Print(context.console, *member, *config);
    return Exit::kDone;
  }

 private:
  Status Check(const Console& console) {
    if (token_.empty()) return Fail(Code::kInvalid, "--token is missing");
    if (token_ == "-") std::getline(console.in, token_);
    const Secret text(std::exchange(token_, {}));
    if (!trust_dir_.starts_with('/'))
      return Fail(Code::kInvalid, "--trust-dir needs an absolute path");
    if (!role_.empty() && RoleOfWord(role_) == proto::ROLE_UNKNOWN)
      return Fail(Code::kInvalid, "\"" + role_ + "\" is no role: client, node or admin");
    const Result<HostPort> place = HostPort::Parse(address_);
    if (!place) return Fail(place.error());
    Result<JoinToken> token = JoinToken::Parse(text.Reveal());
    if (!token) return Fail(token.error());
    joined_with_ = std::move(*token);
    return {};
  }

  /// A certificate of one cluster beside another's authority would be believed by nobody. Before
  /// the token is used.
  Status CheckSameCluster(const TrustFolder& folder) const {
    Result<bool> exists = folder.Exists();
    if (!exists) return Fail(exists.error());
    if (!*exists) return {};
    Result<std::vector<Certificate>> authorities = folder.LoadAuthorities();
    if (!authorities) return Fail(authorities.error());
    const bool same = std::ranges::any_of(*authorities, [&](const Certificate& each) {
      return each.KeyHash() == joined_with_.authority_hash;
    });
    if (same) return {};
    return Fail(Code::kInvalid, folder.path() + " belongs to another cluster than the token: " +
                                    "remove it to leave that, or name another --trust-dir; " +
                                    "nothing was changed");
  }

  void Print(const Console& console, const MemberProof& member, const std::string& config) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["cluster"] = member.self.cluster.ToString();
      document["role"] = RoleWord(member.self.role);
      document["id"] = member.self.id;
      document["ends"] = Rfc3339(member.certificate.ends_unix_s());
      document["trust_dir"] = ValidUtf8(trust_dir_);
      document["config"] =
          config.empty() ? boost::json::value() : boost::json::value(ValidUtf8(config));
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format("this machine is {} of cluster {} until {}\n", NameOf(member.self),
                               member.self.cluster.ToString(),
                               DescribeTime(member.certificate.ends_unix_s()));
    if (!config.empty()) console.out << fmt::format("{} is written\n", Escaped(config));
    console.out << std::flush;
  }

  std::string address_;
  std::string token_;  // until Check
  JoinToken joined_with_;
  std::string role_;
  std::string id_;
  std::string trust_dir_;
};

}  // namespace

std::unique_ptr<Verb> MakeJoin() { return std::make_unique<JoinVerb>(); }

}  // namespace forebay
