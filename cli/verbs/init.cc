#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <optional>
#include <ostream>
#include <system_error>

#include "cli/json.h"
#include "cli/membership.h"
#include "cli/rotation_followers.h"
#include "cli/session.h"
#include "cli/text.h"
#include "cli/user_name.h"
#include "cli/verb_table.h"
#include "common/base/files.h"
#include "common/base/host_port.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "common/base/wall_clock.h"
#include "common/config/trust_config.h"
#include "common/trust/renewal.h"
#include "common/trust/rotation.h"
#include "common/trust/token_record.h"

namespace forebay {
namespace {

/// A new cluster: its authority, the certificates of its coordinator and of its administrator, and
/// the first token. Complete in a folder beside the trust folder, then renamed into its place. In a
/// cluster that exists: those two certificates anew, once a third of their time is over.
class InitVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    DeclareTrustDir(options, trust_dir_);
    options.Text("--cluster", "UUID",
                 "the name of a cluster that exists already, for which certificates are to be made "
                 "(default: a new one)",
                 cluster_text_);
    options.Text("--advertise", "HOST:PORT",
                 "where other machines reach the coordinator (default: this host, port 7440)",
                 advertise_);
    options.Flag("--member-lifetime", "TIME",
                 "for how long a member's certificate is good, 1m to 90d; it is renewed after a "
                 "third of that (default 30d)",
                 [this](const std::string& text) { return ReadLifetime(text); });
    options.Switch("--rotate-ca",
                   "takes the next of three steps to a new authority, without stopping anything: "
                   "it is believed; it issues; the old one is believed no more",
                   rotate_);
    options.Switch("--force",
                   "of --rotate-ca: takes the step although members that run have not followed, or "
                   "no coordinator says whether they have: they have to join again",
                   force_);
  }

  Outcome Run(VerbContext& context) override {
    Status checked = Check();
    if (!checked) return std::unexpected(Failure(checked.error()));
    const TrustFolder folder(trust_dir_);
    Result<bool> exists = folder.Exists();
    if (!exists) return std::unexpected(Failure(exists.error()));
    if (force_ && !rotate_) return UsageError("--force goes with --rotate-ca");
    if (rotate_ && (lifetime_ || !cluster_text_.empty()))
      return UsageError("--rotate-ca changes nothing else: leave the other options out");
    if (*exists && rotate_) return Rotate(context, folder);
    if (rotate_) return UsageError(trust_dir_ + " holds no cluster whose authority could change");
    if (*exists) return ShowExisting(context.console, folder);
    std::error_code unseen;
    if (std::filesystem::exists(trust_dir_, unseen) &&
        !std::filesystem::is_empty(trust_dir_, unseen)) {
      return UsageError(trust_dir_ +
                        " is not empty, and holds no cluster: name another --trust-dir");
    }
    // An authority of its own would make no member of it.
    const std::string of_node = PackagesTrustDir(proto::ROLE_NODE);
    if (trust_dir_ == kDefaultTrustDir && of_node != trust_dir_ &&
        std::filesystem::exists(of_node, unseen)) {
      return UsageError("this machine is a node of a cluster: remove " + of_node +
                        " to leave that, or name another --trust-dir");
    }
    const TrustFolder draft(trust_dir_ + ".new");
    Result<Secret> token = Make(draft);
    if (token) token = MoveIntoPlace(draft, std::move(*token));
    if (!token) {
      std::filesystem::remove_all(draft.path(), unseen);
      return std::unexpected(Failure(token.error()));
    }
    const CompletedConfig config =
        Configure(context.console, trust_dir_,
                  CoordinatorSettings(trust_dir_, *HostPort::Parse(advertise_)), "forebay init");
    Print(context.console, true, std::string(token->Reveal()), config);
    return Exit::kDone;
  }

 private:
  Status Check() {
    if (trust_dir_.empty()) trust_dir_ = kDefaultTrustDir;
    cluster_ = cluster_text_.empty() ? Uuid::Random() : Uuid::Parse(cluster_text_);
    if (cluster_.IsZero())
      return Fail(Code::kInvalid, "\"" + cluster_text_ + "\" is no cluster's uuid");
    if (advertise_.empty())
      advertise_ = (HostAsId().empty() ? std::string("localhost") : HostAsId()) + ":7440";
    return CheckAdvertised(advertise_);
  }

  Outcome ShowExisting(const Console& console, const TrustFolder& folder) {
    Result<MemberProof> admin = folder.Load(proto::ROLE_ADMIN);
    if (!admin) return std::unexpected(Failure(admin.error()));
    if (!cluster_text_.empty() && admin->self.cluster != cluster_) {
      return UsageError(trust_dir_ + " is of cluster " + admin->self.cluster.ToString() +
                        " already; nothing was changed");
    }
    cluster_ = admin->self.cluster;
    Result<Authority> authority = folder.LoadAuthority();
    // Kept elsewhere, or this is only an administrator's machine.
    if (!authority && authority.error().code != Code::kNotFound)
      return std::unexpected(Failure(authority.error()));
    bool renewed = false;
    Status done;
    if (lifetime_) {
      Status kept = folder.SaveMemberLifetime(*lifetime_);
      if (!kept) return std::unexpected(Failure(kept.error()));
    }
    for (const proto::Role role : {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}) {
      Result<bool> now = authority ? Renew(*authority, folder, role) : Result<bool>(false);
      if (!now) done = Fail(now.error());
      if (!now) break;
      renewed = renewed || *now;
    }
    // Also what was done before another part of it failed.
    Status noted = renewed || lifetime_ ? NoteRenewal(folder, renewed) : Status();
    if (done) done = noted;
    if (!done) return std::unexpected(Failure(done.error()));
    if (!renewed || console.json()) {
      Print(console, renewed, "", {});
      return Exit::kDone;
    }
    console.out
        << fmt::format(
               "the certificates of the coordinator and of its administrator in {} are new; the "
               "coordinator takes them by itself\n",
               Escaped(trust_dir_))
        << std::flush;
    return Exit::kDone;
  }

  Status ReadLifetime(const std::string& text) {
    const Result<std::chrono::milliseconds> time = ParseDuration(text);
    if (!time) return Fail(time.error());
    lifetime_ = std::chrono::duration_cast<std::chrono::seconds>(*time);
    if (*lifetime_ >= kShortestMemberLifetime && *lifetime_ <= kLongestMemberLifetime) return {};
    return Fail(Code::kInvalid, "a certificate is good for 1m to 90d");
  }

  /// As the coordinator says what it was asked itself, and when, for it may come to this late.
  static std::string ActionLine(const std::string& what) {
    return fmt::format("admin '{}' on the coordinator's machine, {} (forebay {}): {}: done",
                       UserName(), DescribeTime(UnixSeconds()), Version(), what);
  }

  Status NoteRenewal(const TrustFolder& folder, bool renewed) const {
    Result<FolderLock> lock = folder.Lock();
    if (!lock) return Fail(lock.error());
    std::string what = "init";
    if (renewed) what += " renewed=coordinator,admin";
    if (lifetime_) what += fmt::format(" member_lifetime={}s", lifetime_->count());
    return folder.NoteAction(ActionLine(what));
  }

  /// Who is away and has not followed so far. An error: who runs has not, or that is not known.
  static std::expected<std::string, Failure> AskWhoFollows(Session& session,
                                                           const TrustFolder& folder,
                                                           Rotation step) {
    const std::string force =
        "--force takes the step all the same: who has not followed has to join again";
    if (folder.LoadCertificate(proto::ROLE_ADMIN)) session.ShowCertificatesOf(folder.path());
    auto reply =
        Ask<proto::ListMembersReply>(session, Method::kListMembers, proto::ListMembersRequest());
    if (!reply) {
      Failure why = std::move(reply.error());
      const Exit exit = why.ExitCode();
      const std::string hint = why.hint.empty() ? force : why.hint + ". " + force;
      return std::unexpected(
          Failure(why.error.Within("whether all members have followed is not known"), hint, exit));
    }
    Result<std::vector<Certificate>> believed = folder.LoadAuthorities();
    if (!believed) return std::unexpected(Failure(believed.error()));
    Result<Authority> present = folder.LoadAuthority();
    if (!present) return std::unexpected(Failure(present.error()));
    Result<std::string> away = CheckFollowers(*reply, step, *believed, present->certificate());
    // The command is right, and comes too early.
    if (!away) return std::unexpected(Failure(away.error(), force, Exit::kFailed));
    return std::move(*away);
  }

  Outcome Rotate(VerbContext& context, const TrustFolder& folder) const {
    const Console& console = context.console;
    const Result<Rotation> next = NextRotation(folder);
    if (!next) return std::unexpected(Failure(next.error()));
    std::string away;
    // Without the lock, which a renewal of the certificate that this is asked with needs.
    if (*next != Rotation::kBegun && !force_) {
      auto followed = AskWhoFollows(context.session, folder, *next);
      if (!followed) return std::unexpected(followed.error());
      away = std::move(*followed);
    }
    Result<FolderLock> lock = folder.Lock();
    if (!lock) return std::unexpected(Failure(lock.error()));
    const Result<Rotation> still = NextRotation(folder);
    if (!still) return std::unexpected(Failure(still.error()));
    if (*still != *next)
      return UsageError("somebody else has just taken this step", "run it again for the next one");
    const Result<Rotation> step =
        RotateAuthority(folder, UnixSeconds(), force_ ? HeardBy::kTime : HeardBy::kCoordinator);
    if (!step) return std::unexpected(Failure(step.error()));
    if (!away.empty()) {
      console.err << fmt::format(
          "these were not there, and may have to join again when they come back: {}\n",
          Escaped(away));
    }
    const auto [word, text] = [&]() -> std::pair<std::string, std::string> {
      if (*step == Rotation::kBegun) {
        return {"begun",
                "a new authority is believed beside the old one: members hear of it "
                "within a minute. Then run this again"};
      }
      if (*step == Rotation::kSwitched) {
        return {"switched",
                "the new authority issues, and all members that run renew within a "
                "minute. Run this again to believe the old one no more: who has not "
                "renewed by then, being off, has to join again"};
      }
      return {"ended", "the old authority is believed no more: the change is complete"};
    }();
    const Status noted = folder.NoteAction(ActionLine("init rotate-ca=" + word));
    if (!noted) {
      return std::unexpected(Failure(
          noted.error().Within("rotate-ca: " + word + ", but it is not noted for the audit")));
    }
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["trust_dir"] = ValidUtf8(folder.path());
      document["rotation"] = word;
      PrintDocument(console, document);
    } else {
      console.out << text << "\n" << std::flush;
    }
    return Exit::kDone;
  }

  /// Whether it was time to.
  Result<bool> Renew(const Authority& authority, const TrustFolder& folder,
                     proto::Role role) const {
    Result<MemberProof> member = folder.Load(role);
    if (!member) return Fail(member.error());
    if (!IsOwnDue(*member, UnixSeconds())) return false;
    Status issued = Issue(authority, folder, role, member->self.id);
    if (!issued) return Fail(issued.error());
    return true;
  }

  Status Issue(const Authority& authority, const TrustFolder& folder, proto::Role role,
               std::string id) const {
    Result<PrivateKey> key = PrivateKey::Generate();
    if (!key) return Fail(key.error());
    Result<std::string> request = MakeRequest(*key);
    if (!request) return Fail(request.error());
    const Identity self{.cluster = cluster_, .role = role, .id = std::move(id)};
    Result<std::chrono::seconds> lifetime = folder.MemberLifetime();
    if (!lifetime) return Fail(lifetime.error());
    Result<Certificate> certificate =
        authority.Issue(*request, self, Validity::From(UnixSeconds(), *lifetime));
    if (!certificate) return Fail(certificate.error());
    Result<std::vector<Certificate>> believed = folder.LoadAuthorities();
    if (!believed) return Fail(believed.error());
    return folder.Save({.authorities = std::move(*believed),
                        .certificate = *certificate,
                        .key = *key,
                        .self = self});
  }

  Result<Secret> Make(const TrustFolder& draft) const {
    std::error_code ignored;
    std::filesystem::remove_all(draft.path(), ignored);
    Result<Authority> authority = Authority::Make(cluster_, UnixSeconds());
    if (!authority) return Fail(authority.error());
    Status saved = draft.SaveAuthority(*authority);
    if (saved && lifetime_) saved = draft.SaveMemberLifetime(*lifetime_);
    if (saved) saved = Issue(*authority, draft, proto::ROLE_COORDINATOR, "coordinator");
    if (saved) saved = Issue(*authority, draft, proto::ROLE_ADMIN, "admin");
    if (!saved) return Fail(saved.error());
    proto::CreateTokenRequest request;
    request.set_role("node");
    request.set_uses(kDefaultTokenUses);
    request.set_valid_s(kDefaultTokenSeconds);
    Result<NewToken> token =
        MakeJoinToken(request, authority->certificate().KeyHash(), UnixSeconds());
    if (!token) return Fail(token.error());
    saved = WriteFileAtomically(draft.path() + "/" + kFirstTokenFile,
                                token->record.SerializeAsString());
    if (saved) saved = draft.NoteAction(ActionLine("init cluster=" + cluster_.ToString()));
    if (!saved) return Fail(saved.error());
    return std::move(token->text);
  }

  Result<Secret> MoveIntoPlace(const TrustFolder& draft, Secret token) const {
    std::error_code error;
    std::filesystem::rename(draft.path(), trust_dir_, error);
    const Status given = error ? Status() : GiveToServices(proto::ROLE_COORDINATOR, trust_dir_);
    if (!given) return Fail(given.error());
    if (!error) return token;
    return Fail(Code::kInternal, "renaming " + draft.path() + ": " + error.message());
  }

  void Print(const Console& console, bool changed, const std::string& token,
             const CompletedConfig& config) const {
    const std::string line =
        token.empty() ? "" : fmt::format("forebay join {} --token {}", advertise_, token);
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["cluster"] = cluster_.ToString();
      document["trust_dir"] = ValidUtf8(trust_dir_);
      document["changed"] = changed;
      document["join"] = token.empty() ? boost::json::value() : boost::json::value(line);
      document["config"] = ConfigMember(config);
      PrintDocument(console, document);
    } else if (changed) {
      const std::string configured = DescribeCompleted(config);
      if (!configured.empty()) console.err << Escaped(configured) << "\n";
      console.err << fmt::format(
          "cluster {} is made in {}: start forebay-coordinator anew{}. {} machines become cache "
          "nodes within a day with\n",
          cluster_.ToString(), Escaped(trust_dir_),
          configured.empty() ? ", with a --listen address that the other machines reach" : "",
          kDefaultTokenUses);
      console.out << line << "\n" << std::flush;
    } else {
      console.out << fmt::format(
                         "{} is of cluster {} already; `forebay token create` lets machines join\n",
                         Escaped(trust_dir_), cluster_.ToString())
                  << std::flush;
    }
  }

  std::string trust_dir_;
  std::string cluster_text_;
  std::string advertise_;
  std::optional<std::chrono::seconds> lifetime_;
  bool rotate_ = false;
  bool force_ = false;
  Uuid cluster_;
};

}  // namespace

std::unique_ptr<Verb> MakeInit() { return std::make_unique<InitVerb>(); }

}  // namespace forebay
