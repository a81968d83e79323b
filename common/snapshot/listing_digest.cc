#include "common/snapshot/listing_digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "common/model/key_rules.h"

namespace forebay {
namespace {

/// The hash takes much at a time faster than little.
constexpr std::size_t kPieceBytes = 64 << 10;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void Update(std::string_view bytes) {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::string Finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

Result<std::string> ListingDigest(const Snapshot& snapshot) {
  Sha256 sum;
  std::string piece;
  const Status walked = snapshot.ForEachFile(0, [&](const SnapshotRow& row, std::string_view path) {
    piece.append(KeyAtPath(snapshot.source().prefix, path)).push_back('\0');
    piece.append(snapshot.EtagOf(row)).push_back('\0');
    piece.append(std::to_string(row.size)).push_back('\0');
    if (piece.size() >= kPieceBytes) {
      sum.Update(piece);
      piece.clear();
    }
    return true;
  });
  if (!walked) return Fail(walked.error());
  sum.Update(piece);
  return sum.Finish();
}

}  // namespace forebay
