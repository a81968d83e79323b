#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/model/link.h"

namespace forebay {

// How namespace snapshots travel (docs/adr/0025): as blocks of a system link, which nodes keep and
// serve like any other and fetch from the coordinator instead of S3. Each link has a system link of
// its own, under its name, so that whoever may read the link may read its listing and nobody else:
// a segment holds blocks of one link only.

/// The system link of `link`. Nobody made it and nobody lists it: nodes and mounts derive it.
LinkSpec SystemLinkOf(const LinkSpec& link);
Uuid SystemLinkId(const Uuid& link);
bool IsSystemLink(const LinkSpec& link);
/// Whose listings a system link carries.
Uuid OwnerOfSystemLink(const LinkSpec& system);

/// What an object of a system link is: the snapshot of a generation, or the difference that leads
/// to it.
struct SnapshotObject {
  std::uint64_t generation = 0;
  std::uint64_t before = 0;  ///< The difference's; 0 = the whole snapshot.

  bool operator==(const SnapshotObject&) const = default;
};
/// "12.fbs", "11-12.fbd".
std::string SnapshotKey(const SnapshotObject& object);
/// Nothing: it is the key of no such object.
std::optional<SnapshotObject> ParseSnapshotKey(std::string_view key);

/// Their ETag: the digest of the file, 32 hex digits, the high half first.
std::string SnapshotEtag(std::uint64_t digest_high, std::uint64_t digest_low);
struct DigestHalves {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};
std::optional<DigestHalves> ParseSnapshotEtag(std::string_view etag);

}  // namespace forebay
