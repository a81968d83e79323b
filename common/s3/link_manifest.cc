#include "common/s3/link_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/system/error_code.hpp>
#include <iterator>
#include <optional>
#include <utility>

#include "common/model/limits.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

namespace json = boost::json;

/// Shown of a line that is wrong: enough to find it.
constexpr std::size_t kShownBytes = 200;
/// A key with "s3://" and a bucket before it.
constexpr std::size_t kMostOfAName = kMaxKeyBytes + 100;

std::string Shown(std::string_view text) {
  const bool is_long = text.size() > kShownBytes;
  return Printable(text.substr(0, kShownBytes)) + (is_long ? "…" : "");
}

std::string FolderOf(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(key.substr(0, slash + 1));
}

Error TooMany() {
  return Error{Code::kInvalid, fmt::format("it names more than {} objects: split it, or link a "
                                           "prefix with --include",
                                           kMaxManifestNames)};
}

/// Takes names one by one and judges each.
class ManifestReader {
 public:
  ManifestReader(const S3Location& base, const S3Location& root) : base_(base), root_(root) {
    manifest_.bucket = root.bucket;
  }

  /// An augmented manifest, of which `text` has the lines.
  void KeepText(std::shared_ptr<const std::string> text) { manifest_.text = std::move(text); }

  void SetJson(const S3Location& prefix) {
    manifest_.is_json = true;
    base_ = prefix;
  }

  /// Nothing more is taken: see Finish.
  bool is_full() const { return manifest_.names.size() > kMaxManifestNames; }

  void Take(std::string_view name, std::uint64_t line) {
    if (is_full()) return;
    if (name.empty()) return Refuse(line, "names nothing", "take it out");
    if (name.size() > kMostOfAName) return RefuseLong(name, line);
    S3Location object{base_.bucket, base_.prefix};
    if (!manifest_.is_json && name.starts_with("s3://")) {
      Result<S3Location> location = ParseS3Location(name);
      if (!location) return Refuse(line, Printable(location.error().message), "correct it");
      object = *std::move(location);
    } else {
      object.prefix += name;
    }
    Add(std::move(object), name, line);
  }

  /// A line of an augmented manifest, within the text that is kept.
  void TakeObject(std::string_view json, std::uint64_t line) {
    boost::system::error_code error;
    json::monotonic_resource memory;
    const json::value document = json::parse(json, error, &memory);
    if (error) return Refuse(line, "is no JSON: " + error.message(), "correct it");
    const json::object* object = document.if_object();
    const json::value* source = object != nullptr ? object->if_contains("source-ref") : nullptr;
    const json::string* name = source != nullptr ? source->if_string() : nullptr;
    if (name == nullptr || !std::string_view(*name).starts_with("s3://")) {
      return Refuse(line, "names no object in \"source-ref\"",
                    R"(write {"source-ref": "s3://bucket/key", …})");
    }
    const std::size_t before = manifest_.names.size();
    Take(*name, line);
    if (manifest_.names.size() > before)
      manifest_.names.back().lines.push_back({.line = line, .json = json});
  }

  void RefuseEntry(std::uint64_t line) {
    Refuse(line, "is no text", "write the name of an object behind the prefix");
  }

  Result<LinkManifest> Finish() {
    if (is_full()) return Fail(TooMany());
    auto& names = manifest_.names;
    // Of two that are the same the first one counts.
    std::ranges::sort(names, {}, [](const LinkManifest::Name& name) {
      return std::pair<std::string_view, std::uint64_t>(name.key, name.line);
    });
    MergeSame(names);
    if (names.empty() && manifest_.bad.empty())
      return Fail(Code::kInvalid, "it names no object: write one name on each line");
    if (!root_.bucket.empty()) {
      manifest_.prefix = root_.prefix;
    } else if (manifest_.is_json) {
      manifest_.prefix = FolderOf(base_.prefix);
    } else if (!names.empty()) {
      const std::string& first = names.front().key;
      const auto differ = std::ranges::mismatch(first, names.back().key);
      manifest_.prefix = FolderOf(std::string_view(first.begin(), differ.in1));
    }
    return std::move(manifest_);
  }

 private:
  /// Of equal keys, which stand side by side, the first stays, with the lines of all.
  static void MergeSame(std::vector<LinkManifest::Name>& names) {
    std::size_t kept = 0;
    for (std::size_t i = 1; i < names.size(); ++i) {
      if (names[i].key == names[kept].key) {
        std::ranges::move(names[i].lines, std::back_inserter(names[kept].lines));
      } else if (++kept != i) {
        names[kept] = std::move(names[i]);
      }
    }
    if (!names.empty()) names.resize(kept + 1);
  }

  void Add(S3Location object, std::string_view name, std::uint64_t line) {
    const std::string& key = object.prefix;
    if (key.empty()) return Refuse(line, Quoted(name) + " names a bucket", "name an object");
    if (key.size() > kMaxKeyBytes) return RefuseLong(name, line);
    if (manifest_.bucket.empty()) manifest_.bucket = object.bucket;
    if (object.bucket != manifest_.bucket) {
      return Refuse(line, fmt::format("{} is not in bucket {}", Quoted(name), manifest_.bucket),
                    "a link reads one bucket: make a link for each");
    }
    if (!key.starts_with(root_.prefix)) {
      return Refuse(line,
                    fmt::format("{} is not below s3://{}/{}", Quoted(name), root_.bucket,
                                Printable(root_.prefix)),
                    "take it out, or link a shorter prefix");
    }
    manifest_.names.push_back({.key = std::move(object.prefix), .line = line});
  }

  void RefuseLong(std::string_view name, std::uint64_t line) {
    Refuse(line, Quoted(name) + " is longer than a key of S3 can be",
           "correct it: 1024 bytes at most");
  }

  static std::string Quoted(std::string_view name) { return "'" + Shown(name) + "'"; }

  void Refuse(std::uint64_t line, std::string_view what, std::string_view to_do) {
    if (manifest_.bad.size() >= kMostBadKept) {
      ++manifest_.bad_more;
      return;
    }
    manifest_.bad.push_back(
        {.line = line, .reason = fmt::format("{} {}: {}", manifest_.Place(line), what, to_do)});
  }

  LinkManifest manifest_;
  S3Location base_;
  const S3Location root_;
};

/// The first entry of a manifest of SageMaker.
Result<S3Location> PrefixOf(const json::array& entries) {
  const json::value* prefix = nullptr;
  if (!entries.empty() && entries.front().is_object())
    prefix = entries.front().get_object().if_contains("prefix");
  if (prefix == nullptr || !prefix->is_string()) {
    return Fail(Code::kInvalid,
                "it is JSON, but its first entry is not {\"prefix\": \"s3://bucket/prefix\"}, as a "
                "manifest of SageMaker has it");
  }
  Result<S3Location> location = ParseS3Location(std::string_view(prefix->get_string()));
  if (!location) return Fail(location.error().Within("its prefix"));
  return location;
}

/// Commas between values, before any memory is spent on these.
std::size_t CountEntries(std::string_view text) {
  std::size_t commas = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == ',') {
      ++commas;
    }
  }
  return commas + 1;
}

Status ReadJson(std::string_view text, ManifestReader& reader, const S3Location& root) {
  if (CountEntries(text) > kMaxManifestNames) return Fail(TooMany());
  json::monotonic_resource memory;
  boost::system::error_code error;
  const json::value document = json::parse(text, error, &memory);
  if (error || !document.is_array()) {
    return Fail(Code::kInvalid, fmt::format("it begins like JSON, but is no JSON array{}",
                                            error ? ": " + error.message() : std::string()));
  }
  const json::array& entries = document.get_array();
  const Result<S3Location> prefix = PrefixOf(entries);
  if (!prefix) return Fail(prefix.error());
  if (!root.bucket.empty() && prefix->bucket != root.bucket) {
    return Fail(Code::kInvalid, fmt::format("its prefix is in bucket {}, and the link in {}",
                                            prefix->bucket, root.bucket));
  }
  reader.SetJson(*prefix);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].is_string()) {
      reader.Take(std::string_view(entries[i].get_string()), i + 1);
    } else {
      reader.RefuseEntry(i + 1);
    }
  }
  return {};
}

/// Calls `take` for each line with something in it.
template <typename Take>
void ForEachLine(std::string_view text, Take take) {
  for (std::uint64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (name.ends_with('\r')) name.remove_suffix(1);
    if (!name.empty()) take(name, line);
  }
}

/// A line without the spaces around it.
std::string_view Trimmed(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t first = line.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kSpaces) - first + 1);
}

void ReadObjects(std::string_view text, ManifestReader& reader) {
  ForEachLine(text, [&](std::string_view line, std::uint64_t number) {
    const std::string_view json = Trimmed(line);
    if (!json.empty()) reader.TakeObject(json, number);
  });
}

}  // namespace

std::string LinkManifest::Place(std::uint64_t line) const {
  return fmt::format("{} {}", is_json ? "entry" : "line", line);
}

Result<LinkManifest> ParseLinkManifest(std::string text, const S3Location& base,
                                       const S3Location& root) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  const auto kept = std::make_shared<const std::string>(std::move(text));
  std::string_view rest = *kept;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  ManifestReader reader(base, root);
  const std::size_t first = rest.find_first_not_of(" \t\r\n");
  const char begin = first == std::string_view::npos ? '\0' : rest[first];
  if (begin == '{') {
    reader.KeepText(kept);
    ReadObjects(rest, reader);
  } else if (begin == '[') {
    Status read = ReadJson(rest, reader, root);
    if (!read) return Fail(read.error());
  } else {
    ForEachLine(rest, [&](std::string_view name, std::uint64_t line) { reader.Take(name, line); });
  }
  return reader.Finish();
}

}  // namespace forebay
