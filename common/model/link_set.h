#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/link.h"

namespace forebay {

/// A set is a name for several links, its parts (docs/adr/0017). The part `images` of the set
/// `clip` is the link `clip.images`, whose LinkSpec::set is `clip`; a set is nothing but the links
/// that name it. It is made and removed as a whole.
struct SetPart {
  std::string name;  ///< As its directory in a mount of the set.
  S3Location location;
};

/// As many preloads run at once; and each part is a mount of its own in the kernel.
inline constexpr std::size_t kMostParts = 16;

/// "s3://bucket/prefix", or "NAME=s3://bucket/prefix" where the last part of the prefix is not to
/// be its name. kInvalid.
Result<SetPart> ParseSetPart(std::string_view text);

/// kInvalid: not two to kMostParts, a name that is none or comes twice, a source that comes twice,
/// or with `set` a name is too long.
Status ValidateParts(std::string_view set, const std::vector<SetPart>& parts);

/// The link's name.
std::string LinkOfPart(std::string_view set, std::string_view part);
/// The other way; "" for a link of no set.
std::string_view PartOf(const LinkSpec& link);
std::string_view PartOf(std::string_view set, std::string_view link);

/// "clip.images, clip.labels": for messages.
std::string NamesOf(const std::vector<LinkSpec>& links);

}  // namespace forebay
