#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/limits.h"
#include "common/model/object_version.h"

namespace forebay {

/// When a link's listing is looked at again (DESIGN section 4, Link).
enum class RefreshPolicy : std::uint8_t { kImmutable = 0, kOnDemand = 1, kPeriodic = 2 };

/// Whose blocks a full cache keeps before others' (docs/adr/0014). Greater is kept longer.
enum class LinkPriority : std::int8_t { kLow = -1, kNormal = 0, kHigh = 1 };
/// The most copies that a link may ask for: as many owners as the ring tabulates for a block.
inline constexpr std::uint32_t kMostReplicas = 3;
/// low, normal, high.
std::string_view LinkPriorityName(LinkPriority priority);
/// kInvalid: it is none of them.
Result<LinkPriority> ParseLinkPriority(std::string_view text);
/// Of a message; what a newer program may know beyond is taken for the nearest.
LinkPriority LinkPriorityOf(std::int32_t number);

/// How a link reaches S3. Never holds a secret: `profile` names a profile of the coordinator's and
/// the nodes' own files.
struct LinkOrigin {
  std::string bucket;
  std::string prefix;  ///< "" or ends with '/' unless the user named a key prefix in mid-component.
  std::string endpoint;  ///< Normalised; never empty once the link exists (inferred from the region
                         ///< when not given).
  std::string region;
  std::string profile;  ///< Name of the credential; "" = the default chain.
  bool path_style = false;
  bool requester_pays = false;
  bool sign = true;                 ///< false = anonymous (`--no-sign-request`).
  std::string expected_owner = {};  ///< The account that the bucket must belong to; "" = any.

  bool operator==(const LinkOrigin&) const = default;
};

/// A list of the objects that a link shows, in S3 (link_manifest.h).
struct ManifestSource {
  std::string location;        ///< "s3://bucket/key"; "" = none: the link shows its prefix.
  bool behind_prefix = false;  ///< Names stand behind the link's prefix, else in the bucket.
  bool skip_bad = false;       ///< What cannot be used is reported, and no reason to fail.

  bool operator==(const ManifestSource&) const = default;
};

/// A link: an S3 prefix under a name, mountable. Made by the coordinator; known to every node.
struct LinkSpec {
  Uuid id;
  std::string name;
  LinkOrigin origin;
  /// Sharing domain: blocks are shared between links only where it is the same. Random unless
  /// `sharing_domain` names one.
  Uuid domain;
  std::uint64_t block_bytes = kDefaultBlockBytes;
  std::uint32_t replicas = 1;  ///< Copies of each block, at its first owners; 1 to kMostReplicas.
  RefreshPolicy refresh = RefreshPolicy::kOnDemand;
  std::uint64_t refresh_seconds = 0;  ///< Of kPeriodic, else 0.
  std::uint64_t quota_bytes = 0;      ///< Of all nodes together; 0 = none.
  LinkPriority priority = LinkPriority::kNormal;
  /// Whether the rest of it may be fetched when a job reads much of it.
  bool background_fill = true;
  /// Which keys below the prefix it shows: globs of KeyFilter.
  std::vector<std::string> includes = {};
  std::vector<std::string> excludes = {};
  ManifestSource manifest = {};
  /// Files have the mode, owner and time that their objects' metadata says: a HEAD for each.
  bool posix_metadata = false;
  /// The name that `domain` comes from (SharingDomain); "" = a domain of the link's own.
  std::string sharing_domain = {};
  /// The set that the link is a part of (link_set.h); "" = of none.
  std::string set = {};
  /// What is pinned: "" = the whole link, "train/" = a folder, "a.bin" = a file; from its root.
  std::vector<std::string> pins;
  /// Raised when other blocks may be pinned than before: other folders or files, or another
  /// generation of them. 0 = none ever was.
  std::uint64_t pins_version = 0;

  bool operator==(const LinkSpec&) const = default;
};

/// True when one of `pins` (as LinkSpec::pins) covers the object at `path`.
bool PinsCover(const std::vector<std::string>& pins, std::string_view path);

/// Splits "s3://bucket/prefix"; the prefix may be empty. kInvalid says what is wrong with the text.
struct S3Location {
  std::string bucket;
  std::string prefix;
};
Result<S3Location> ParseS3Location(std::string_view text);

/// An AWS account: twelve digits.
bool IsAccountId(std::string_view text);

/// Link names are path components of the `/` mount and of targets: 1-63 of [A-Za-z0-9._-], no
/// leading '.' or '-'.
Status ValidateLinkName(std::string_view name);

/// The domain that links share blocks in to which an administrator gave the same name of one; it
/// follows from the name, so that it is the same again after both were removed.
Uuid SharingDomain(std::string_view name);

/// `train` from "s3://bucket/data/train/", the bucket when there is no prefix: the name when `--as`
/// is not given.
std::string DefaultLinkName(const S3Location& location);

/// The version that `key`, `etag` and `size` have under this link.
ObjectVersion VersionOf(const LinkSpec& link, std::string_view key, std::string_view etag,
                        std::uint64_t size);

}  // namespace forebay
