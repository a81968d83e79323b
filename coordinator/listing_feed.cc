#include "coordinator/listing_feed.h"

#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY  // XXH3_state_t on the stack
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
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
  explicit LinesByKey(const ListedLink& listed) : known_(listed.known_lines) {
    if (listed.manifest != nullptr) left_ = listed.manifest->names;
  }

  /// Good until the next call.
  std::span<const AttributeLine> Of(const std::string& key) {
    lines_.clear();
    if (known_ != nullptr) {
      const auto path = RelativeKey(known_->source().prefix, key);
      const std::optional<SnapshotRow> row = path ? known_->Resolve(*path) : std::nullopt;
      if (row && !row->is_directory()) lines_ = known_->LinesOf(*row);
    }
    while (!left_.empty() && left_.front().key < key) left_ = left_.subspan(1);
    if (!left_.empty() && left_.front().key == key) {
      for (const LinkManifest::Line& line : left_.front().lines)
        lines_.push_back({.place = line.line, .json = line.json});
    }
    return lines_;
  }

 private:
  const Snapshot* const known_;
  std::span<const LinkManifest::Name> left_;
  std::vector<AttributeLine> lines_;
};

/// Two lists with one digest are one list.
std::string DigestOf(std::span<const std::string> names) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  for (const std::string& name : names) XXH3_128bits_update(&state, name.c_str(), name.size() + 1);
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return fmt::format("{} {:016x}{:016x}", names.size(), hash.high64, hash.low64);
}

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

std::string ListingIdentity(const Link& link, const std::string& part,
                            std::span<const std::string> names) {
  const LinkOrigin& origin = link.spec.origin;
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", link.spec.id.ToString(), link.task_id,
                  link.next_generation, origin.endpoint, origin.bucket, origin.prefix, part);
  if (!names.empty()) text += "\n" + DigestOf(names);
  return text;
}

std::vector<std::string> KeysAround(const std::string& prefix,
                                    const std::vector<std::string>& parts) {
  std::set<std::string> keys;
  for (const std::string& part : parts) {
    keys.insert(KeyAtPath(prefix, part));
    for (std::size_t slash = part.find('/'); slash != std::string::npos;
         slash = part.find('/', slash + 1)) {
      keys.insert(KeyAtPath(prefix, part.substr(0, slash)) + "/");
    }
  }
  return {keys.begin(), keys.end()};
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

Result<std::vector<std::size_t>> FindMissing(ListingSpool& spool,
                                             std::span<const std::string> names) {
  std::vector<std::size_t> missing;
  std::size_t next = 0;
  Status read = spool.ForEach([&](const ListedObject& object) -> Status {
    while (next < names.size() && names[next] < object.key) missing.push_back(next++);
    const bool is_wanted = next < names.size() && names[next] == object.key;
    ++next;
    if (is_wanted) return {};
    return Fail(Code::kCorrupt,
                "what was looked up has objects that nobody asked for: list the "
                "link again");
  });
  if (!read) return Fail(read.error());
  while (next < names.size()) missing.push_back(next++);
  return missing;
}

Result<bool> ListsTheSame(const ListedLink& listed, const Snapshot& previous, std::string_view part,
                          const std::function<bool()>& wanted) {
  if (listed.posix != nullptr) return false;
  SameListing same(previous, part);
  LinesByKey lines(listed);
  std::uint64_t taken = 0;
  bool interrupted = false;
  const Status all = ForEachListed(listed, [&](const ListedObject& object) -> Status {
    interrupted = ++taken % kLookEvery == 0 && !wanted();
    ListedKey key = KeyOf(object);
    key.lines = lines.Of(object.key);
    if (!interrupted && same.Take(key)) return {};
    return Fail(Code::kInvalid, "something has changed");
  });
  if (interrupted || !wanted()) return Fail(Interrupted());
  return all && same.IsSame();
}

Status FeedBuilder(const ListedLink& listed, SnapshotBuilder& builder,
                   const std::function<bool()>& wanted) {
  std::uint64_t fed = 0;
  LinesByKey lines(listed);
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
