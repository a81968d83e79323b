#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forebay::fakes {

/// One version of an object of the scripted S3.
struct StoredObject {
  std::string body;
  std::string etag;
  std::string storage_class;
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< Of its PUT.
  std::string version = "null";
  bool deletion = false;  ///< A delete marker: no object.
  /// Not 0: so many bytes that nobody stores, lines of 16 of them: the line's number in 15
  /// hexadecimal digits, and a line end.
  std::uint64_t made_bytes = 0;

  std::uint64_t size() const { return made_bytes != 0 ? made_bytes : body.size(); }
  /// `count` bytes from `first` on, all of them within the object.
  std::string Bytes(std::uint64_t first, std::uint64_t count) const;
};

/// What a bucket with versioning keeps of its objects, the current versions among it.
class ObjectHistory {
 public:
  /// As the newest version of `key`.
  void Add(const std::string& key, StoredObject object);
  /// Null: there is no such version.
  const StoredObject* Find(const std::string& key, std::string_view version) const;
  /// The answer to ListObjectVersions, `most` versions at most from behind the two markers on.
  std::string List(const std::string& prefix, const std::string& key_marker,
                   const std::string& version_marker, std::size_t most) const;

 private:
  std::map<std::string, std::vector<StoredObject>> versions_;  // oldest first
};

/// As `encoding-type=url` wants keys.
std::string UrlEncodedKey(std::string_view bytes);

}  // namespace forebay::fakes
