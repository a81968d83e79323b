#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/buffer.h"
#include "common/s3/crc.h"

namespace forebay {

/// What S3 knows of the bytes that were uploaded (x-amz-checksum-*): a checksum of the whole
/// object.
struct ObjectChecksum {
  enum class Kind : std::uint8_t {
    kCrc32 = 1,
    kCrc32c = 2,
    kCrc64Nvme = 3,
    kSha1 = 4,
    kSha256 = 5
  };
  Kind kind = Kind::kCrc64Nvme;
  std::string value;  ///< Its bytes, the highest first.

  /// Nothing for SHA, which cannot be put together from the blocks of an object.
  std::optional<CrcKind> crc_kind() const;
  bool operator==(const ObjectChecksum&) const = default;
};

/// "CRC32C": as S3 writes it.
std::string_view ChecksumName(ObjectChecksum::Kind kind);
/// Nothing unless `header` ("x-amz-checksum-crc32c") is that of a checksum we know.
std::optional<ObjectChecksum::Kind> ChecksumOfHeader(std::string_view header);
/// The value as S3 writes it, in base 64. Nothing where it is not one of the whole object:
/// composite ones end with "-" and the number of parts, whose sizes nobody asks for; or not of the
/// right length.
std::optional<ObjectChecksum> ParseChecksum(ObjectChecksum::Kind kind, std::string_view text);
/// As S3 writes it.
std::string ChecksumText(const ObjectChecksum& checksum);

/// A CRC as the value of an ObjectChecksum of that kind.
ObjectChecksum ChecksumOfCrc(CrcKind kind, std::uint64_t crc);

/// Takes the bytes of an object from its first to its last.
class ChecksumSum {
 public:
  virtual ~ChecksumSum() = default;
  virtual void Update(ByteView bytes) = 0;
  virtual ObjectChecksum Finish() = 0;  ///< Once.
};
std::unique_ptr<ChecksumSum> BeginChecksum(ObjectChecksum::Kind kind);

}  // namespace forebay
