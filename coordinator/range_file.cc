#include "coordinator/range_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <type_traits>

namespace forebay {
namespace {

/// A page of 1,000 keys of 1,024 bytes takes 1.4 MB: nothing longer is ever written.
constexpr std::uint32_t kMaxFrameBytes = 16U << 20;

struct FrameHeader {
  std::uint8_t kind;
  std::array<std::uint8_t, 3> zero;
  std::uint32_t payload_bytes;
  std::uint32_t objects;
  std::uint32_t zero_too;
  std::uint64_t bytes;
  std::uint64_t checksum;  // of what is before it, and of the payload
};
static_assert(sizeof(FrameHeader) == 32 && std::is_trivially_copyable_v<FrameHeader>);

std::uint64_t ChecksumOf(const FrameHeader& header, std::string_view payload) {
  const std::uint64_t seed = XXH3_64bits(&header, offsetof(FrameHeader, checksum));
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

template <typename T>
void PutNumber(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename T>
bool TakeNumber(std::string_view& rest, T& number) {
  if (rest.size() < sizeof number) return false;
  rest.copy(reinterpret_cast<char*>(&number), sizeof number);
  rest.remove_prefix(sizeof number);
  return true;
}

}  // namespace

Result<std::unique_ptr<RangeFile>> RangeFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return Fail(Code::kInternal,
                fmt::format("{}: {}", path, std::generic_category().message(errno)));
  }
  return std::unique_ptr<RangeFile>(new RangeFile(path, fd));
}

RangeFile::~RangeFile() { ::close(fd_); }

Error RangeFile::Failed(const char* what) const {
  return Error{Code::kInternal, fmt::format("cannot {} {}: {}", what, path_,
                                            std::generic_category().message(errno))};
}

Status RangeFile::Append(const Frame& frame) {
  FrameHeader header{};
  header.kind = static_cast<std::uint8_t>(frame.kind);
  header.payload_bytes = static_cast<std::uint32_t>(frame.payload.size());
  header.objects = frame.objects;
  header.bytes = frame.bytes;
  header.checksum = ChecksumOf(header, frame.payload);
  const std::scoped_lock lock(mutex_);
  buffer_.assign(reinterpret_cast<const char*>(&header), sizeof header);
  buffer_.append(frame.payload);
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(Failed("write"));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

/// False at the end of the file.
Result<bool> RangeFile::ReadAt(std::uint64_t offset, char* to, std::size_t count) const {
  while (count > 0) {
    const ssize_t got = ::pread(fd_, to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(Failed("read"));
    if (got == 0) return false;
    to += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

Status RangeFile::ForEach(const std::function<Status(const Frame&)>& visit) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t offset = 0;
  for (;;) {
    FrameHeader header{};
    Result<bool> read = ReadAt(offset, reinterpret_cast<char*>(&header), sizeof header);
    if (!read) return Fail(read.error());
    if (!*read || header.payload_bytes > kMaxFrameBytes) break;
    buffer_.resize(header.payload_bytes);
    read = ReadAt(offset + sizeof header, buffer_.data(), buffer_.size());
    if (!read) return Fail(read.error());
    if (!*read || header.checksum != ChecksumOf(header, buffer_)) break;
    Status visited = visit(Frame{.kind = static_cast<FrameKind>(header.kind),
                                 .objects = header.objects,
                                 .bytes = header.bytes,
                                 .payload = buffer_});
    if (!visited) return visited;
    offset += sizeof header + buffer_.size();
  }
  if (::ftruncate(fd_, static_cast<off_t>(offset)) != 0) return Fail(Failed("cut"));
  return {};
}

void PutText(std::string& out, std::string_view text) {
  PutNumber(out, static_cast<std::uint16_t>(text.size()));
  out.append(text);
}

void PutEnd(std::string& out, const std::optional<std::string>& end) {
  PutNumber(out, static_cast<std::uint8_t>(end ? 1 : 0));
  PutText(out, end ? std::string_view(*end) : std::string_view());
}

void PutObject(std::string& out, const ListedObject& object) {
  PutNumber(out, object.size);
  PutNumber(out, object.mtime_s);
  PutText(out, object.key);
  PutText(out, object.etag);
  PutText(out, object.storage_class);
}

bool TakeText(std::string_view& rest, std::string_view& text) {
  std::uint16_t bytes = 0;
  if (!TakeNumber(rest, bytes) || rest.size() < bytes) return false;
  text = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  return true;
}

bool TakeEnd(std::string_view& rest, std::optional<std::string>& end) {
  std::uint8_t has = 0;
  std::string_view text;
  if (!TakeNumber(rest, has) || !TakeText(rest, text)) return false;
  end = has != 0 ? std::optional<std::string>(text) : std::nullopt;
  return true;
}

bool TakeObject(std::string_view& rest, ListedObject& object) {
  std::string_view key;
  std::string_view etag;
  std::string_view storage_class;
  const bool taken = TakeNumber(rest, object.size) && TakeNumber(rest, object.mtime_s) &&
                     TakeText(rest, key) && TakeText(rest, etag) && TakeText(rest, storage_class);
  if (!taken) return false;
  object.key = key;
  object.etag = etag;
  object.storage_class = storage_class;
  return true;
}

}  // namespace forebay
