#include "common/trust/authority.h"

#include <openssl/rand.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <array>
#include <utility>

#include "common/trust/openssl.h"

namespace forebay {
namespace {

constexpr int kX509Version3 = 2;
constexpr std::size_t kLongestRequest = 4096;

using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpenSslFree<X509_EXTENSION_free>>;
using StringPtr = std::unique_ptr<ASN1_UTF8STRING, OpenSslFree<ASN1_UTF8STRING_free>>;
using OctetsPtr = std::unique_ptr<ASN1_OCTET_STRING, OpenSslFree<ASN1_OCTET_STRING_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>>;
using ContextPtr = std::unique_ptr<X509_STORE_CTX, OpenSslFree<X509_STORE_CTX_free>>;

bool SetName(X509_NAME* name, const std::string& text) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

/// The names, with commas in between, as a UTF8String: in an extension of our own.
bool AddLinks(X509* certificate, const std::vector<std::string>& links) {
  std::string text;
  for (const std::string& link : links) text += (text.empty() ? "" : ",") + link;
  const StringPtr value(ASN1_UTF8STRING_new());
  if (!value || ASN1_STRING_set(value.get(), text.data(), static_cast<int>(text.size())) != 1)
    return false;
  unsigned char* bytes = nullptr;
  const int size = i2d_ASN1_UTF8STRING(value.get(), &bytes);
  const OctetsPtr wrapped(ASN1_OCTET_STRING_new());
  const bool set = size > 0 && wrapped && ASN1_OCTET_STRING_set(wrapped.get(), bytes, size) == 1;
  OPENSSL_free(bytes);
  const ExtensionPtr extension(
      set ? X509_EXTENSION_create_by_OBJ(nullptr, LinksExtension(), 0, wrapped.get()) : nullptr);
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

/// Version, a random serial number and the times.
bool SetFrame(X509* certificate, Validity validity) {
  constexpr std::size_t kSerialBytes = 16;
  std::array<unsigned char, kSerialBytes> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) return false;
  random.front() &= 0x7F;  // positive
  BIGNUM* number = BN_bin2bn(random.data(), static_cast<int>(random.size()), nullptr);
  const bool numbered = number != nullptr &&
                        BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return numbered && X509_set_version(certificate, kX509Version3) == 1 &&
         ASN1_TIME_set(X509_getm_notBefore(certificate), validity.begins_unix_s) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), validity.ends_unix_s) != nullptr;
}

std::string UsesOf(proto::Role role) {
  const bool serves = role == proto::ROLE_NODE || role == proto::ROLE_COORDINATOR;
  return serves ? "clientAuth,serverAuth" : "clientAuth";
}

Result<RequestPtr> ReadRequest(std::string_view bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const bool bounded = bytes.size() <= kLongestRequest;
  RequestPtr request(bounded ? d2i_X509_REQ(nullptr, &at, static_cast<long>(bytes.size()))
                             : nullptr);
  EVP_PKEY* key = request ? X509_REQ_get0_pubkey(request.get()) : nullptr;
  if (key == nullptr || !IsP256(key) || X509_REQ_verify(request.get(), key) != 1) {
    (void)OpenSslError("");
    return Fail(Code::kInvalid, "the request for a certificate is not signed with a key on P-256");
  }
  return request;
}

/// What the certificate says of itself, for the sentence of a refusal.
std::string Described(const Certificate& certificate) {
  const Result<Identity> member = certificate.Member();
  return member ? "the certificate of " + NameOf(*member) : std::string("the certificate");
}

Error NotBelieved(const Certificate& certificate, int error, std::int64_t now_unix_s) {
  std::string text = Described(certificate);
  if (error == X509_V_ERR_CERT_HAS_EXPIRED) {
    text += " ended at " + DescribeTime(certificate.ends_unix_s()) + ", and this machine's clock " +
            "says " + DescribeTime(now_unix_s) + ": join again with a new token, or set the clock";
  } else if (error == X509_V_ERR_CERT_NOT_YET_VALID) {
    text += " begins at " + DescribeTime(certificate.begins_unix_s()) +
            ", and this machine's clock says " + DescribeTime(now_unix_s) + ": set the clock";
  } else if (error == X509_V_ERR_INVALID_PURPOSE) {
    text += " is not made for this end of a connection";
  } else if (error == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
             error == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
             error == X509_V_ERR_CERT_SIGNATURE_FAILURE) {
    text += " was not issued by this cluster's authority: join this cluster with a token of it";
  } else {
    text += " is not accepted: " + std::string(X509_verify_cert_error_string(error));
  }
  return Error{Code::kDenied, std::move(text)};
}

/// X509_V_OK or why not, at `when`.
int VerifyAt(const Certificate& certificate, X509_STORE* store, Purpose purpose,
             std::int64_t when_unix_s) {
  const ContextPtr context(X509_STORE_CTX_new());
  if (!context || X509_STORE_CTX_init(context.get(), store, certificate.native(), nullptr) != 1)
    return X509_V_ERR_OUT_OF_MEM;
  X509_VERIFY_PARAM* wanted = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(wanted, when_unix_s);
  X509_VERIFY_PARAM_set_purpose(
      wanted, purpose == Purpose::kConnects ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER);
  const bool good = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  (void)OpenSslError("");
  if (good) return X509_V_OK;
  return error == X509_V_OK ? X509_V_ERR_UNSPECIFIED : error;
}

}  // namespace

Validity Validity::From(std::int64_t now_unix_s, std::chrono::seconds length) {
  const std::int64_t early = std::chrono::seconds(kClockTolerance).count();
  return {.begins_unix_s = now_unix_s - early, .ends_unix_s = now_unix_s + length.count()};
}

Result<std::string> MakeRequest(const PrivateKey& key) {
  const RequestPtr request(X509_REQ_new());
  unsigned char* bytes = nullptr;
  const bool made = request && X509_REQ_set_pubkey(request.get(), key.native()) == 1 &&
                    X509_REQ_sign(request.get(), key.native(), EVP_sha256()) > 0;
  const int size = made ? i2d_X509_REQ(request.get(), &bytes) : 0;
  if (size <= 0) return Fail(OpenSslError("cannot ask for a certificate"));
  std::string text(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return text;
}

Result<Authority> Authority::Make(const Uuid& cluster, std::int64_t now_unix_s) {
  Result<PrivateKey> key = PrivateKey::Generate();
  if (!key) return Fail(key.error());
  X509Ptr made(X509_new());
  X509* certificate = made.get();
  const bool good =
      made && SetFrame(certificate, Validity::From(now_unix_s, kAuthorityLifetime)) &&
      SetName(X509_get_subject_name(certificate), "Forebay cluster " + cluster.ToString()) &&
      X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
      X509_set_pubkey(certificate, key->native()) == 1 &&
      AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
      AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") &&
      AddExtension(certificate, certificate, NID_subject_key_identifier, "hash") &&
      X509_sign(certificate, key->native(), EVP_sha256()) > 0;
  if (!good) return Fail(OpenSslError("cannot make the cluster's authority"));
  return Authority(Certificate(made.release()), *key);
}

Result<Authority> Authority::Of(Certificate certificate, PrivateKey key) {
  if (!certificate.Fits(key))
    return Fail(Code::kInvalid, "the authority's key does not belong to its certificate");
  return Authority(std::move(certificate), std::move(key));
}

Result<Certificate> Authority::Issue(std::string_view request, const Identity& member,
                                     Validity validity,
                                     const std::optional<std::vector<std::string>>& links) const {
  Status named = CheckMemberId(member.id);
  if (!named) return Fail(named.error());
  if (links && (member.role != proto::ROLE_CLIENT || links->size() > kMaxGrantedLinks)) {
    return Fail(Code::kInvalid, "links can be granted to clients, and at most " +
                                    std::to_string(kMaxGrantedLinks) + " to one");
  }
  Result<RequestPtr> asked = ReadRequest(request);
  if (!asked) return Fail(asked.error());
  X509Ptr made(X509_new());
  X509* certificate = made.get();
  X509* issuer = certificate_.native();
  const bool good =
      made && SetFrame(certificate, validity) &&
      SetName(X509_get_subject_name(certificate), member.id) &&
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
      X509_set_pubkey(certificate, X509_REQ_get0_pubkey(asked->get())) == 1 &&
      AddExtension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
      AddExtension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
      AddExtension(certificate, issuer, NID_ext_key_usage, UsesOf(member.role)) &&
      AddExtension(certificate, issuer, NID_subject_key_identifier, "hash") &&
      AddExtension(certificate, issuer, NID_subject_alt_name, "URI:" + SpiffeIdOf(member)) &&
      AddExtension(certificate, issuer, NID_authority_key_identifier, "keyid:always") &&
      (!links || AddLinks(certificate, *links)) &&
      X509_sign(certificate, key_.native(), EVP_sha256()) > 0;
  if (!good) return Fail(OpenSslError("cannot issue a certificate"));
  return Certificate(made.release());
}

Result<Identity> VerifyMember(const Certificate& certificate, const Belief& belief, Purpose purpose,
                              std::int64_t now_unix_s) {
  const StorePtr store(X509_STORE_new());
  if (!store) return Fail(OpenSslError("cannot look at a certificate"));
  for (const Certificate& authority : belief.authorities)
    X509_STORE_add_cert(store.get(), authority.native());
  const int error = VerifyAt(certificate, store.get(), purpose, now_unix_s);
  if (error != X509_V_OK) return Fail(NotBelieved(certificate, error, now_unix_s));
  Result<Identity> member = certificate.Member();
  if (!member) return Fail(Code::kDenied, member.error().message);
  if (member->cluster != belief.cluster) {
    return Fail(Code::kDenied, "the certificate of " + NameOf(*member) +
                                   " is of another cluster (" + member->cluster.ToString() + ")");
  }
  return member;
}

}  // namespace forebay
