#include "common/snapshot/listing.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "common/model/limits.h"
#include "common/snapshot/etag.h"
#include "common/snapshot/listed_extras.h"

namespace forebay {
namespace {

constexpr std::size_t kMaxEtagBytes = 255;  // S3's are at most 38; others give up to a SHA-512

std::uint32_t ClampTime(std::int64_t unix_s) {
  constexpr std::int64_t kLatest = std::numeric_limits<std::uint32_t>::max();  // the year 2106
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(unix_s, 0, kLatest));
}

}  // namespace

Status Listing::Add(const ListedKey& object) {
  const auto relative = RelativeKey(prefix_, object.key);
  if (!relative) {
    return Fail(Code::kInvalid, "the listing holds '" + std::string(object.key) +
                                    "', which is not below '" + prefix_ +
                                    "': list the link's own prefix");
  }
  if (object.key.size() > kMaxKeyBytes) {
    Hold(std::string(object.key.substr(0, kMaxListedKeyBytes)), HiddenReason::kTooLong);
    return {};
  }
  const KeyVerdict verdict = JudgeKey(*relative);
  switch (verdict.kind) {
    case KeyVerdict::Kind::kHidden:
      Hold(std::string(object.key.substr(0, kMaxListedKeyBytes)), verdict.reason);
      return {};
    case KeyVerdict::Kind::kRootMarker:
      root_marker_with_bytes_ = object.size > 0;
      return {};
    case KeyVerdict::Kind::kFile:
    case KeyVerdict::Kind::kDirectoryMarker:
      break;
  }
  ListedEntry entry{};
  std::string_view opaque_etag;
  entry.mtime_unix_s = ClampTime(object.mtime_unix_s);
  // A folder is none the worse for a marker that cannot be read.
  const bool has_tag = object.packed_etag != nullptr || !object.etag.empty() ||
                       verdict.kind == KeyVerdict::Kind::kDirectoryMarker;
  if (object.size > SnapshotAttributes::kMaxSize || !has_tag ||
      object.etag.size() > kMaxEtagBytes) {
    entry.flags = ListedEntry::kOutOfRange;
  } else {
    entry.attributes.packed =
        object.size | (object.archived ? SnapshotAttributes::kArchivedBit : 0);
    const auto md5 =
        object.packed_etag != nullptr ? std::optional(*object.packed_etag) : PackEtag(object.etag);
    if (md5) {
      entry.etag = md5->md5;
      entry.attributes.packed |= std::uint64_t{md5->parts} << SnapshotAttributes::kPartsShift;
    } else {
      entry.attributes.packed |= SnapshotAttributes::kOpaqueEtagBit;
      opaque_etag = object.etag;
    }
  }
  has_posix_ = has_posix_ || object.posix != nullptr;
  has_lines_ = has_lines_ || !object.lines.empty();
  return runs_.Add(entry, *relative, opaque_etag, PackExtras(object));
}

std::string Listing::EtagOf(const ListedEntry& entry) const {
  if (entry.attributes.opaque_etag()) return std::string(OpaqueEtagOf(entry));
  return ToString(Md5Etag{.md5 = entry.etag, .parts = entry.attributes.parts()});
}

StoredEtag Listing::StoredEtagOf(const ListedEntry& entry) const {
  if (entry.attributes.opaque_etag()) return OpaqueEtagOf(entry);
  return Md5Etag{.md5 = entry.etag, .parts = entry.attributes.parts()};
}

void Listing::Hide(std::string_view path, HiddenReason reason) {
  Hold(KeyAtPath(prefix_, path).substr(0, kMaxListedKeyBytes), reason);
}

void Listing::HideKey(std::string_view key, HiddenReason reason) { Hold(std::string(key), reason); }

void Listing::Hold(std::string key, HiddenReason reason) {
  hidden_bytes_ += sizeof(HiddenKey) + key.size();
  hidden_.emplace_back(std::move(key), reason);
  runs_.SetHeldBeside(hidden_bytes_);
}

std::vector<HiddenKey> Listing::TakeHidden() {
  if (root_marker_with_bytes_) Hide("", HiddenReason::kMarkerWithBytes);
  std::ranges::sort(hidden_, {}, &HiddenKey::key);
  const auto repeated = std::ranges::unique(hidden_, {}, &HiddenKey::key);
  hidden_.erase(repeated.begin(), repeated.end());
  return std::move(hidden_);
}

}  // namespace forebay
