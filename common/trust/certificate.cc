#include "common/trust/certificate.h"

#include <fmt/chrono.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "common/trust/openssl.h"

namespace forebay {
namespace {

std::int64_t UnixSecondsOf(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

using StringPtr = std::unique_ptr<ASN1_UTF8STRING, OpenSslFree<ASN1_UTF8STRING_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, OpenSslFree<GENERAL_NAMES_free>>;

}  // namespace

PrivateKey::PrivateKey(evp_pkey_st* key) : key_(key, EVP_PKEY_free) {}

Result<PrivateKey> PrivateKey::Generate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  if (key == nullptr) return Fail(OpenSslError("cannot make a key"));
  return PrivateKey(key);
}

Result<PrivateKey> PrivateKey::FromPem(const Secret& pem) {
  const BioPtr text = ReadOnly(pem.Reveal());
  // Never asks for a passphrase.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, nullptr));
  if (!key) {
    (void)OpenSslError("");
    return Fail(Code::kInvalid, "it holds no private key");
  }
  if (!IsP256(key.get())) return Fail(Code::kInvalid, "its private key is not on the curve P-256");
  return PrivateKey(key.release());
}

Secret PrivateKey::ToPem() const {
  const BioPtr text(BIO_new(BIO_s_secmem()));
  PEM_write_bio_PKCS8PrivateKey(text.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return Secret(TextOf(text.get()));
}

Certificate::Certificate(x509_st* certificate) : certificate_(certificate, X509_free) {}

Result<std::vector<Certificate>> Certificate::AllFromPem(std::string_view pem) {
  const BioPtr text = ReadOnly(pem);
  std::vector<Certificate> all;
  while (X509* next = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    all.emplace_back(next);
  }
  (void)OpenSslError("");  // the end of the text is one
  if (all.empty()) return Fail(Code::kInvalid, "it holds no certificate");
  return all;
}

Result<Certificate> Certificate::FromPem(std::string_view pem) {
  Result<std::vector<Certificate>> all = AllFromPem(pem);
  if (!all) return Fail(all.error());
  return all->front();
}

std::string Certificate::ToPem() const {
  const BioPtr text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(text.get(), certificate_.get());
  return TextOf(text.get());
}

Result<Identity> Certificate::Member() const {
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate_.get(), NID_subject_alt_name, nullptr, nullptr)));
  const bool one = names && sk_GENERAL_NAME_num(names.get()) == 1;
  const GENERAL_NAME* name = one ? sk_GENERAL_NAME_value(names.get(), 0) : nullptr;
  if (name == nullptr || name->type != GEN_URI)
    return Fail(Code::kInvalid, "the certificate names no member of a Forebay cluster");
  const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
  return ParseSpiffeId({reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                        static_cast<std::size_t>(ASN1_STRING_length(uri))});
}

std::string Certificate::KeyHash() const {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate_.get()), &bytes);
  if (size <= 0) return {};
  std::string hash = Sha256({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
  OPENSSL_free(bytes);
  return hash;
}

std::int64_t Certificate::begins_unix_s() const {
  return UnixSecondsOf(X509_get0_notBefore(certificate_.get()));
}

std::int64_t Certificate::ends_unix_s() const {
  return UnixSecondsOf(X509_get0_notAfter(certificate_.get()));
}

std::int64_t Certificate::issued_unix_s() const {
  return begins_unix_s() + std::chrono::seconds(kClockTolerance).count();
}

bool Certificate::IsIssuedBy(const Certificate& authority) const {
  EVP_PKEY* key = X509_get0_pubkey(authority.native());
  const bool by = key != nullptr && X509_verify(certificate_.get(), key) == 1;
  if (!by) (void)OpenSslError("");
  return by;
}

Result<std::optional<std::vector<std::string>>> Certificate::Links() const {
  const int at = X509_get_ext_by_OBJ(certificate_.get(), LinksExtension(), -1);
  if (at < 0) return std::optional<std::vector<std::string>>();
  const ASN1_OCTET_STRING* value = X509_EXTENSION_get_data(X509_get_ext(certificate_.get(), at));
  const unsigned char* bytes = ASN1_STRING_get0_data(value);
  const StringPtr text(d2i_ASN1_UTF8STRING(nullptr, &bytes, ASN1_STRING_length(value)));
  if (!text) {
    (void)OpenSslError("");
    return Fail(Code::kInvalid, "the certificate's list of links cannot be read");
  }
  std::vector<std::string> links;
  std::string_view rest(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text.get())),
                        static_cast<std::size_t>(ASN1_STRING_length(text.get())));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    links.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return links;
}

bool Certificate::Fits(const PrivateKey& key) const {
  const bool fits = X509_check_private_key(certificate_.get(), key.native()) == 1;
  if (!fits) (void)OpenSslError("");
  return fits;
}

std::string PemOf(const std::vector<Certificate>& certificates) {
  std::string text;
  for (const Certificate& each : certificates) text += each.ToPem();
  return text;
}

std::string DescribeTime(std::int64_t unix_s) {
  const std::time_t time = unix_s;
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return "a time beyond all calendars";
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", parts);
}

}  // namespace forebay
