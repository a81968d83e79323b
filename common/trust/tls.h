#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/trust/identity.h"
#include "common/trust/standing.h"
#include "common/trust/trust_folder.h"

// OpenSSL's own names, so that its headers stay in the sources.
struct ssl_st;
struct ssl_ctx_st;

namespace forebay {

/// TLS 1.3, both ends with certificates, no sessions that could be taken up again: each connection
/// proves anew who is there. Immutable; connections that were made of it keep what they need.
class TlsContext {
 public:
  /// Servers of the role coordinator let in who has no certificate, to join, and who was late to
  /// renew its own. `standing` is what is known beside certificates; null = nothing yet.
  static Result<std::shared_ptr<const TlsContext>> Of(const MemberProof& member,
                                                      std::shared_ptr<Standing> standing = nullptr);
  /// For a machine that joins: it has no certificate, and believes the authority with this key
  /// hash alone. One that is of a cluster already joins no other: `kept`.
  struct KeptCluster {
    Uuid cluster;
    std::string refusal;  ///< What is said of a coordinator of another one.
  };
  static Result<std::shared_ptr<const TlsContext>> Joining(
      std::string authority_hash, std::optional<KeptCluster> kept = std::nullopt);

  /// A new connection's state, owned by the caller; null when there is no memory.
  ssl_st* NewClient() const;
  ssl_st* NewServer() const;

  const std::shared_ptr<Standing>& standing() const { return standing_; }

 private:
  TlsContext() = default;
  std::shared_ptr<Standing> standing_;
  std::shared_ptr<ssl_ctx_st> client_;
  std::shared_ptr<ssl_ctx_st> server_;
};

/// Who is at the other end; after the handshake. Nobody: a machine without a certificate, which may
/// only ask to join.
std::optional<Identity> PeerOf(const ssl_st* connection);

/// What its certificate says beside its name.
struct PeerTerms {
  std::int64_t issued_unix_s = 0;
  std::int64_t ends_unix_s = 0;
  bool late = false;      ///< At a coordinator: it has ended, and may only be renewed.
  std::string authority;  ///< The key hash of the one that issued it; "" with a pinned authority.
  std::optional<std::vector<std::string>> links;  ///< That a client may read; nothing = all.
};
PeerTerms TermsOf(const ssl_st* connection);
/// 32 bytes that both ends of this connection know, and nobody else, not even who sits between two
/// connections (RFC 9266). After the handshake.
std::string TlsChannelBinding(ssl_st* connection);
/// Why a handshake failed, as a sentence; `code` is OpenSSL's.
Error TlsFailure(const ssl_st* connection, unsigned long code);
/// Whether a handshake failed with this `code` because the other end speaks no TLS at all.
bool SpeaksNoTls(unsigned long code);

/// What a program proves itself with; thread-safe. New certificates are for new connections: those
/// that are open go on.
class Trust {
 public:
  /// Null when this machine belongs to no cluster.
  static Result<std::shared_ptr<Trust>> Open(TrustFolder folder, proto::Role role);
  /// Not from files: for a machine that joins, and for tests.
  explicit Trust(std::shared_ptr<const TlsContext> context, Identity self = {});

  /// Reads the files again. After an error what was in force stays so. kInvalid when they are of
  /// another cluster or another member.
  Status Reload();
  /// Another belief and other revocations, in this program alone: what is in force where the files
  /// cannot be written. kInvalid: not from files. Errors as TlsContext::Of; nothing changes then.
  Status Believe(std::vector<Certificate> authorities, std::vector<Revocation> revoked);

  std::shared_ptr<const TlsContext> Current() const;
  /// Why the certificate was not renewed when it was last tried; "" = it was, or is not due.
  std::string renewal_failure() const;
  void NoteRenewal(std::string failure);
  Standing& standing() const { return *standing_; }
  /// Null: not from files.
  const TrustFolder* folder() const { return folder_ ? &*folder_ : nullptr; }
  /// Another number after each Reload.
  std::uint64_t reloads() const { return reloads_.load(std::memory_order_acquire); }
  const Identity& self() const { return self_; }
  /// What is in force; nothing when it is not from files.
  std::optional<MemberProof> member() const;
  /// The authorities in force, as PEM.
  std::string believed() const;
  /// When the certificate in force ends; 0 without one.
  std::int64_t ends_unix_s() const;

 private:
  Trust(TrustFolder folder, MemberProof member, std::shared_ptr<const TlsContext> context);
  Status BringIntoForce(MemberProof member);

  const std::optional<TrustFolder> folder_;
  const Identity self_;
  const std::shared_ptr<Standing> standing_;
  std::atomic<std::uint64_t> reloads_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> context_;  // guarded by mutex_
  std::optional<MemberProof> member_;          // guarded by mutex_
  std::string renewal_failure_;                // guarded by mutex_
};

/// On SIGHUP: Reload, and a line in the log about a failure. Nothing without certificates.
void ReloadTrust(Trust* trust);

}  // namespace forebay
