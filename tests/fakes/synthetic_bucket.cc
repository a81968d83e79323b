#include "tests/fakes/synthetic_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace forebay::fakes {
namespace {

constexpr std::uint64_t kFolderFiles = 1'300;     // ImageNet's classes have 732 to 1,300
constexpr std::uint64_t kFirstClass = 1'440'764;  // of ImageNet
constexpr std::uint64_t kClassStep = 7'919;       // 10 million files are 7,693 classes of 8 digits
constexpr std::uint64_t kLeafFiles = 100;         // of a deep folder
constexpr std::size_t kLevels = 6;                // of deep folders
constexpr std::size_t kObjectBytes = 330;         // of XML, about

// Fixed numbers of digits keep the order of keys that of their numbers.
void AppendDigits(std::uint64_t number, std::size_t digits, std::string& out) {
  const std::size_t begin = out.size();
  out.append(digits, '0');
  for (std::size_t at = begin + digits; at > begin && number > 0; number /= 10) {
    out[--at] = static_cast<char>('0' + number % 10);
  }
}

// splitmix64 (Steele, Lea, Flood 2014): evenly spread, and the same on every machine.
std::uint64_t Mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

void AppendHex(std::uint64_t word, std::string& out) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(word >> shift) & 15];
}

void AppendEtag(std::uint64_t i, std::string& out) {
  AppendHex(Mixed(i), out);
  AppendHex(Mixed(~i), out);
  if (i % 2 != 0) out += "-2";
}

std::string QueryOf(const S3RequestSeen& request, const std::string& name) {
  const auto it = request.query.find(name);
  return it == request.query.end() ? "" : it->second;
}

}  // namespace

std::optional<SyntheticBucket::Shape> SyntheticBucket::ShapeOf(std::string_view name) {
  if (name == "flat") return Shape::kFlat;
  if (name == "imagenet") return Shape::kImageNet;
  if (name == "deep") return Shape::kDeep;
  return std::nullopt;
}

std::string SyntheticBucket::KeyAt(std::uint64_t i) const {
  std::string key;
  AppendKey(i, key);
  return key;
}

std::uint64_t SyntheticBucket::SizeAt(std::uint64_t i) const { return 20'000 + Mixed(i) % 40'000; }

std::string SyntheticBucket::EtagAt(std::uint64_t i) const {
  std::string etag;
  AppendEtag(i, etag);
  return etag;
}

void SyntheticBucket::AppendKey(std::uint64_t i, std::string& out) const {
  switch (shape_) {
    case Shape::kFlat:
      out += "images/";
      AppendDigits(i, 9, out);
      out += ".jpg";
      return;
    case Shape::kImageNet: {
      const std::uint64_t folder = kFirstClass + i / kFolderFiles * kClassStep;
      out += "train/n";
      AppendDigits(folder, 8, out);
      out += "/n";
      AppendDigits(folder, 8, out);
      out += '_';
      AppendDigits(i % kFolderFiles, 5, out);
      out += ".JPEG";
      return;
    }
    case Shape::kDeep: {
      std::string digits;
      AppendDigits(i / kLeafFiles, kLevels, digits);
      out += "deep/";
      for (std::size_t level = 0; level < kLevels; ++level) {
        out += static_cast<char>('a' + level);
        out += digits[level];
        out += '/';
      }
      out += 'f';
      AppendDigits(i % kLeafFiles, 2, out);
      out += ".bin";
      return;
    }
  }
}

void SyntheticBucket::AppendObject(std::uint64_t i, std::string& out) const {
  out += "<Contents><Key>";
  AppendKey(i, out);
  out += "</Key><LastModified>2024-03-07T";
  AppendDigits(i / 3'600'000 % 24, 2, out);
  out += ':';
  AppendDigits(i / 60'000 % 60, 2, out);
  out += ':';
  AppendDigits(i % 60, 2, out);
  out += ".000Z</LastModified><ETag>&quot;";
  AppendEtag(i, out);
  out += "&quot;</ETag><Size>";
  AppendDigits(SizeAt(i), 5, out);
  out += "</Size><StorageClass>STANDARD</StorageClass></Contents>";
}

std::uint64_t SyntheticBucket::UpTo(std::string_view key) const {
  std::uint64_t low = 0;
  std::uint64_t high = keys_;
  std::string there;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    there.clear();
    AppendKey(middle, there);
    if (there <= key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::optional<S3Answer> SyntheticBucket::Answer(const S3RequestSeen& request) const {
  if (request.method != "GET" || !request.key.empty() || QueryOf(request, "list-type") != "2") {
    return std::nullopt;
  }
  if (!QueryOf(request, "delimiter").empty()) {
    return ScriptedS3::Error(501, "NotImplemented", "no delimiter here");
  }
  const std::string prefix = QueryOf(request, "prefix");
  const std::string token = QueryOf(request, "continuation-token");
  const std::string after = token.empty() ? QueryOf(request, "start-after") : token;
  const std::string asked = QueryOf(request, "max-keys");
  const std::uint64_t limit = asked.empty() ? 1000 : std::min(1000ULL, std::stoull(asked));
  std::uint64_t first = UpTo(std::max(after, prefix));
  // The prefix may be a key itself.
  if (first > 0 && after < prefix && KeyAt(first - 1) == prefix) --first;
  // Behind every key that begins like this: these hold ASCII alone.
  const std::uint64_t end = UpTo(prefix + '\x7f');
  const std::uint64_t last = std::min(end, first + limit);
  S3Answer answer;
  answer.headers = {{"Content-Type", "application/xml"}};
  std::string& body = answer.body;
  body.reserve(1000 + (last - std::min(first, last)) * kObjectBytes);
  body = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{}</Name>"
      "<Prefix>{}</Prefix><KeyCount>{}</KeyCount><MaxKeys>{}</MaxKeys>"
      "<EncodingType>url</EncodingType><IsTruncated>{}</IsTruncated>",
      request.bucket, prefix, last > first ? last - first : 0, limit, last < end);
  if (last < end && last > 0) {
    body += fmt::format("<NextContinuationToken>{}</NextContinuationToken>", KeyAt(last - 1));
  }
  for (std::uint64_t i = first; i < last; ++i) AppendObject(i, body);
  body += "</ListBucketResult>";
  return answer;
}

}  // namespace forebay::fakes
