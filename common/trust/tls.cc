#include "common/trust/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <array>
#include <tuple>
#include <utility>

#include "common/base/wall_clock.h"
#include "common/trust/openssl.h"

namespace forebay {
namespace {

constexpr long kMaxCertificateBytes = long{16} * 1024;

/// Whom one end believes; kept by its SSL_CTX, and so as long as any connection of it lives.
struct Policy {
  Belief belief;
  std::string pinned_hash;  ///< Not "": the authority comes with the peer, and must be this one.
  std::optional<TlsContext::KeptCluster> kept = std::nullopt;  ///< With a pinned authority.
  Purpose peer = Purpose::kConnects;
  std::shared_ptr<Standing> standing;
  bool takes_late = false;  ///< Lets in who has to renew.
};

/// What was found out about a peer; kept by its SSL.
struct Verdict {
  std::optional<Identity> member;
  PeerTerms terms;
  std::string refusal;
};

template <typename T>
void FreeData(void*, void* data, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<T*>(data);
}

int PolicyIndex() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeData<Policy>);
  return index;
}

int VerdictIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeData<Verdict>);
  return index;
}

Verdict* VerdictOf(const SSL* connection) {
  return static_cast<Verdict*>(SSL_get_ex_data(connection, VerdictIndex()));
}

Certificate Shared(X509* certificate) {
  X509_up_ref(certificate);
  return Certificate(certificate);
}

/// The pinned authority, as the peer sent it.
Result<Belief> BeliefInPinned(const std::string& hash, STACK_OF(X509) * sent,
                              const Certificate& leaf) {
  Belief belief;
  for (int i = 0; sent != nullptr && i < sk_X509_num(sent); ++i) {
    Certificate certificate = Shared(sk_X509_value(sent, i));
    if (certificate.KeyHash() == hash) belief.authorities.push_back(std::move(certificate));
  }
  if (belief.authorities.empty()) {
    return Fail(Code::kDenied,
                "the coordinator there is not of the cluster that the token is of: ask for a token "
                "of this cluster, or name its coordinator");
  }
  Result<Identity> member = leaf.Member();
  if (!member) return Fail(Code::kDenied, member.error().message);
  if (member->role != proto::ROLE_COORDINATOR)
    return Fail(Code::kDenied, "that is " + NameOf(*member) + ", no coordinator");
  belief.cluster = member->cluster;
  return belief;
}

/// The member, whose certificate may have ended: at a coordinator, where it is renewed, and where
/// nobody can know that it was not.
Result<Identity> VerifyInTime(const Policy& policy, const Certificate& leaf, PeerTerms& terms) {
  const std::int64_t now = UnixSeconds();
  Result<Identity> member = VerifyMember(leaf, policy.belief, policy.peer, now);
  if (member || now < terms.ends_unix_s) return member;
  const bool excused = policy.standing->Excuses(terms.ends_unix_s, now);
  terms.late = policy.takes_late;
  if (!excused && !policy.takes_late) return member;
  if (now >= terms.ends_unix_s + std::chrono::seconds(kGrace).count()) return member;
  Result<Identity> before = VerifyMember(leaf, policy.belief, policy.peer, terms.ends_unix_s - 1);
  if (!before) return member;
  if (!terms.late && policy.standing->IsFirstExcuse(*before)) {
    spdlog::warn(
        "the certificate of {} ended at {}; it is believed until {} because no coordinator"
        " answers",
        NameOf(*before), DescribeTime(terms.ends_unix_s),
        DescribeTime(terms.ends_unix_s + std::chrono::seconds(kGrace).count()));
  }
  return before;
}

Result<Identity> Verify(const Policy& policy, X509_STORE_CTX* context, PeerTerms& terms) {
  X509* sent = X509_STORE_CTX_get0_cert(context);
  if (sent == nullptr) return Fail(Code::kDenied, "there is no certificate");
  const Certificate leaf = Shared(sent);
  terms.issued_unix_s = leaf.issued_unix_s();
  terms.ends_unix_s = leaf.ends_unix_s();
  if (!policy.pinned_hash.empty()) {
    Result<Belief> belief =
        BeliefInPinned(policy.pinned_hash, X509_STORE_CTX_get0_untrusted(context), leaf);
    if (!belief) return Fail(belief.error());
    if (policy.kept && policy.kept->cluster != belief->cluster)
      return Fail(Code::kDenied, policy.kept->refusal);
    return VerifyMember(leaf, *belief, policy.peer, UnixSeconds());
  }
  Result<Identity> member = VerifyInTime(policy, leaf, terms);
  if (!member) return member;
  for (const Certificate& each : policy.belief.authorities)
    if (leaf.IsIssuedBy(each)) terms.authority = each.KeyHash();
  Result<std::optional<std::vector<std::string>>> links = leaf.Links();
  if (!links) return Fail(Code::kDenied, links.error().message);
  terms.links = std::move(*links);
  if (policy.standing->IsRevoked(member->role, member->id, terms.issued_unix_s)) {
    return Fail(Code::kDenied, "the certificate of " + NameOf(*member) +
                                   " was revoked: it needs a new token to join again");
  }
  return member;
}

/// OpenSSL's question whether to believe a peer. What it answers to the peer is an alert; the
/// sentence stays here.
int OnVerify(X509_STORE_CTX* context, void*) {
  const auto* connection = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* policy =
      static_cast<const Policy*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), PolicyIndex()));
  Verdict* verdict = VerdictOf(connection);
  Result<Identity> member = Verify(*policy, context, verdict->terms);
  if (member) {
    verdict->member = std::move(*member);
    X509_STORE_CTX_set_error(context, X509_V_OK);
    return 1;
  }
  verdict->refusal = member.error().message;
  X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REJECTED);
  return 0;
}

std::shared_ptr<SSL_CTX> NewContext(Policy policy, int verify_mode) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (!context) return nullptr;
  SSL_CTX* raw = context.get();
  if (SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ex_data(raw, PolicyIndex(), new Policy(std::move(policy))) != 1)
    return nullptr;
  SSL_CTX_set_verify(raw, verify_mode, nullptr);
  SSL_CTX_set_cert_verify_callback(raw, OnVerify, nullptr);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_max_cert_list(raw, kMaxCertificateBytes);
  // Thousands of connections are idle; and an end without a word is as good as one with (every
  // frame has its length and its checksum).
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(raw, SSL_OP_IGNORE_UNEXPECTED_EOF);
  return context;
}

/// The authority goes with it, for those who join.
bool Present(SSL_CTX* context, const MemberProof& member) {
  if (SSL_CTX_use_certificate(context, member.certificate.native()) != 1 ||
      SSL_CTX_use_PrivateKey(context, member.key.native()) != 1)
    return false;
  for (const Certificate& authority : member.authorities) {
    if (SSL_CTX_add1_chain_cert(context, authority.native()) != 1) return false;
  }
  return true;
}

std::vector<std::string> HashesOf(const std::vector<Certificate>& authorities) {
  std::vector<std::string> hashes;
  hashes.reserve(authorities.size());
  for (const Certificate& each : authorities) hashes.push_back(each.KeyHash());
  return hashes;
}

SSL* NewConnection(SSL_CTX* context) {
  SSL* connection = SSL_new(context);
  if (connection == nullptr) return nullptr;
  auto verdict = std::make_unique<Verdict>();
  if (SSL_set_ex_data(connection, VerdictIndex(), verdict.get()) != 1) {
    SSL_free(connection);
    return nullptr;
  }
  std::ignore = verdict.release();  // the connection's now
  return connection;
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::Of(const MemberProof& member,
                                                         std::shared_ptr<Standing> standing) {
  if (!standing) standing = std::make_shared<Standing>();
  standing->NoteIssued(member.certificate.issued_unix_s());
  const Belief belief{.authorities = member.authorities, .cluster = member.self.cluster};
  const bool takes_strangers = member.self.role == proto::ROLE_COORDINATOR;
  const int peers = SSL_VERIFY_PEER | (takes_strangers ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  std::shared_ptr<TlsContext> made(new TlsContext());
  made->standing_ = standing;
  made->client_ = NewContext({.belief = belief,
                              .pinned_hash = "",
                              .kept = std::nullopt,
                              .peer = Purpose::kIsConnectedTo,
                              .standing = standing,
                              .takes_late = false},
                             SSL_VERIFY_PEER);
  made->server_ = NewContext({.belief = belief,
                              .pinned_hash = "",
                              .kept = std::nullopt,
                              .peer = Purpose::kConnects,
                              .standing = standing,
                              .takes_late = takes_strangers},
                             peers);
  if (!made->client_ || !made->server_ || !Present(made->client_.get(), member) ||
      !Present(made->server_.get(), member))
    return Fail(OpenSslError("TLS cannot be set up"));
  return made;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::Joining(std::string authority_hash,
                                                              std::optional<KeptCluster> kept) {
  std::shared_ptr<TlsContext> made(new TlsContext());
  made->standing_ = std::make_shared<Standing>();
  made->client_ = NewContext({.belief = {},
                              .pinned_hash = std::move(authority_hash),
                              .kept = std::move(kept),
                              .peer = Purpose::kIsConnectedTo,
                              .standing = nullptr,
                              .takes_late = false},
                             SSL_VERIFY_PEER);
  if (!made->client_) return Fail(OpenSslError("TLS cannot be set up"));
  return made;
}

ssl_st* TlsContext::NewClient() const { return NewConnection(client_.get()); }
ssl_st* TlsContext::NewServer() const { return server_ ? NewConnection(server_.get()) : nullptr; }

std::optional<Identity> PeerOf(const ssl_st* connection) { return VerdictOf(connection)->member; }
PeerTerms TermsOf(const ssl_st* connection) { return VerdictOf(connection)->terms; }

std::string TlsChannelBinding(ssl_st* connection) {
  constexpr std::string_view kLabel = "EXPORTER-Channel-Binding";
  constexpr std::size_t kBytes = 32;
  std::string bytes(kBytes, '\0');
  const int made =
      SSL_export_keying_material(connection, reinterpret_cast<unsigned char*>(bytes.data()),
                                 bytes.size(), kLabel.data(), kLabel.size(), nullptr, 0, 1);
  // Nobody proves anything with an empty one: see OpenAsClient and OpenAsServer.
  return made == 1 ? bytes : std::string();
}

bool SpeaksNoTls(unsigned long code) {
  const int reason = ERR_GET_REASON(code);
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST;
}

Error TlsFailure(const ssl_st* connection, unsigned long code) {
  const std::string& refusal = VerdictOf(connection)->refusal;
  const int reason = ERR_GET_REASON(code);
  const char* text = ERR_reason_error_string(code);
  const std::string said = text == nullptr ? "no reason" : text;
  std::string why;
  if (!refusal.empty()) {
    why = refusal;
  } else if (SpeaksNoTls(code)) {
    why =
        "the other side speaks no TLS: a program without certificates, or another one or port "
        "than was meant";
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    why = "the other side has no certificate: it gets one with 'forebay join HOST:PORT --token T'";
  } else if (reason >= SSL_AD_REASON_OFFSET) {
    why = "the other side does not believe this program; its log says why: " + said;
  } else {
    why = "the TLS handshake failed: " + said;
  }
  return Error{Code::kDenied, std::move(why)};
}

Trust::Trust(std::shared_ptr<const TlsContext> context, Identity self)
    : self_(std::move(self)), standing_(context->standing()), context_(std::move(context)) {}

Trust::Trust(TrustFolder folder, MemberProof member, std::shared_ptr<const TlsContext> context)
    : folder_(std::move(folder)),
      self_(member.self),
      standing_(context->standing()),
      context_(std::move(context)),
      member_(std::move(member)) {
  standing_->SetBelieved(HashesOf(member_->authorities));
}

Result<std::shared_ptr<Trust>> Trust::Open(TrustFolder folder, proto::Role role) {
  Result<bool> exists = folder.Exists();
  if (!exists) return Fail(exists.error());
  if (!*exists) return std::shared_ptr<Trust>();
  Result<MemberProof> member = folder.Load(role);
  if (!member) return Fail(member.error());
  Result<std::vector<Revocation>> revoked = folder.LoadRevoked();
  if (!revoked) return Fail(revoked.error());
  Result<std::shared_ptr<const TlsContext>> context = TlsContext::Of(*member);
  if (!context) return Fail(context.error());
  (*context)->standing()->SetRevoked(std::move(*revoked));
  return std::shared_ptr<Trust>(
      new Trust(std::move(folder), std::move(*member), std::move(*context)));
}

Status Trust::Reload() {
  if (!folder_) return {};
  Result<MemberProof> member = folder_->Load(self_.role);
  if (!member) return Fail(member.error());
  Result<std::vector<Revocation>> revoked = folder_->LoadRevoked();
  if (!revoked) return Fail(revoked.error());
  if (member->self != self_) {
    return Fail(Code::kInvalid, "the certificate in " + folder_->path() + " is now of " +
                                    NameOf(member->self) + " in cluster " +
                                    member->self.cluster.ToString() + ": restart this program");
  }
  Status taken = BringIntoForce(std::move(*member));
  if (!taken) return taken;
  // A coordinator knows it from its own state.
  if (self_.role != proto::ROLE_COORDINATOR) standing_->SetRevoked(std::move(*revoked));
  return {};
}

Status Trust::Believe(std::vector<Certificate> authorities, std::vector<Revocation> revoked) {
  std::optional<MemberProof> now = member();
  if (!now) return Fail(Code::kInvalid, "these certificates are not from files");
  if (PemOf(authorities) != PemOf(now->authorities)) {
    now->authorities = std::move(authorities);
    Status taken = BringIntoForce(std::move(*now));
    if (!taken) return taken;
  }
  standing_->SetRevoked(std::move(revoked));
  return {};
}

Status Trust::BringIntoForce(MemberProof member) {
  Result<std::shared_ptr<const TlsContext>> context = TlsContext::Of(member, standing_);
  if (!context) return Fail(context.error());
  std::vector<std::string> believed = HashesOf(member.authorities);
  const std::scoped_lock lock(mutex_);
  context_ = std::move(*context);
  member_ = std::move(member);
  standing_->SetBelieved(std::move(believed));
  reloads_.fetch_add(1, std::memory_order_release);
  return {};
}

std::shared_ptr<const TlsContext> Trust::Current() const {
  const std::scoped_lock lock(mutex_);
  return context_;
}

std::optional<MemberProof> Trust::member() const {
  const std::scoped_lock lock(mutex_);
  return member_;
}

std::int64_t Trust::ends_unix_s() const {
  const std::scoped_lock lock(mutex_);
  return member_ ? member_->certificate.ends_unix_s() : 0;
}

std::string Trust::believed() const {
  const std::optional<MemberProof> now = member();
  return now ? PemOf(now->authorities) : std::string();
}

std::string Trust::renewal_failure() const {
  const std::scoped_lock lock(mutex_);
  return renewal_failure_;
}

void Trust::NoteRenewal(std::string failure) {
  const std::scoped_lock lock(mutex_);
  renewal_failure_ = std::move(failure);
}

void ReloadTrust(Trust* trust) {
  if (trust == nullptr) return;
  const Status reloaded = trust->Reload();
  if (reloaded) return;
  spdlog::error("{}; the certificates that were read before stay in force",
                reloaded.error().message);
}

}  // namespace forebay
