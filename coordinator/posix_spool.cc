#include "coordinator/posix_spool.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "common/model/block_id.h"
#include "common/model/key_rules.h"
#include "common/model/limits.h"
#include "common/snapshot/listed_extras.h"
#include "coordinator/range_file.h"

namespace forebay {

static_assert(std::is_trivially_copyable_v<PosixSpool::Answer>);

PosixSpool::PosixSpool(std::string path) : path_(std::move(path)) {}
PosixSpool::~PosixSpool() = default;

Result<std::unique_ptr<PosixSpool>> PosixSpool::Open(std::string path) {
  std::unique_ptr<PosixSpool> spool(new PosixSpool(std::move(path)));
  Status loaded = spool->Load();
  if (!loaded) return Fail(loaded.error());
  return spool;
}

Status PosixSpool::Load() {
  Result<std::unique_ptr<RangeFile>> file = RangeFile::Open(path_);
  if (!file) return Fail(file.error());
  file_ = *std::move(file);
  return file_->ForEach([this](const Frame& frame) -> Status {
    const std::size_t count = frame.payload.size() / sizeof(Answer);
    const std::size_t before = answers_.size();
    answers_.resize(before + count);
    if (count > 0) std::memcpy(&answers_[before], frame.payload.data(), count * sizeof(Answer));
    return {};
  });
}

Status PosixSpool::Append(std::span<const Answer> answers) {
  const Frame frame{
      .kind = FrameKind::kKeys,
      .objects = static_cast<std::uint32_t>(answers.size()),
      .payload = {reinterpret_cast<const char*>(answers.data()), answers.size_bytes()}};
  Status appended = file_->Append(frame);
  if (appended) answers_.insert(answers_.end(), answers.begin(), answers.end());
  return appended;
}

Status PosixSpool::Clear() {
  file_.reset();
  answers_.clear();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  return Load();
}

std::uint64_t PosixSpool::IdOf(const ListedObject& object) {
  std::string text = object.key;
  text.push_back('\0');
  text.append(object.etag).push_back('\0');
  text += std::to_string(object.mtime_s);
  return CellChecksum(text.data(), text.size());
}

std::optional<PosixAttributes> PosixAnswers::Known(const Snapshot* previous,
                                                   const ListedObject& object) {
  if (previous == nullptr || object.key.ends_with('/')) return std::nullopt;
  const std::optional<std::string_view> path = RelativeKey(previous->source().prefix, object.key);
  const std::optional<SnapshotRow> row = path ? previous->Resolve(*path) : std::nullopt;
  if (!row || row->is_directory()) return std::nullopt;
  constexpr std::int64_t kLatest = std::numeric_limits<std::uint32_t>::max();
  const bool same = row->size == object.size &&
                    row->mtime_unix_s == std::clamp<std::int64_t>(object.mtime_s, 0, kLatest) &&
                    previous->EtagOf(*row) == object.etag;
  return same ? previous->PosixOf(*row) : std::nullopt;
}

bool PosixAnswers::MustAsk(const Snapshot* previous, const ListedObject& object) {
  // What cannot be read, or is too large, is not shown either.
  return !object.etag.empty() && object.size <= kMaxObjectBytes && !Known(previous, object);
}

Result<std::optional<PosixAttributes>> PosixAnswers::Of(const ListedObject& object) {
  if (!MustAsk(previous_.get(), object)) return Known(previous_.get(), object);
  const auto& answers = spool_.answers();
  if (next_ >= answers.size() || answers[next_].object != PosixSpool::IdOf(object)) {
    return Fail(Code::kCorrupt,
                "what S3 said of the objects' metadata is of another listing: list "
                "the link again");
  }
  const SnapshotPosixRecord& record = answers[next_++].posix;
  if ((record.known & SnapshotPosixRecord::kAsked) == 0) return std::optional<PosixAttributes>();
  return std::optional(PosixOfRecord(record));
}

}  // namespace forebay
