#include "common/snapshot/listed_extras.h"

#include <cstring>

namespace forebay {
namespace {

constexpr char kNoPosix = 0;
constexpr char kPosix = 1;

struct LineHead {
  std::uint64_t place;
  std::uint64_t bytes;
};

template <typename T>
void Append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
std::optional<T> Take(std::string_view& text) {
  if (text.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

}  // namespace

SnapshotPosixRecord PosixRecordOf(const PosixAttributes& posix) {
  SnapshotPosixRecord record{};
  record.known = SnapshotPosixRecord::kAsked;
  if (posix.mode) {
    record.known |= SnapshotPosixRecord::kMode;
    record.mode = *posix.mode;
  }
  if (posix.uid) {
    record.known |= SnapshotPosixRecord::kUid;
    record.uid = *posix.uid;
  }
  if (posix.gid) {
    record.known |= SnapshotPosixRecord::kGid;
    record.gid = *posix.gid;
  }
  if (posix.mtime) {
    record.known |= SnapshotPosixRecord::kMtime;
    record.mtime_unix_s = posix.mtime->unix_s;
    record.mtime_nanoseconds = posix.mtime->nanoseconds;
  }
  return record;
}

PosixAttributes PosixOfRecord(const SnapshotPosixRecord& record) {
  PosixAttributes posix;
  const auto knows = [&](std::uint16_t bit) { return (record.known & bit) != 0; };
  constexpr std::uint16_t kPermissions = 0777;
  constexpr std::uint32_t kSecond = 1'000'000'000;
  if (knows(SnapshotPosixRecord::kMode))
    posix.mode = static_cast<std::uint16_t>(record.mode & kPermissions);
  if (knows(SnapshotPosixRecord::kUid)) posix.uid = record.uid;
  if (knows(SnapshotPosixRecord::kGid)) posix.gid = record.gid;
  if (knows(SnapshotPosixRecord::kMtime)) {
    posix.mtime = PosixAttributes::Time{.unix_s = record.mtime_unix_s,
                                        .nanoseconds = record.mtime_nanoseconds % kSecond};
  }
  return posix;
}

std::string PackExtras(const ListedKey& object) {
  std::string text;
  if (object.posix == nullptr && object.lines.empty()) return text;
  text.push_back(object.posix != nullptr ? kPosix : kNoPosix);
  if (object.posix != nullptr) Append(text, PosixRecordOf(*object.posix));
  for (const AttributeLine& line : object.lines) {
    Append(text, LineHead{.place = line.place, .bytes = line.json.size()});
    text.append(line.json);
  }
  return text;
}

ListedExtras::ListedExtras(std::string_view packed) : lines_(packed) {
  if (lines_.empty()) return;
  const bool has_posix = lines_.front() == kPosix;
  lines_.remove_prefix(1);
  if (has_posix) posix_ = Take<SnapshotPosixRecord>(lines_);
}

std::optional<AttributeLine> ListedExtras::NextLine() {
  const std::optional<LineHead> head = Take<LineHead>(lines_);
  if (!head || head->bytes > lines_.size()) return std::nullopt;
  const AttributeLine line{.place = head->place, .json = lines_.substr(0, head->bytes)};
  lines_.remove_prefix(head->bytes);
  return line;
}

}  // namespace forebay
