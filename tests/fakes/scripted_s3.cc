#include "tests/fakes/scripted_s3.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <set>
#include <stdexcept>

namespace forebay::fakes {
namespace {

constexpr std::chrono::seconds kPatience{10};

// Continuation tokens are opaque to clients: the last name shown, in hex.
std::string Hexed(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string Unhexed(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned char byte = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// The first `part` bytes, at the answer's pace.
bool SendBody(int fd, const S3Answer& answer, std::size_t part) {
  std::string_view body = std::string_view(answer.body).substr(0, part);
  constexpr std::uint64_t kPiecesPerSecond = 50;
  const std::size_t piece = std::max<std::size_t>(1, answer.bytes_per_s / kPiecesPerSecond);
  while (!body.empty()) {
    if (!SendAll(fd, body.substr(0, piece))) return false;
    body.remove_prefix(std::min(piece, body.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kPiecesPerSecond));
  }
  return true;
}

// One page of keys below a prefix, as the store walks them.
struct Page {
  std::string contents;
  std::set<std::string> prefixes;
  std::size_t count = 0;
  std::string last;  // the last key or common prefix
  bool truncated = false;
};

std::string QueryOf(const S3RequestSeen& request, const std::string& name) {
  const auto it = request.query.find(name);
  return it == request.query.end() ? "" : it->second;
}

bool Until(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

ScriptedS3::ScriptedS3() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, raw, size) != 0 || ::listen(listener_, 1024) != 0 ||
      ::getsockname(listener_, raw, &size) != 0) {
    throw std::runtime_error("the scripted S3 cannot listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedS3::~ScriptedS3() { Stop(); }

void ScriptedS3::Stop() {
  if (stopping_.exchange(true)) return;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  {
    std::scoped_lock lock(mutex_);
    for (const Connection& connection : connections_) ::shutdown(connection.fd, SHUT_RDWR);
  }
  for (Connection& connection : connections_) {
    connection.thread.join();
    ::close(connection.fd);
  }
}

std::string ScriptedS3::endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }

std::string ScriptedS3::Put(const std::string& bucket, const std::string& key, std::string body,
                            const std::string& storage_class) {
  return PutWithHeaders(bucket, key, std::move(body), {{"x-amz-storage-class", storage_class}});
}

std::string ScriptedS3::PutWithHeaders(const std::string& bucket, const std::string& key,
                                       std::string body, S3Answer::Headers headers) {
  const auto found =
      std::ranges::find(headers, "x-amz-storage-class", &S3Answer::Headers::value_type::first);
  const std::string storage_class = found == headers.end() ? "STANDARD" : found->second;
  if (found != headers.end()) headers.erase(found);
  std::scoped_lock lock(mutex_);
  std::string etag = fmt::format("{:032x}", ++etags_);
  Store(bucket, key,
        StoredObject{.body = std::move(body),
                     .etag = etag,
                     .storage_class = storage_class,
                     .headers = std::move(headers)});
  return etag;
}

void ScriptedS3::PutMade(const std::string& bucket, const std::string& key, std::uint64_t bytes) {
  std::scoped_lock lock(mutex_);
  StoredObject object{
      .body = {}, .etag = fmt::format("{:032x}", ++etags_), .storage_class = "STANDARD"};
  object.made_bytes = bytes;
  Store(bucket, key, std::move(object));
}

void ScriptedS3::Store(const std::string& bucket, const std::string& key, StoredObject object) {
  const auto history = histories_.find(bucket);
  if (history != histories_.end()) {
    object.version = fmt::format("v{}", ++versions_);
    history->second.Add(key, object);
  }
  buckets_[bucket][key] = std::move(object);
}

void ScriptedS3::KeepVersions(const std::string& bucket) {
  std::scoped_lock lock(mutex_);
  const auto [history, is_new] = histories_.try_emplace(bucket);
  if (!is_new) return;
  for (const auto& [key, object] : buckets_[bucket]) history->second.Add(key, object);
}

void ScriptedS3::Remove(const std::string& bucket, const std::string& key) {
  std::scoped_lock lock(mutex_);
  buckets_[bucket].erase(key);
  const auto history = histories_.find(bucket);
  if (history == histories_.end()) return;
  StoredObject marker;
  marker.version = fmt::format("v{}", ++versions_);
  marker.deletion = true;
  history->second.Add(key, std::move(marker));
}

void ScriptedS3::Next(S3Answer answer) {
  std::scoped_lock lock(mutex_);
  next_.push_back(std::move(answer));
}

void ScriptedS3::SetHandler(Handler handler) {
  std::scoped_lock lock(mutex_);
  handler_ = std::move(handler);
}

void ScriptedS3::ForgetRequests() {
  std::scoped_lock lock(mutex_);
  remembers_ = false;
  requests_.clear();
}

std::vector<S3RequestSeen> ScriptedS3::requests() const {
  std::scoped_lock lock(mutex_);
  return requests_;
}

bool ScriptedS3::WaitForClosed(std::size_t count) const {
  return Until([&] { return closed_.load() >= count; });
}

bool ScriptedS3::WaitForRequests(std::size_t count) const {
  return Until([&] { return requests().size() >= count; });
}

S3Answer ScriptedS3::Error(int status, const std::string& code, const std::string& message) {
  S3Answer answer;
  answer.status = status;
  answer.headers = {{"Content-Type", "application/xml"}, {"x-amz-request-id", "scripted"}};
  answer.body = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{}</Code><Message>{}</Message>"
      "<RequestId>scripted</RequestId></Error>",
      code, message);
  return answer;
}

void ScriptedS3::Accept() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    ++accepted_;
    std::scoped_lock lock(mutex_);
    connections_.push_back({fd, std::thread([this, fd] {
                              Serve(fd);
                              ++closed_;
                            })});
    if (stopping_) ::shutdown(fd, SHUT_RDWR);
  }
}

void ScriptedS3::Serve(int fd) {
  std::string received;
  char chunk[4096];
  for (;;) {
    const std::size_t end = received.find("\r\n\r\n");
    if (end == std::string::npos) {
      const ssize_t n = ::recv(fd, chunk, sizeof(chunk), 0);
      if (n <= 0) return;
      received.append(chunk, static_cast<std::size_t>(n));
      continue;
    }
    S3RequestSeen request = ParseS3Request(std::string_view(received).substr(0, end + 2));
    const std::string length = request.Header("content-length");
    const std::size_t body_bytes = length.empty() ? 0 : std::stoul(length);
    if (received.size() < end + 4 + body_bytes) {
      const ssize_t n = ::recv(fd, chunk, sizeof(chunk), 0);
      if (n <= 0) return;
      received.append(chunk, static_cast<std::size_t>(n));
      continue;
    }
    request.body = received.substr(end + 4, body_bytes);
    received.erase(0, end + 4 + body_bytes);
    if (!Send(fd, request, AnswerTo(request))) {
      ::shutdown(fd, SHUT_RDWR);
      return;
    }
  }
}

S3Answer ScriptedS3::AnswerTo(const S3RequestSeen& request) {
  Handler handler;
  {
    std::scoped_lock lock(mutex_);
    if (remembers_) requests_.push_back(request);
    if (!next_.empty()) {
      S3Answer answer = std::move(next_.front());
      next_.pop_front();
      return answer;
    }
    handler = handler_;
  }
  if (handler) {
    std::optional<S3Answer> answer = handler(request);
    if (answer) return *std::move(answer);
  }
  const bool changes = request.method == "PUT" || request.method == "DELETE";
  return changes ? Change(request) : Truth(request);
}

S3Answer ScriptedS3::Change(const S3RequestSeen& request) {
  S3Answer answer;
  if (request.method == "DELETE") {
    Remove(request.bucket, request.key);
    answer.status = 204;
    return answer;
  }
  if (request.key.empty()) {
    std::scoped_lock lock(mutex_);
    buckets_[request.bucket];
    return answer;
  }
  S3Answer::Headers kept;
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-amz-checksum-") || name == "x-amz-storage-class")
      kept.emplace_back(name, value);
  }
  const std::string etag =
      PutWithHeaders(request.bucket, request.key, request.body, std::move(kept));
  answer.headers = {{"ETag", fmt::format("\"{}\"", etag)}};
  return answer;
}

bool ScriptedS3::Send(int fd, const S3RequestSeen& request, const S3Answer& answer) {
  char byte = 0;
  if (answer.hang_up) return false;
  if (answer.silent) return ::recv(fd, &byte, 1, 0) > 0;
  if (answer.delay.count() > 0) std::this_thread::sleep_for(answer.delay);
  std::string text = fmt::format("HTTP/1.1 {} Scripted\r\n", answer.status);
  for (const auto& [name, value] : answer.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (!answer.no_length) {
    text +=
        fmt::format("Content-Length: {}\r\n", answer.declared_length.value_or(answer.body.size()));
  }
  text += answer.no_length ? "Connection: close\r\n\r\n" : "\r\n";
  const std::size_t part =
      answer.stall_after.value_or(answer.end_after.value_or(answer.body.size()));
  // A short answer goes as one packet: the second one would wait for the first one's ACK.
  const bool has_body = request.method != "HEAD";
  const bool at_once = has_body && answer.bytes_per_s == 0;
  if (at_once) text += std::string_view(answer.body).substr(0, part);
  if (!SendAll(fd, text)) return false;
  if (has_body && !at_once && !SendBody(fd, answer, part)) return false;
  if (answer.stall_after) return ::recv(fd, &byte, 1, 0) > 0;
  if (answer.reset) {
    const linger hard{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    // Only close() makes the RST; the descriptor stays reserved for the destructor.
    const int null = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::dup2(null, fd);
    ::close(null);
    return false;
  }
  return !answer.end_after && !answer.no_length;
}

S3Answer ScriptedS3::Truth(const S3RequestSeen& request) const {
  std::scoped_lock lock(mutex_);
  const auto bucket = buckets_.find(request.bucket);
  if (bucket == buckets_.end()) return Error(404, "NoSuchBucket");
  if (request.query.contains("versions")) return ListVersions(request);
  if (request.key.empty()) return ListObjects(request, bucket->second);
  const StoredObject* object = nullptr;
  if (const std::string version = QueryOf(request, "versionId"); !version.empty()) {
    const auto history = histories_.find(request.bucket);
    if (history != histories_.end()) object = history->second.Find(request.key, version);
    if (object == nullptr) return Error(404, "NoSuchVersion");
    if (object->deletion) return Error(405, "MethodNotAllowed");
  } else {
    const auto current = bucket->second.find(request.key);
    if (current == bucket->second.end()) return Error(404, "NoSuchKey");
    object = &current->second;
  }
  const std::string quoted = fmt::format("\"{}\"", object->etag);
  const std::string wanted = request.Header("if-match");
  if (!wanted.empty() && wanted != quoted) return Error(412, "PreconditionFailed");
  const std::string& storage = object->storage_class;
  const bool archived = storage == "GLACIER" || storage == "DEEP_ARCHIVE";
  if (request.method == "GET" && archived && !restored_) return Error(403, "InvalidObjectState");
  return GetObject(request, *object);
}

// A bucket without a history has the current versions alone.
S3Answer ScriptedS3::ListVersions(const S3RequestSeen& request) const {
  ObjectHistory current;
  const auto history = histories_.find(request.bucket);
  if (history == histories_.end()) {
    for (const auto& [key, object] : buckets_.at(request.bucket)) current.Add(key, object);
  }
  const std::string max_keys = QueryOf(request, "max-keys");
  S3Answer answer;
  answer.headers = {{"Content-Type", "application/xml"}};
  answer.body = (history == histories_.end() ? current : history->second)
                    .List(QueryOf(request, "prefix"), QueryOf(request, "key-marker"),
                          QueryOf(request, "version-id-marker"),
                          max_keys.empty() ? 1000 : std::stoul(max_keys));
  return answer;
}

S3Answer ScriptedS3::GetObject(const S3RequestSeen& request, const StoredObject& object) const {
  S3Answer answer;
  answer.headers = {{"ETag", fmt::format("\"{}\"", object.etag)},
                    {"Last-Modified", "Wed, 12 Oct 2022 17:50:00 GMT"},
                    {"x-amz-storage-class", object.storage_class},
                    {"x-amz-request-id", "scripted"}};
  const bool with_checksums = request.Header("x-amz-checksum-mode") == "ENABLED";
  for (const auto& header : object.headers) {
    if (with_checksums || !header.first.starts_with("x-amz-checksum-"))
      answer.headers.push_back(header);
  }
  const std::string range = request.Header("range");
  if (request.method == "HEAD") {
    answer.declared_length = object.size();
    return answer;
  }
  if (range.empty()) {
    answer.body = object.Bytes(0, object.size());
    return answer;
  }
  const std::size_t dash = range.find('-');
  const std::uint64_t first = std::stoull(range.substr(6, dash - 6));
  if (first >= object.size()) return Error(416, "InvalidRange");
  const std::uint64_t last =
      std::min<std::uint64_t>(std::stoull(range.substr(dash + 1)), object.size() - 1);
  answer.status = 206;
  answer.body = object.Bytes(first, last - first + 1);
  answer.headers.emplace_back("Content-Range",
                              fmt::format("bytes {}-{}/{}", first, last, object.size()));
  return answer;
}

S3Answer ScriptedS3::ListObjects(const S3RequestSeen& request,
                                 const std::map<std::string, StoredObject>& bucket) const {
  const std::string prefix = QueryOf(request, "prefix");
  const std::string delimiter = QueryOf(request, "delimiter");
  std::string after = QueryOf(request, "start-after");
  if (!QueryOf(request, "continuation-token").empty()) {
    after = Unhexed(QueryOf(request, "continuation-token"));
  }
  const std::string max_keys = QueryOf(request, "max-keys");
  const std::size_t limit = max_keys.empty() ? 1000 : std::stoul(max_keys);
  Page page;
  for (auto it = bucket.upper_bound(after); it != bucket.end(); ++it) {
    const auto& [key, object] = *it;
    if (!key.starts_with(prefix)) continue;
    const std::size_t cut =
        delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
    const std::string shown =
        cut == std::string::npos ? key : key.substr(0, cut + delimiter.size());
    // Everything below a common prefix that was shown on the page before is behind `after`.
    if (cut != std::string::npos && (shown <= after || page.prefixes.contains(shown))) continue;
    if (page.count == limit) {
      page.truncated = true;
      break;
    }
    ++page.count;
    page.last = shown;
    if (cut != std::string::npos) {
      page.prefixes.insert(shown);
      continue;
    }
    page.contents += fmt::format(
        "<Contents><Key>{}</Key><LastModified>2022-10-12T17:50:00.000Z</LastModified>"
        "<ETag>&quot;{}&quot;</ETag><Size>{}</Size><StorageClass>{}</StorageClass></Contents>",
        UrlEncodedKey(key), object.etag, object.size(), object.storage_class);
  }
  S3Answer answer;
  answer.headers = {{"Content-Type", "application/xml"}};
  answer.body = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><Prefix>{}</Prefix><KeyCount>{}</KeyCount>"
      "<IsTruncated>{}</IsTruncated>",
      UrlEncodedKey(prefix), page.count, page.truncated);
  if (page.truncated) {
    answer.body +=
        fmt::format("<NextContinuationToken>{}</NextContinuationToken>", Hexed(page.last));
  }
  answer.body += page.contents;
  for (const std::string& shown : page.prefixes) {
    answer.body +=
        fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", UrlEncodedKey(shown));
  }
  answer.body += "</ListBucketResult>";
  return answer;
}

}  // namespace forebay::fakes
