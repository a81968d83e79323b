#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

// What the sources of this folder share of OpenSSL; no other header of ours includes it.
namespace forebay {

template <auto kFree>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpenSslFree<BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, OpenSslFree<X509_REQ_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;

/// kInternal with OpenSSL's reasons, whose queue is empty afterwards.
Error OpenSslError(std::string_view what);
BioPtr ReadOnly(std::string_view bytes);
/// All that was written to it.
std::string TextOf(BIO* memory);
/// The object identifier of a certificate's list of links; ours alone (an arc below 2.25, where
/// every uuid has a place).
const ASN1_OBJECT* LinksExtension();
bool IsP256(const EVP_PKEY* key);
std::string Sha256(std::string_view bytes);
std::string HmacSha256(std::string_view key, std::string_view text);
std::string RandomText(std::size_t bytes);

}  // namespace forebay
