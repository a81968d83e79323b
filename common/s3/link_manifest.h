#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/link.h"

namespace forebay {

/// What a manifest names: objects of one bucket.
struct LinkManifest {
  /// A line of an augmented manifest: a JSON object.
  struct Line {
    std::uint64_t line = 0;
    std::string json;  ///< As it stands there.
  };
  struct Name {
    std::string key;
    std::uint64_t line = 0;        ///< Where it stands, from 1: a line of a list, an entry of JSON.
    std::vector<Line> lines = {};  ///< Of an augmented manifest: all that name the object.
  };
  struct Bad {
    std::uint64_t line = 0;
    std::string reason;  ///< A sentence: line, what, what to do.
  };

  std::string bucket;
  std::string prefix;       ///< A folder that all keys lie in: "" or ends with '/'.
  std::vector<Name> names;  ///< By key, ascending; each key once.
  std::vector<Bad> bad;     ///< In the order of the manifest.
  bool is_json = false;

  /// "line 3", "entry 3": as messages say where something stands.
  std::string Place(std::uint64_t line) const;
};

/// Larger manifests are refused: about a million names.
inline constexpr std::size_t kMaxManifestBytes = std::size_t{64} << 20;

/// Reads a manifest of SageMaker (a JSON array whose first entry is {"prefix": "s3://…"} and whose
/// other entries are names behind it), an augmented manifest (a JSON object on each line, whose
/// "source-ref" is "s3://bucket/key") or a list with a name on each line: "s3://bucket/key", or a
/// name behind `base`. All keys are to lie below `root`; a root without a bucket sets no bound, and
/// the prefix is found: that of the JSON, else the folder that all keys share.
///
/// kInvalid: it is no manifest, or names nothing. What is wrong with single lines is in `bad`.
Result<LinkManifest> ParseLinkManifest(std::string_view text, const S3Location& base,
                                       const S3Location& root);

}  // namespace forebay
