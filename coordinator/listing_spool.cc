#include "coordinator/listing_spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "common/base/files.h"
#include "coordinator/range_file.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeadFile = "listing";
constexpr std::string_view kHeadFormat = "forebay listing 1";
constexpr std::string_view kSuffix = ".range";

Error Damaged(const std::string& folder) {
  return Error{Code::kCorrupt,
               "what was listed into " + folder + " is damaged: list the link again"};
}

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// What the frames of a file say about its range; false for one that says nothing.
bool Apply(const Frame& frame, ListedRange& range) {
  std::string_view rest = frame.payload;
  std::string_view text;
  switch (frame.kind) {
    case FrameKind::kBegin:
      if (!TakeText(rest, text) || !TakeEnd(rest, range.until)) return false;
      range.begin = text;
      range.position = text;
      return true;
    case FrameKind::kEnd:
      return TakeEnd(rest, range.until);
    case FrameKind::kKeys:
      if (!TakeText(rest, text)) return false;
      range.position = text;
      return true;
    case FrameKind::kDone:
      range.done = true;
      return TakeEnd(rest, range.until);
  }
  return false;
}

}  // namespace

ListingSpool::~ListingSpool() = default;

Result<std::unique_ptr<ListingSpool>> ListingSpool::Open(std::string folder,
                                                         const std::string& identity,
                                                         std::int64_t now_unix_s) {
  std::unique_ptr<ListingSpool> spool(new ListingSpool(std::move(folder)));
  Status made = MakePrivateFolder(spool->folder_);
  if (!made) return Fail(made.error());
  Result<bool> ours = spool->TakeHead(identity);
  if (!ours) return Fail(ours.error());
  const std::int64_t age = now_unix_s - spool->begun_unix_s_;
  if (*ours && age >= 0 && age < kMaxAgeSeconds) {
    Status loaded = spool->LoadRanges();
    if (!loaded) return Fail(loaded.error());
    if (spool->JoinRanges()) return spool;
  }
  Status cleared = spool->Clear(identity, now_unix_s);
  if (!cleared) return Fail(cleared.error());
  return spool;
}

/// True when the folder is of this listing.
Result<bool> ListingSpool::TakeHead(const std::string& head) {
  Result<std::string> stored = ReadWholeFile((fs::path(folder_) / kHeadFile).string());
  if (!stored && stored.error().code == Code::kNotFound) return false;
  if (!stored) return Fail(stored.error());
  std::string_view rest = *stored;
  const auto line = [&rest] {
    const std::string_view first = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(first.size() + 1, rest.size()));
    return first;
  };
  if (line() != kHeadFormat) return false;
  const std::optional<std::int64_t> begun = ParseNumber(line());
  if (!begun || rest != head) return false;
  begun_unix_s_ = *begun;
  return true;
}

Status ListingSpool::Clear(const std::string& head, std::int64_t now_unix_s) {
  files_.clear();
  found_.clear();
  objects_ = bytes_ = 0;
  std::error_code error;
  fs::remove_all(folder_, error);
  Status made = MakePrivateFolder(folder_);
  if (!made) return made;
  begun_unix_s_ = now_unix_s;
  return WriteFileAtomically((fs::path(folder_) / kHeadFile).string(),
                             fmt::format("{}\n{}\n{}", kHeadFormat, now_unix_s, head));
}

Status ListingSpool::LoadRanges() {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string stem = entry.path().stem().string();
    const std::optional<std::int64_t> id = ParseNumber(stem);
    if (entry.path().extension() != kSuffix || !id) continue;
    ListedRange range;
    range.id = static_cast<std::uint32_t>(*id);
    Result<std::shared_ptr<RangeFile>> file = FileOf(range.id);
    if (!file) return Fail(file.error());
    bool sound = true;
    bool begun = false;
    Status read = (*file)->ForEach([&](const Frame& frame) -> Status {
      begun = begun || frame.kind == FrameKind::kBegin;
      sound = sound && begun && Apply(frame, range);
      objects_ += frame.objects;
      bytes_ += frame.bytes;
      return {};
    });
    if (!read) return read;
    if (sound && begun) found_.push_back(std::move(range));
  }
  return {};
}

/// Puts the ranges in order and drops those that a crash left behind a split that was not made:
/// they begin inside another one, which still lists their keys. False when there is a gap.
bool ListingSpool::JoinRanges() {
  std::ranges::sort(found_, {}, &ListedRange::begin);
  std::vector<ListedRange> joined;
  for (ListedRange& range : found_) {
    const bool first = joined.empty();
    if (first ? !range.begin.empty() : !joined.back().until || range.begin < *joined.back().until) {
      if (range.position != range.begin || range.done || !Drop(range.id)) return false;
      continue;
    }
    if (!first && range.begin != *joined.back().until) return false;
    joined.push_back(std::move(range));
  }
  found_ = std::move(joined);
  // Of nothing there is nothing to go on with, but what was left behind is gone.
  return found_.empty() ? files_.empty() : !found_.back().until;
}

std::uint64_t ListingSpool::objects() const {
  const std::scoped_lock lock(mutex_);
  return objects_;
}

std::uint64_t ListingSpool::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

std::string ListingSpool::PathOf(std::uint32_t range) const {
  return fmt::format("{}/{}{}", folder_, range, kSuffix);
}

Result<std::shared_ptr<RangeFile>> ListingSpool::FileOf(std::uint32_t range) {
  const std::scoped_lock lock(mutex_);
  const auto found = files_.find(range);
  if (found != files_.end()) return found->second;
  Result<std::unique_ptr<RangeFile>> opened = RangeFile::Open(PathOf(range));
  if (!opened) return Fail(opened.error());
  return files_.emplace(range, std::move(*opened)).first->second;
}

Status ListingSpool::Append(std::uint32_t range, const Frame& frame) {
  Result<std::shared_ptr<RangeFile>> file = FileOf(range);
  if (!file) return Fail(file.error());
  Status appended = (*file)->Append(frame);
  if (!appended) return appended;
  const std::scoped_lock lock(mutex_);
  objects_ += frame.objects;
  bytes_ += frame.bytes;
  if (frame.kind == FrameKind::kDone) files_.erase(range);
  return {};
}

Status ListingSpool::Begin(const ListedRange& range) {
  std::string payload;
  PutText(payload, range.begin);
  PutEnd(payload, range.until);
  return Append(range.id,
                Frame{.kind = FrameKind::kBegin, .objects = 0, .bytes = 0, .payload = payload});
}

Status ListingSpool::Drop(std::uint32_t range) {
  const std::scoped_lock lock(mutex_);
  files_.erase(range);
  std::error_code error;
  fs::remove(PathOf(range), error);
  if (!error) return {};
  return Fail(Code::kInternal, fmt::format("{}: {}", PathOf(range), error.message()));
}

Status ListingSpool::SetEnd(std::uint32_t range, const std::string& until) {
  std::string payload;
  PutEnd(payload, until);
  return Append(range,
                Frame{.kind = FrameKind::kEnd, .objects = 0, .bytes = 0, .payload = payload});
}

Status ListingSpool::Add(std::uint32_t range, std::span<const ListedObject> objects) {
  if (objects.empty()) return {};
  Frame frame;
  frame.kind = FrameKind::kKeys;
  frame.objects = static_cast<std::uint32_t>(objects.size());
  std::string payload;
  PutText(payload, objects.back().key);
  for (const ListedObject& object : objects) {
    PutObject(payload, object);
    frame.bytes += object.size;
  }
  frame.payload = payload;
  return Append(range, frame);
}

Status ListingSpool::Pass(std::uint32_t range, const std::string& position) {
  std::string payload;
  PutText(payload, position);
  return Append(range,
                Frame{.kind = FrameKind::kKeys, .objects = 0, .bytes = 0, .payload = payload});
}

Status ListingSpool::Finish(std::uint32_t range, const std::optional<std::string>& until) {
  std::string payload;
  PutEnd(payload, until);
  return Append(range,
                Frame{.kind = FrameKind::kDone, .objects = 0, .bytes = 0, .payload = payload});
}

Status ListingSpool::ForEach(const std::function<Status(const ListedObject&)>& visit) {
  const std::uint64_t added = objects();
  files_.clear();
  found_.clear();
  objects_ = bytes_ = 0;
  Status loaded = LoadRanges();
  if (!loaded) return loaded;
  if (!JoinRanges() || found_.empty() || objects_ != added) return Fail(Damaged(folder_));
  std::string last_key;
  for (const ListedRange& range : found_) {
    if (!range.done) return Fail(Damaged(folder_));
    Status visited = ForEachIn(range, last_key, visit);
    if (!visited) return visited;
  }
  return {};
}

Status ListingSpool::ForEachIn(const ListedRange& range, std::string& last_key,
                               const std::function<Status(const ListedObject&)>& visit) {
  Result<std::shared_ptr<RangeFile>> file = FileOf(range.id);
  if (!file) return Fail(file.error());
  ListedObject object;
  return (*file)->ForEach([&](const Frame& frame) -> Status {
    if (frame.kind != FrameKind::kKeys) return {};
    std::string_view rest = frame.payload;
    std::string_view skipped;
    if (!TakeText(rest, skipped)) return Fail(Damaged(folder_));
    for (std::uint32_t i = 0; i < frame.objects; ++i) {
      const bool in_order = TakeObject(rest, object) && object.key > last_key;
      if (!in_order) return Fail(Damaged(folder_));
      last_key = object.key;
      Status visited = visit(object);
      if (!visited) return visited;
    }
    return rest.empty() ? Status() : Fail(Damaged(folder_));
  });
}

}  // namespace forebay
