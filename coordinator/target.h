#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/link.h"

namespace forebay {

/// What a TARGET (INTERFACE, "The CLI") means.
struct ResolvedTarget {
  LinkSpec link;
  std::string path;  ///< From the link's root, no slash at the ends; "" = the whole link.
};

/// Resolves NAME, NAME/sub/path or s3://bucket/prefix…, with or without slashes at the end. NAME
/// is a link, or SET/PART; a whole set is kInvalid and names its parts. An S3
/// location belongs to the link that covers it with the longest prefix; `s3://b/pre/` never takes
/// `s3://b/prefix2`. kNotFound names the nearest link; kInvalid: the text is no target. Whether
/// the path exists in the link is not looked at.
Result<ResolvedTarget> ResolveTarget(std::string_view text, const std::vector<LinkSpec>& links);

/// The links that a TARGET means: the parts of a set that it names whole, else none, also where it
/// is wrong.
std::vector<LinkSpec> PartsNamed(std::string_view text, const std::vector<LinkSpec>& links);

/// "no link 'imagnet'; the nearest is 'imagenet'", as an error; kInvalid where it is a set.
Error UnknownLink(std::string_view name, const std::vector<LinkSpec>& links);

}  // namespace forebay
