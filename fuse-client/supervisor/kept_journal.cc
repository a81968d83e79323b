#include "fuse-client/supervisor/kept_journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace forebay {

namespace {

constexpr std::uint64_t kMagic = 0x6c6e726a79627266;  // "frbyjrnl"
constexpr std::uint64_t kLayout = 1;

struct Header {
  std::uint64_t magic;
  std::uint64_t layout;
  std::uint64_t committed;  ///< The region in the top bit, its bytes in the others.
};

constexpr std::uint64_t kFirstRegion = 4096;
/// Of address space; memory is taken as it is written.
constexpr std::uint64_t kRegionBytes = 1ULL << 32;
constexpr std::uint64_t kRegionBit = 1ULL << 63;

enum class RecordKind : std::uint32_t { kKeep = 1, kDrop = 2 };

struct RecordHead {
  RecordKind kind;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
  std::uint32_t unused;
  std::uint64_t descriptor;
};

std::uint64_t RegionAt(std::uint64_t region) { return kFirstRegion + region * kRegionBytes; }

void AppendRecord(std::string& out, RecordKind kind, std::string_view key, std::string_view value,
                  std::uint64_t descriptor) {
  const RecordHead head{kind, static_cast<std::uint32_t>(key.size()),
                        static_cast<std::uint32_t>(value.size()), 0, descriptor};
  out.append(reinterpret_cast<const char*>(&head), sizeof head).append(key).append(value);
}

std::unexpected<Error> Refused() {
  return Fail(Code::kInternal, "memory for what a mount leaves to its successor: " +
                                   std::generic_category().message(errno));
}

std::unexpected<Error> Unknown() {
  return Fail(Code::kInvalid, "what the mount has left has an unknown layout");
}

bool WriteAll(int fd, std::string_view bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
  return true;
}

void Erase(KeptJournal::Records& records, std::string_view prefix) {
  auto entry = records.lower_bound(std::string(prefix));
  while (entry != records.end() && entry->first.starts_with(prefix)) entry = records.erase(entry);
}

/// Takes one record off `text`; false: there is none.
bool TakeRecord(std::string_view& text, KeptJournal::Records& records) {
  RecordHead head{};
  if (text.size() < sizeof head) return false;
  std::memcpy(&head, text.data(), sizeof head);
  text.remove_prefix(sizeof head);
  if (text.size() < std::uint64_t{head.key_bytes} + head.value_bytes) return false;
  const std::string key(text.substr(0, head.key_bytes));
  const std::string_view value = text.substr(head.key_bytes, head.value_bytes);
  text.remove_prefix(std::size_t{head.key_bytes} + head.value_bytes);
  if (head.kind == RecordKind::kDrop) {
    Erase(records, key);
    return true;
  }
  records[key] = {std::string(value), head.descriptor};
  return head.kind == RecordKind::kKeep;
}

}  // namespace

Result<KeptJournal> KeptJournal::Create() {
  OwnedFd file(::memfd_create("forebay-kept", MFD_CLOEXEC));
  if (!file) return Refused();
  const Header header{kMagic, kLayout, 0};
  const std::string_view bytes(reinterpret_cast<const char*>(&header), sizeof header);
  if (!WriteAll(file.get(), bytes, 0)) return Refused();
  return KeptJournal(std::move(file));
}

Result<KeptJournal> KeptJournal::Open(OwnedFd file) {
  KeptJournal journal(std::move(file));
  const Status read = journal.Read();
  if (!read) return Fail(read.error());
  return journal;
}

Status KeptJournal::Read() {
  Header header{};
  if (::pread(fd(), &header, sizeof header, 0) != sizeof header || header.magic != kMagic ||
      header.layout != kLayout) {
    return Unknown();
  }
  region_ = header.committed >> 63;
  bytes_ = header.committed & ~kRegionBit;
  if (bytes_ > kRegionBytes) return Unknown();
  std::string text(bytes_, '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::pread(fd(), text.data() + done, text.size() - done,
                              static_cast<off_t>(RegionAt(region_) + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Unknown();
    done += static_cast<std::size_t>(n);
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    if (!TakeRecord(rest, records_)) return Unknown();
  }
  return {};
}

Status KeptJournal::Keep(const std::string& key, Record record) {
  std::string bytes;
  AppendRecord(bytes, RecordKind::kKeep, key, record.value, record.descriptor);
  records_[key] = std::move(record);
  return Append(bytes);
}

Status KeptJournal::Drop(std::string_view prefix) {
  const auto first = records_.lower_bound(std::string(prefix));
  if (first == records_.end() || !first->first.starts_with(prefix)) return {};
  Erase(records_, prefix);
  std::string bytes;
  AppendRecord(bytes, RecordKind::kDrop, prefix, "", 0);
  return Append(bytes);
}

Status KeptJournal::Append(const std::string& records) {
  if (bytes_ > 2 * live_bytes_ + kSlackBytes) return Rewrite();
  if (!WriteAll(fd(), records, RegionAt(region_) + bytes_)) return Refused();
  return Commit(region_, bytes_ + records.size());
}

Status KeptJournal::Rewrite() {
  std::string text;
  for (const auto& [key, record] : records_) {
    AppendRecord(text, RecordKind::kKeep, key, record.value, record.descriptor);
  }
  const std::uint64_t before = region_;
  if (!WriteAll(fd(), text, RegionAt(1 - before))) return Refused();
  Status committed = Commit(1 - before, text.size());
  if (!committed) return committed;
  live_bytes_ = text.size();
  // It only gives memory back: what it held does not count any more.
  (void)::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(RegionAt(before)), static_cast<off_t>(kRegionBytes));
  return {};
}

Status KeptJournal::Commit(std::uint64_t region, std::uint64_t bytes) {
  const std::uint64_t committed = (region == 0 ? 0 : kRegionBit) | bytes;
  const std::string_view word(reinterpret_cast<const char*>(&committed), sizeof committed);
  if (!WriteAll(fd(), word, offsetof(Header, committed))) return Refused();
  region_ = region;
  bytes_ = bytes;
  return {};
}

}  // namespace forebay
