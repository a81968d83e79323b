#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/model/link.h"

namespace forebay {

/// Bad lines that are told of one by one: a file that is no manifest has millions.
inline constexpr std::size_t kMostBadKept = 1000;

/// What a manifest names: objects of one bucket.
struct LinkManifest {
  /// A line of an augmented manifest: a JSON object.
  struct Line {
    std::uint64_t line = 0;
    std::string_view json;  ///< As it stands in `text`.
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

  std::shared_ptr<const std::string> text;  ///< Of an augmented manifest; null of others.
  std::string bucket;
  std::string prefix;          ///< A folder that all keys lie in: "" or ends with '/'.
  std::vector<Name> names;     ///< By key, ascending; each key once.
  std::vector<Bad> bad;        ///< The first kMostBadKept, in the order of the manifest.
  std::uint64_t bad_more = 0;  ///< Further ones, which are only counted.
  bool is_json = false;

  std::uint64_t bad_lines() const { return bad.size() + bad_more; }
  void AddBad(Bad one) {
    if (bad.size() < kMostBadKept) {
      bad.push_back(std::move(one));
    } else {
      ++bad_more;
    }
  }

  /// "line 3", "entry 3": as messages say where something stands.
  std::string Place(std::uint64_t line) const;
};

/// Larger manifests are refused: 660,000 augmented lines of 400 bytes. Their text is in memory as
/// long as their objects are looked up.
inline constexpr std::size_t kMaxManifestBytes = std::size_t{256} << 20;
/// So are those with more names, which may be short ones: with what is looked up of it each takes
/// about 500 bytes of memory.
inline constexpr std::size_t kMaxManifestNames = 2'000'000;

/// Reads a manifest of SageMaker (a JSON array whose first entry is {"prefix": "s3://…"} and whose
/// other entries are names behind it), an augmented manifest (a JSON object on each line, whose
/// "source-ref" is "s3://bucket/key") or a list with a name on each line: "s3://bucket/key", or a
/// name behind `base`. All keys are to lie below `root`; a root without a bucket sets no bound, and
/// the prefix is found: that of the JSON, else the folder that all keys share.
///
/// kInvalid: it is no manifest, names nothing, or more than kMaxManifestNames. What is wrong with
/// single lines is in `bad`.
Result<LinkManifest> ParseLinkManifest(std::string text, const S3Location& base,
                                       const S3Location& root);

}  // namespace forebay
