#include "common/trust/openssl.h"

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace forebay {

Error OpenSslError(std::string_view what) {
  std::string message(what);
  std::array<char, 256> reason{};
  for (unsigned long code = ERR_get_error(); code != 0; code = ERR_get_error()) {
    ERR_error_string_n(code, reason.data(), reason.size());
    message.append(": ").append(reason.data());
  }
  return Error{Code::kInternal, std::move(message)};
}

BioPtr ReadOnly(std::string_view bytes) {
  return BioPtr(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

const ASN1_OBJECT* LinksExtension() {
  // 3d9b0a0e-6f0d-4c3c-9a57-5d1f3f0a7b21, drawn for this.
  static const ASN1_OBJECT* const object =
      OBJ_txt2obj("2.25.81887917723611990389562518907187264289", 1);
  return object;
}

bool IsP256(const EVP_PKEY* key) {
  std::array<char, 64> group{};
  std::size_t size = 0;
  return EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), &size) == 1 &&
         std::strcmp(group.data(), "prime256v1") == 0;
}

std::string Sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string HmacSha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string RandomText(std::size_t bytes) {
  std::string text(bytes, '\0');
  // Fails only when the kernel has no randomness at all; there is no safe way on.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(text.data()), static_cast<int>(bytes)) != 1)
    std::abort();
  return text;
}

}  // namespace forebay
