#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/s3_request_seen.h"
#include "tests/fakes/stored_object.h"

namespace forebay::fakes {

/// An answer, good or bad.
struct S3Answer {
  using Headers = std::vector<std::pair<std::string, std::string>>;
  int status = 200;
  Headers headers;  ///< Content-Length comes by itself.
  std::string body;

  std::optional<std::uint64_t> declared_length;  ///< In place of the body's own length.
  bool no_length = false;                ///< No Content-Length: the body ends with the connection.
  bool silent = false;                   ///< Send nothing at all and keep the connection.
  std::optional<std::size_t> end_after;  ///< Close after so many bytes of the body …
  bool reset = false;                    ///< … with a RST.
  std::optional<std::size_t> stall_after;  ///< Stop after so many bytes of the body.
  std::chrono::milliseconds delay{0};      ///< Before the first byte.
  std::uint64_t bytes_per_s = 0;           ///< Of the body; 0 = as fast as it goes.
  bool hang_up = false;                    ///< Close the connection without a byte.
};

/// An S3 server for tests, on 127.0.0.1: an in-memory bucket store (path style; GET with Range and
/// If-Match, HEAD, ListObjectsV2, versions, plain PUT and DELETE) whose answers can be replaced one
/// by one. It looks at no signature: the tests against a real S3 do. Plain threads and blocking
/// sockets.
class ScriptedS3 {
 public:
  /// Replaces the answer to a request, or (nothing) lets the store give it.
  using Handler = std::function<std::optional<S3Answer>(const S3RequestSeen&)>;

  ScriptedS3();
  ~ScriptedS3();  ///< Calls Stop().
  ScriptedS3(const ScriptedS3&) = delete;
  ScriptedS3& operator=(const ScriptedS3&) = delete;

  /// No handler runs from here on: what it looks at may end. Closes every connection. Idempotent;
  /// not from a handler.
  void Stop();

  std::string endpoint() const;  ///< "http://127.0.0.1:PORT"

  /// Stores an object; returns its ETag without quotes. Makes the bucket.
  std::string Put(const std::string& bucket, const std::string& key, std::string body,
                  const std::string& storage_class = "STANDARD");
  /// Headers of a PUT that its GETs and HEADs bring back; checksums only to who asks for them.
  std::string PutWithHeaders(const std::string& bucket, const std::string& key, std::string body,
                             S3Answer::Headers headers);
  /// An object of so many bytes that nobody stores (StoredObject::made_bytes).
  void PutMade(const std::string& bucket, const std::string& key, std::uint64_t bytes);
  void Remove(const std::string& bucket, const std::string& key);
  /// From now on what is overwritten or deleted there is kept behind the current version.
  void KeepVersions(const std::string& bucket);
  /// Archived objects can be read from now on, as they are for some days when somebody had them
  /// restored: their class, and what LIST says, stays.
  void RestoreArchived() { restored_ = true; }

  /// The next request gets this answer; further ones queue behind it.
  void Next(S3Answer answer);
  /// Asked for each request that finds no queued answer.
  void SetHandler(Handler handler);
  /// What the store itself would answer, to be bent by a test.
  S3Answer Truth(const S3RequestSeen& request) const;

  /// Requests are not remembered from now on: for millions of them.
  void ForgetRequests();
  std::vector<S3RequestSeen> requests() const;
  std::size_t connections() const { return accepted_.load(); }  ///< Accepted so far.
  /// Waits until a client has closed so many connections; false after 10 s.
  bool WaitForClosed(std::size_t count) const;
  bool WaitForRequests(std::size_t count) const;

  /// An error answer as S3 writes it.
  static S3Answer Error(int status, const std::string& code, const std::string& message = "");

 private:
  struct Connection {
    int fd = -1;
    std::thread thread;
  };

  void Accept();
  void Serve(int fd);
  S3Answer AnswerTo(const S3RequestSeen& request);
  S3Answer Change(const S3RequestSeen& request);  // PUT, DELETE
  S3Answer GetObject(const S3RequestSeen& request, const StoredObject& object) const;
  S3Answer ListObjects(const S3RequestSeen& request,
                       const std::map<std::string, StoredObject>& bucket) const;
  S3Answer ListVersions(const S3RequestSeen& request) const;
  // Under the mutex.
  void Store(const std::string& bucket, const std::string& key, StoredObject object);
  // False when the connection must end.
  bool Send(int fd, const S3RequestSeen& request, const S3Answer& answer);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> restored_{false};
  std::atomic<std::size_t> accepted_{0};
  std::atomic<std::size_t> closed_{0};
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, StoredObject>> buckets_;
  std::map<std::string, ObjectHistory> histories_;  // of those with versioning
  std::uint64_t versions_ = 0;
  std::deque<S3Answer> next_;
  Handler handler_;
  bool remembers_ = true;
  std::vector<S3RequestSeen> requests_;
  std::vector<Connection> connections_;
  std::uint64_t etags_ = 0;
  std::thread acceptor_;
};

}  // namespace forebay::fakes
