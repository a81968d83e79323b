#include "common/s3/object_checksum.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace forebay {
namespace {

using Kind = ObjectChecksum::Kind;

struct Known {
  Kind kind;
  std::string_view name;
  std::string_view header;
  std::size_t bytes;
};
constexpr std::array<Known, 5> kKnown = {{
    {Kind::kCrc64Nvme, "CRC64NVME", "x-amz-checksum-crc64nvme", 8},
    {Kind::kCrc32c, "CRC32C", "x-amz-checksum-crc32c", 4},
    {Kind::kCrc32, "CRC32", "x-amz-checksum-crc32", 4},
    {Kind::kSha256, "SHA256", "x-amz-checksum-sha256", 32},
    {Kind::kSha1, "SHA1", "x-amz-checksum-sha1", 20},
}};

const Known& Of(Kind kind) { return *std::ranges::find(kKnown, kind, &Known::kind); }

Kind KindOf(CrcKind kind) {
  switch (kind) {
    case CrcKind::kCrc32:
      return Kind::kCrc32;
    case CrcKind::kCrc32c:
      return Kind::kCrc32c;
    case CrcKind::kCrc64Nvme:
      return Kind::kCrc64Nvme;
  }
  return Kind::kCrc64Nvme;
}

class CrcSum final : public ChecksumSum {
 public:
  explicit CrcSum(CrcKind kind) : kind_(kind) {}
  void Update(ByteView bytes) override { crc_ = UpdateCrc(kind_, crc_, bytes); }
  ObjectChecksum Finish() override { return ChecksumOfCrc(kind_, crc_); }

 private:
  const CrcKind kind_;
  std::uint64_t crc_ = 0;
};

class ShaSum final : public ChecksumSum {
 public:
  explicit ShaSum(Kind kind) : kind_(kind), context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(context_, kind == Kind::kSha1 ? EVP_sha1() : EVP_sha256(), nullptr);
  }
  ~ShaSum() override { EVP_MD_CTX_free(context_); }
  ShaSum(const ShaSum&) = delete;
  ShaSum& operator=(const ShaSum&) = delete;

  void Update(ByteView bytes) override { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  ObjectChecksum Finish() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_, digest.data(), &size);
    return {.kind = kind_, .value = std::string(digest.begin(), digest.begin() + size)};
  }

 private:
  const Kind kind_;
  EVP_MD_CTX* const context_;
};

}  // namespace

std::optional<CrcKind> ObjectChecksum::crc_kind() const {
  switch (kind) {
    case Kind::kCrc32:
      return CrcKind::kCrc32;
    case Kind::kCrc32c:
      return CrcKind::kCrc32c;
    case Kind::kCrc64Nvme:
      return CrcKind::kCrc64Nvme;
    case Kind::kSha1:
    case Kind::kSha256:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string_view ChecksumName(Kind kind) { return Of(kind).name; }

std::optional<Kind> ChecksumOfHeader(std::string_view header) {
  const auto* known = std::ranges::find(kKnown, header, &Known::header);
  if (known == kKnown.end()) return std::nullopt;
  return known->kind;
}

std::optional<ObjectChecksum> ParseChecksum(Kind kind, std::string_view text) {
  const std::size_t size = Of(kind).bytes;
  // Four letters for three bytes; a composite one has more behind them.
  if (text.size() != (size + 2) / 3 * 4) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int decoded = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                      reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()));
  if (decoded < 0 || static_cast<std::size_t>(decoded) != bytes.size()) return std::nullopt;
  bytes.resize(size);
  ObjectChecksum checksum{.kind = kind, .value = std::move(bytes)};
  if (ChecksumText(checksum) != text) return std::nullopt;
  return checksum;
}

std::string ChecksumText(const ObjectChecksum& checksum) {
  std::string text((checksum.value.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(checksum.value.data()),
                                   static_cast<int>(checksum.value.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

ObjectChecksum ChecksumOfCrc(CrcKind kind, std::uint64_t crc) {
  ObjectChecksum checksum{.kind = KindOf(kind), .value = ""};
  for (std::size_t i = Of(checksum.kind).bytes; i > 0; --i)
    checksum.value.push_back(static_cast<char>((crc >> (8 * (i - 1))) & 0xFF));
  return checksum;
}

std::unique_ptr<ChecksumSum> BeginChecksum(Kind kind) {
  const ObjectChecksum of{.kind = kind, .value = ""};
  if (const std::optional<CrcKind> crc = of.crc_kind()) return std::make_unique<CrcSum>(*crc);
  return std::make_unique<ShaSum>(kind);
}

}  // namespace forebay
