#include "tests/fakes/stored_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace forebay::fakes {
namespace {

constexpr std::uint64_t kLineBytes = 16;

std::string Described(const std::string& key, const StoredObject& object, bool is_latest) {
  const char* const kind = object.deletion ? "DeleteMarker" : "Version";
  std::string text = fmt::format(
      "<{}><Key>{}</Key><VersionId>{}</VersionId><IsLatest>{}</IsLatest>"
      "<LastModified>2022-10-12T17:50:00.000Z</LastModified>",
      kind, UrlEncodedKey(key), object.version, is_latest);
  if (!object.deletion) {
    text += fmt::format("<ETag>&quot;{}&quot;</ETag><Size>{}</Size><StorageClass>{}</StorageClass>",
                        object.etag, object.size(), object.storage_class);
  }
  return text + fmt::format("</{}>", kind);
}

}  // namespace

std::string StoredObject::Bytes(std::uint64_t first, std::uint64_t count) const {
  if (made_bytes == 0) return body.substr(first, count);
  std::string lines;
  lines.reserve(count + 2 * kLineBytes);
  for (std::uint64_t line = first / kLineBytes; line * kLineBytes < first + count; ++line)
    lines += fmt::format("{:015x}\n", line);
  return lines.substr(first % kLineBytes, count);
}

void ObjectHistory::Add(const std::string& key, StoredObject object) {
  versions_[key].push_back(std::move(object));
}

const StoredObject* ObjectHistory::Find(const std::string& key, std::string_view version) const {
  const auto known = versions_.find(key);
  if (known == versions_.end()) return nullptr;
  const auto found = std::ranges::find(known->second, version, &StoredObject::version);
  return found == known->second.end() ? nullptr : &*found;
}

std::string ObjectHistory::List(const std::string& prefix, const std::string& key_marker,
                                const std::string& version_marker, std::size_t most) const {
  std::string contents;
  std::string next;
  std::size_t count = 0;
  bool truncated = false;
  for (auto it = versions_.lower_bound(std::max(prefix, key_marker)); it != versions_.end(); ++it) {
    const auto& [key, versions] = *it;
    if (!key.starts_with(prefix) || truncated) break;
    // Behind a key's own marker comes what is older than the version that is named.
    bool behind = key != key_marker;
    if (!behind && version_marker.empty()) continue;
    for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
      if (!behind) {
        behind = version->version == version_marker;
        continue;
      }
      if (count == most) {
        truncated = true;
        break;
      }
      ++count;
      contents += Described(key, *version, version == versions.rbegin());
      next = fmt::format(
          "<NextKeyMarker>{}</NextKeyMarker><NextVersionIdMarker>{}</NextVersionIdMarker>",
          UrlEncodedKey(key), version->version);
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
      "<ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><Prefix>{}</Prefix><IsTruncated>{}</IsTruncated>{}{}"
      "</ListVersionsResult>",
      UrlEncodedKey(prefix), truncated, truncated ? next : "", contents);
}

std::string UrlEncodedKey(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') {
      text += '+';
    } else if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '/') {
      text += c;
    } else {
      text += fmt::format("%{:02X}", byte);
    }
  }
  return text;
}

}  // namespace forebay::fakes
