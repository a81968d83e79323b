#include "coordinator/listing_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/model/key_rules.h"
#include "common/snapshot/same_listing.h"

namespace forebay {
namespace {

/// Objects between two looks whether the listing is still wanted.
constexpr std::uint64_t kLookEvery = 1 << 16;

Error Interrupted() { return Error{Code::kUnavailable, "the listing was interrupted"}; }

/// S3 storage classes whose objects must be restored before a GET (AWS, "Understanding archived
/// objects").
bool IsArchived(std::string_view storage_class) {
  static constexpr std::array<std::string_view, 2> kArchives = {"GLACIER", "DEEP_ARCHIVE"};
  return std::ranges::find(kArchives, storage_class) != kArchives.end();
}

ListedKey KeyOf(const ListedObject& object) {
  return ListedKey{.key = object.key,
                   .size = object.size,
                   .etag = object.etag,
                   .mtime_unix_s = object.mtime_s,
                   .archived = IsArchived(object.storage_class)};
}

/// Finds the lines of a manifest for keys that come in ascending order, as its names do.
class LinesByKey {
 public:
  explicit LinesByKey(const LinkManifest* manifest) {
    if (manifest != nullptr) left_ = manifest->names;
  }

  /// Good until the next call.
  std::span<const AttributeLine> Of(const std::string& key) {
    while (!left_.empty() && left_.front().key < key) left_ = left_.subspan(1);
    lines_.clear();
    if (!left_.empty() && left_.front().key == key) {
      for (const LinkManifest::Line& line : left_.front().lines)
        lines_.push_back({.place = line.line, .json = line.json});
    }
    return lines_;
  }

 private:
  std::span<const LinkManifest::Name> left_;
  std::vector<AttributeLine> lines_;
};

}  // namespace

proto::GenerationInfo DescribeGeneration(std::uint64_t generation, const FinishedSnapshot& finished,
                                         std::int64_t listed_unix_s) {
  proto::GenerationInfo info;
  info.set_generation(generation);
  info.set_snapshot_bytes(finished.file_bytes);
  info.set_digest_high(finished.digest.high);
  info.set_digest_low(finished.digest.low);
  info.set_objects(finished.totals.objects);
  info.set_bytes(finished.totals.bytes);
  info.set_hidden_keys(finished.totals.hidden_keys);
  info.set_listed_unix_s(listed_unix_s);
  return info;
}

std::string ListingIdentity(const Link& link, const std::string& part) {
  const LinkOrigin& origin = link.spec.origin;
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", link.spec.id.ToString(), link.task_id,
                     link.next_generation, origin.endpoint, origin.bucket, origin.prefix, part);
}

std::vector<std::string> KeysAround(const std::string& prefix, const std::string& part) {
  std::vector<std::string> keys = {KeyAtPath(prefix, part)};
  for (std::size_t slash = part.find('/'); slash != std::string::npos;
       slash = part.find('/', slash + 1)) {
    keys.push_back(KeyAtPath(prefix, part.substr(0, slash)) + "/");
  }
  return keys;
}

Status ForEachListed(const ListedLink& listed,
                     const std::function<Status(const ListedObject&)>& visit) {
  Status status;
  if (listed.spool != nullptr) status = listed.spool->ForEach(visit);
  for (const ListedObject& object : listed.single) {
    if (!status) break;
    status = visit(object);
  }
  return status;
}

Result<bool> ListsTheSame(const ListedLink& listed, const Snapshot& previous, std::string_view part,
                          const std::function<bool()>& wanted) {
  if (listed.manifest != nullptr || listed.posix != nullptr) return false;
  SameListing same(previous, part);
  std::uint64_t taken = 0;
  bool interrupted = false;
  const Status all = ForEachListed(listed, [&](const ListedObject& object) -> Status {
    interrupted = ++taken % kLookEvery == 0 && !wanted();
    if (!interrupted && same.Take(KeyOf(object))) return {};
    return Fail(Code::kInvalid, "something has changed");
  });
  if (interrupted || !wanted()) return Fail(Interrupted());
  return all && same.IsSame();
}

Status FeedBuilder(const ListedLink& listed, SnapshotBuilder& builder,
                   const std::function<bool()>& wanted) {
  std::uint64_t fed = 0;
  LinesByKey lines(listed.manifest);
  return ForEachListed(listed, [&](const ListedObject& object) -> Status {
    if (++fed % kLookEvery == 0 && !wanted()) return Fail(Interrupted());
    ListedKey key = KeyOf(object);
    key.lines = lines.Of(object.key);
    if (listed.posix == nullptr) return builder.Add(key);
    const Result<std::optional<PosixAttributes>> posix = listed.posix->Of(object);
    if (!posix) return Fail(posix.error());
    if (*posix) key.posix = &**posix;
    return builder.Add(key);
  });
}

}  // namespace forebay
