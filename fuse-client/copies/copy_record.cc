#include "fuse-client/copies/copy_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>

#include "common/base/files.h"
#include "common/model/block_id.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

namespace {

constexpr std::uint64_t kMagic = 0x31'79'70'6f'63'79'62'66;  // "fbycopy1"
constexpr std::size_t kNumbersBefore = 6;

/// What O_DIRECT wants of addresses and lengths.
constexpr std::size_t kAlignment = 4096;

std::uint64_t PiecesOf(std::uint64_t size, std::uint64_t block_bytes) {
  return size / block_bytes + (size % block_bytes != 0 ? 1 : 0);
}

struct Freed {
  void operator()(void* memory) const {
    std::free(memory);
  }  // NOLINT(cppcoreguidelines-no-malloc): of aligned_alloc
};

std::unexpected<Error> CannotRead(const std::string& path) {
  const Code code = errno == ENOENT ? Code::kNotFound : Code::kInternal;
  return Fail(code, "reading " + path + ": " + std::generic_category().message(errno));
}

OwnedFd OpenPastPageCache(const std::string& path) {
  OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!file && errno == EINVAL) file = OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file;
}

/// Up to `size` bytes; fewer at the end of the file alone. -1: errno says why.
ssize_t ReadAll(int fd, char* to, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return n;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
    // The next part would begin where O_DIRECT reads nothing: this was the end.
    if (done % kAlignment != 0) break;
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

std::string CopyRecord::Encode() const {
  std::vector<std::uint64_t> numbers = {kMagic, version.high, version.low,
                                        nodeid, size,         block_bytes};
  numbers.insert(numbers.end(), sums.begin(), sums.end());
  numbers.push_back(CellChecksum(numbers.data(), numbers.size() * sizeof numbers.front()));
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers.front()};
}

Result<CopyRecord> CopyRecord::Decode(std::string_view bytes) {
  const auto damaged = [] { return Fail(Code::kCorrupt, "the record of a copy is damaged"); };
  std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
  if (bytes.size() % sizeof(std::uint64_t) != 0 || numbers.size() <= kNumbersBefore) {
    return damaged();
  }
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  const std::uint64_t sum =
      CellChecksum(numbers.data(), (numbers.size() - 1) * sizeof numbers.front());
  if (numbers.front() != kMagic || numbers.back() != sum) return damaged();
  CopyRecord record;
  record.version = {.high = numbers[1], .low = numbers[2]};
  record.nodeid = numbers[3];
  record.size = numbers[4];
  record.block_bytes = numbers[5];
  record.sums.assign(numbers.begin() + kNumbersBefore, numbers.end() - 1);
  if (record.block_bytes == 0 || record.pieces() != PiecesOf(record.size, record.block_bytes)) {
    return damaged();
  }
  return record;
}

Result<CopyRecord> CopyRecord::Load(const std::string& path) {
  const Result<std::string> bytes = ReadWholeFile(path);
  if (!bytes) return Fail(bytes.error());
  return Decode(*bytes);
}

Status VerifyCopy(const std::string& path, const CopyRecord& record,
                  const std::function<bool(std::size_t bytes)>& after) {
  const OwnedFd file = OpenPastPageCache(path);
  struct stat attributes{};
  if (!file || ::fstat(file.get(), &attributes) != 0) return CannotRead(path);
  if (static_cast<std::uint64_t>(attributes.st_size) != record.size) {
    return Fail(Code::kCorrupt, path + " has another size than it was written with");
  }
  const std::uint64_t piece = std::min(record.block_bytes, record.size);
  const std::size_t room = (piece + kAlignment - 1) / kAlignment * kAlignment;
  const std::unique_ptr<void, Freed> memory(std::aligned_alloc(kAlignment, room));
  if (!memory && room > 0) return Fail(Code::kInternal, "no memory to read " + path);
  for (std::uint64_t i = 0; i < record.pieces(); ++i) {
    const std::uint64_t offset = i * record.block_bytes;
    const std::uint64_t length = std::min(record.block_bytes, record.size - offset);
    // Whole pages are asked for; the end of the file ends the answer.
    const std::size_t asked = (length + kAlignment - 1) / kAlignment * kAlignment;
    const ssize_t got = ReadAll(file.get(), static_cast<char*>(memory.get()), asked, offset);
    if (got < 0) return CannotRead(path);
    if (static_cast<std::uint64_t>(got) < length ||
        CellChecksum(memory.get(), length) != record.sums[i]) {
      return Fail(Code::kCorrupt, path + " is not what was written, in its " +
                                      std::to_string(length) + " bytes at " +
                                      std::to_string(offset));
    }
    if (after && !after(length)) return Fail(Code::kUnavailable, "the check was ended");
  }
  return {};
}

}  // namespace forebay
