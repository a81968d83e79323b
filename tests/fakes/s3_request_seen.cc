#include "tests/fakes/s3_request_seen.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace forebay::fakes {
namespace {

std::string Decoded(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ec == std::errc()) {
      bytes.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      bytes.push_back(text[i]);
    }
  }
  return bytes;
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string S3RequestSeen::Header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

S3RequestSeen ParseS3Request(std::string_view head) {
  S3RequestSeen request;
  const std::size_t first_end = head.find("\r\n");
  const std::string_view first = head.substr(0, first_end);
  const std::size_t blank = first.find(' ');
  request.method = first.substr(0, blank);
  request.target = first.substr(blank + 1, first.rfind(' ') - blank - 1);
  std::string_view rest = head.substr(first_end + 2);
  while (!rest.empty()) {
    const std::size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      std::string_view value = line.substr(colon + 1);
      while (value.starts_with(' ')) value.remove_prefix(1);
      request.headers[Lower(std::string(line.substr(0, colon)))] = value;
    }
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  const std::string_view target(request.target);
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(1, question - 1);
  const std::size_t slash = std::min(path.find('/'), path.size());
  request.bucket = Decoded(path.substr(0, slash));
  request.key = Decoded(path.substr(std::min(slash + 1, path.size())));
  std::string_view query = target.substr(std::min(question + 1, target.size()));
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    request.query[Decoded(pair.substr(0, equals))] =
        Decoded(pair.substr(std::min(equals + 1, pair.size())));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return request;
}

}  // namespace forebay::fakes
