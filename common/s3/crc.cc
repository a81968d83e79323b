#include "common/s3/crc.h"

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace forebay {
namespace {

// All three shift to the right: the lowest bit is the highest power.
constexpr std::uint32_t kCrc32Polynomial = 0xEDB88320;
constexpr std::uint32_t kCrc32cPolynomial = 0x82F63B78;
constexpr std::uint64_t kCrc64NvmePolynomial = 0x9A6C9329AC4BC9B5;

constexpr std::size_t kSlices = 16;

// Row s: the remainder of each byte, s zero bytes later. Sixteen bytes then cost sixteen look-ups
// that do not wait for each other.
template <std::unsigned_integral T>
using Tables = std::array<std::array<T, 256>, kSlices>;

template <std::unsigned_integral T>
constexpr Tables<T> MakeTables(T polynomial) {
  Tables<T> tables{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    T crc = static_cast<T>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : T{0});
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const T before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables<std::uint32_t> kCrc32Tables = MakeTables(kCrc32Polynomial);
constexpr Tables<std::uint32_t> kCrc32cTables = MakeTables(kCrc32cPolynomial);
constexpr Tables<std::uint64_t> kCrc64NvmeTables = MakeTables(kCrc64NvmePolynomial);

std::uint64_t LoadLittle(const unsigned char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = std::byteswap(word);
  return word;
}

template <std::unsigned_integral T>
T Remainder(const Tables<T>& tables, T crc, const unsigned char* bytes, std::size_t size) {
  while (size >= kSlices) {
    const std::uint64_t low = LoadLittle(bytes) ^ crc;
    const std::uint64_t high = LoadLittle(bytes + 8);
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      crc ^= tables[15 - i][(low >> (8 * i)) & 0xFF];
      crc ^= tables[7 - i][(high >> (8 * i)) & 0xFF];
    }
    bytes += kSlices;
    size -= kSlices;
  }
  for (; size > 0; --size) crc = (crc >> 8) ^ tables[0][(crc ^ *bytes++) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t HardwareCrc32c(std::uint32_t crc,
                                                               const unsigned char* bytes,
                                                               std::size_t size) {
  std::uint64_t wide = crc;
  for (; size >= 8; size -= 8, bytes += 8) wide = _mm_crc32_u64(wide, LoadLittle(bytes));
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; size > 0; --size) narrow = _mm_crc32_u8(narrow, *bytes++);
  return narrow;
}

bool HasCrc32c() {
  static const bool kHas = __builtin_cpu_supports("sse4.2") != 0;
  return kHas;
}
#endif

std::uint32_t Crc32c(std::uint32_t crc, const unsigned char* bytes, std::size_t size) {
#if defined(__x86_64__)
  if (HasCrc32c()) return HardwareCrc32c(crc, bytes, size);
#endif
  return Remainder(kCrc32cTables, crc, bytes, size);
}

// The product of two polynomials, modulo the third, in the bit order of the checksums.
template <std::unsigned_integral T>
T Multiply(T a, T b, T polynomial) {
  constexpr T kOne = T{1} << (sizeof(T) * 8 - 1);
  T product = 0;
  for (T bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : T{0});
  }
  return product;
}

// x to the power of 8 * bytes: what so many more bytes do to a checksum.
template <std::unsigned_integral T>
T Shift(std::uint64_t bytes, T polynomial) {
  constexpr T kOne = T{1} << (sizeof(T) * 8 - 1);
  T power = kOne >> 8;  // of one byte
  T result = kOne;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = Multiply(result, power, polynomial);
    power = Multiply(power, power, polynomial);
  }
  return result;
}

template <std::unsigned_integral T>
T Combine(T first, T second, std::uint64_t second_bytes, T polynomial) {
  return Multiply(Shift(second_bytes, polynomial), first, polynomial) ^ second;
}

}  // namespace

std::uint64_t UpdateCrc(CrcKind kind, std::uint64_t crc, ByteView view) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(view.data());
  const auto narrow = static_cast<std::uint32_t>(~crc);
  switch (kind) {
    case CrcKind::kCrc32:
      return static_cast<std::uint32_t>(~Remainder(kCrc32Tables, narrow, bytes, view.size()));
    case CrcKind::kCrc32c:
      return static_cast<std::uint32_t>(~Crc32c(narrow, bytes, view.size()));
    case CrcKind::kCrc64Nvme:
      return ~Remainder(kCrc64NvmeTables, ~crc, bytes, view.size());
  }
  return 0;
}

std::uint64_t CombineCrc(CrcKind kind, std::uint64_t first, std::uint64_t second,
                         std::uint64_t second_bytes) {
  const auto a = static_cast<std::uint32_t>(first);
  const auto b = static_cast<std::uint32_t>(second);
  switch (kind) {
    case CrcKind::kCrc32:
      return Combine(a, b, second_bytes, kCrc32Polynomial);
    case CrcKind::kCrc32c:
      return Combine(a, b, second_bytes, kCrc32cPolynomial);
    case CrcKind::kCrc64Nvme:
      return Combine(first, second, second_bytes, kCrc64NvmePolynomial);
  }
  return 0;
}

}  // namespace forebay
