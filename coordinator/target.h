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

/// Resolves NAME, NAME/sub/path or s3://bucket/prefix…, with or without slashes at the end. An S3
/// location belongs to the link that covers it with the longest prefix; `s3://b/pre/` never takes
/// `s3://b/prefix2`. kNotFound names the nearest link; kInvalid: the text is no target. Whether
/// the path exists in the link is not looked at.
Result<ResolvedTarget> ResolveTarget(std::string_view text, const std::vector<LinkSpec>& links);

/// "no link 'imagnet'; the nearest is 'imagenet'", as an error.
Error UnknownLink(std::string_view name, const std::vector<LinkSpec>& links);

}  // namespace forebay
