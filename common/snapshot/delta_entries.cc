#include "common/snapshot/delta_entries.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "common/snapshot/delta_format.h"
#include "common/snapshot/etag.h"
#include "common/snapshot/listed_extras.h"
#include "common/snapshot/snapshot_format.h"

namespace forebay {
namespace {

using Bits = DeltaEntryBits;

constexpr std::size_t kNumberBytesMax = 10;  // of 64 bits, seven a byte

void AppendNumber(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7F) | 0x80));
  out.push_back(static_cast<char>(value));
}

template <typename T>
void AppendRaw(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendFile(const DeltaEntry& entry, const std::optional<Md5Etag>& md5, std::string& out) {
  AppendNumber(out, entry.size);
  AppendRaw(out, entry.mtime_unix_s);
  if (!md5) {
    out.push_back(static_cast<char>(entry.etag.size()));
    out.append(entry.etag);
    return;
  }
  AppendRaw(out, md5->md5);
  if (md5->parts != 0) AppendNumber(out, md5->parts);
}

void AppendLines(const std::vector<AttributeLine>& lines, std::string& out) {
  AppendNumber(out, lines.size());
  for (const AttributeLine& line : lines) {
    const DeltaLinePlace place = DeltaLinePlace::Of(line.place);
    AppendNumber(out, place.before);
    AppendNumber(out, place.number);
    AppendNumber(out, line.json.size());
    out.append(line.json);
  }
}

std::unexpected<Error> Damaged() {
  return Fail(Code::kCorrupt, "the difference between two listings is damaged: fetch it again");
}

bool IsReason(std::uint8_t number) {
  return number >= static_cast<std::uint8_t>(HiddenReason::kEmptyComponent) &&
         number <= static_cast<std::uint8_t>(HiddenReason::kOutOfRange);
}

}  // namespace

void DeltaTextWriter::Append(std::string_view text, std::string& out) {
  const auto [here, there] = std::ranges::mismatch(before_, text);
  const auto shared = static_cast<std::size_t>(here - before_.begin());
  AppendNumber(out, shared);
  AppendNumber(out, text.size() - shared);
  out.append(text.substr(shared));
  before_.assign(text);
}

void DeltaEntryWriter::Append(const DeltaEntry& entry, std::string& out) {
  const bool is_file = entry.kind == DeltaEntry::Kind::kFile;
  const std::optional<Md5Etag> md5 = is_file ? PackEtag(entry.etag) : std::nullopt;
  const std::optional<PosixAttributes>& posix =
      !is_file && entry.mark ? entry.mark->posix : entry.posix;
  unsigned bits = static_cast<unsigned>(entry.kind);
  if (entry.mark) bits |= Bits::kMarked;
  if (entry.archived) bits |= Bits::kArchived;
  if (is_file && !md5) bits |= Bits::kOpaqueEtag;
  if (md5 && md5->parts != 0) bits |= Bits::kParts;
  if (posix) bits |= Bits::kPosix;
  if (!entry.lines.empty()) bits |= Bits::kLines;
  out.push_back(static_cast<char>(bits));
  paths_.Append(entry.path, out);
  if (is_file) AppendFile(entry, md5, out);
  if (entry.mark) AppendRaw(out, entry.mark->mtime_unix_s);
  if (posix) AppendRaw(out, PosixRecordOf(*posix));
  if (!entry.lines.empty()) AppendLines(entry.lines, out);
}

void DeltaHiddenWriter::Append(const DeltaHidden& hidden, std::string& out) {
  out.push_back(static_cast<char>(hidden.reason ? static_cast<int>(*hidden.reason) : 0));
  keys_.Append(hidden.key, out);
}

bool DeltaReader::TakeNumber(std::uint64_t& value) {
  value = 0;
  for (std::size_t i = 0; i < kNumberBytesMax && i < rest_.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest_[i]);
    if (i + 1 == kNumberBytesMax && byte > 1) return false;  // more than 64 bits
    value |= std::uint64_t{byte & 0x7FU} << (7 * i);
    if (byte >= 0x80) continue;
    rest_.remove_prefix(i + 1);
    return true;
  }
  return false;
}

bool DeltaReader::TakeBytes(std::size_t count, std::string_view& bytes) {
  if (count > rest_.size()) return false;
  bytes = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return true;
}

template <typename T>
bool DeltaReader::Take(T& value) {
  std::string_view bytes;
  if (!TakeBytes(sizeof value, bytes)) return false;
  std::memcpy(&value, bytes.data(), bytes.size());
  return true;
}

bool DeltaReader::TakeText() {
  std::uint64_t shared = 0;
  std::uint64_t more = 0;
  std::string_view rest;
  if (!TakeNumber(shared) || !TakeNumber(more) || shared > text_.size() ||
      more > kMaxListedKeyBytes - std::min<std::uint64_t>(shared, kMaxListedKeyBytes) ||
      !TakeBytes(more, rest)) {
    return false;
  }
  before_ = text_;
  text_.resize(shared);
  text_.append(rest);
  return true;
}

bool DeltaReader::TakePosix(std::uint8_t bits, std::optional<PosixAttributes>& posix) {
  if ((bits & Bits::kPosix) == 0) return true;
  SnapshotPosixRecord record;
  if (!Take(record)) return false;
  posix = PosixOfRecord(record);
  return true;
}

/// What a file has is bounded by how many lines the format allows, and by the bytes that are there.
bool DeltaReader::TakeLines(std::uint8_t bits, std::vector<AttributeLine>& lines) {
  if ((bits & Bits::kLines) == 0) return true;
  std::uint64_t count = 0;
  if (!with_lines_ || !TakeNumber(count) || count == 0 || count > kDeltaLinesMax) return false;
  for (; count > 0; --count) {
    DeltaLinePlace place;
    std::uint64_t bytes = 0;
    AttributeLine line;
    if (!TakeNumber(place.before) || !TakeNumber(place.number) || !TakeNumber(bytes) ||
        place.before > DeltaLinePlace::kBeforeMax || place.number >= DeltaLinePlace::kLast ||
        bytes > std::numeric_limits<std::uint32_t>::max() || !TakeBytes(bytes, line.json)) {
      return false;
    }
    line.place = place.Packed();
    if (!lines.empty() && lines.back().place >= line.place) return false;
    lines.push_back(line);
  }
  return true;
}

bool DeltaReader::TakeFile(std::uint8_t bits, DeltaEntry& entry) {
  if (!TakeNumber(entry.size) || entry.size > SnapshotAttributes::kMaxSize ||
      !Take(entry.mtime_unix_s)) {
    return false;
  }
  entry.archived = (bits & Bits::kArchived) != 0;
  if ((bits & Bits::kOpaqueEtag) != 0) {
    std::uint8_t bytes = 0;
    std::string_view etag;
    if ((bits & Bits::kParts) != 0 || !Take(bytes) || !TakeBytes(bytes, etag)) return false;
    entry.etag = etag;
    return TakePosix(bits, entry.posix) && TakeLines(bits, entry.lines);
  }
  Md5Etag md5;
  std::uint64_t parts = 0;
  if (!Take(md5.md5)) return false;
  if ((bits & Bits::kParts) != 0 && (!TakeNumber(parts) || parts > 0xFFFF)) return false;
  md5.parts = static_cast<std::uint16_t>(parts);
  entry.etag = ToString(md5);
  return TakePosix(bits, entry.posix) && TakeLines(bits, entry.lines);
}

bool DeltaReader::TakeMark(std::uint8_t bits, DeltaEntry& entry) {
  if ((bits & Bits::kMarked) == 0) return (bits & Bits::kPosix) == 0;
  FolderMark mark;
  if (!Take(mark.mtime_unix_s) || !TakePosix(bits, mark.posix)) return false;
  entry.mark = mark;
  return true;
}

Result<std::optional<DeltaEntry>> DeltaReader::NextEntry() {
  if (rest_.empty()) return std::nullopt;
  const auto bits = static_cast<std::uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  const bool placed = TakeText();
  const bool behind = first_ || ComparePaths(before_, text_) < 0;
  first_ = false;
  bool sound = placed && behind && JudgeKey(text_).kind == KeyVerdict::Kind::kFile;
  DeltaEntry entry;
  entry.path = text_;
  switch (bits & Bits::kKindMask) {
    case Bits::kRemoved:
      sound = sound && bits == Bits::kRemoved;
      break;
    case Bits::kFile:
      entry.kind = DeltaEntry::Kind::kFile;
      sound = sound && TakeFile(bits, entry);
      break;
    case Bits::kFolder:
      entry.kind = DeltaEntry::Kind::kFolder;
      sound = sound && (bits & Bits::kLines) == 0 && TakeMark(bits, entry);
      break;
    default:
      sound = false;
  }
  if (sound) return entry;
  rest_ = {};
  return Damaged();
}

Result<std::optional<DeltaHidden>> DeltaReader::NextHidden() {
  if (rest_.empty()) return std::nullopt;
  const auto number = static_cast<std::uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  const bool placed = TakeText();
  const bool behind = first_ || before_ < text_;
  first_ = false;
  if (!placed || !behind || (number != 0 && !IsReason(number))) {
    rest_ = {};
    return Damaged();
  }
  DeltaHidden hidden{.key = text_, .reason = std::nullopt};
  if (number != 0) hidden.reason = static_cast<HiddenReason>(number);
  return hidden;
}

}  // namespace forebay
