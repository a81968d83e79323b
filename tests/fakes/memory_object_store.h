#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "common/base/notifier.h"
#include "common/s3/object_store.h"

namespace forebay {

/// An object store in memory, for tests of what stands on ObjectStore. Every call yields to its
/// executor a few times, so that calls that run at once interleave. Thread-safe.
class MemoryObjectStore final : public ObjectStore {
 public:
  explicit MemoryObjectStore(std::string bucket, std::uint64_t seed = 1)
      : bucket_(std::move(bucket)), random_(seed) {}

  void Put(std::string key, std::uint64_t size, std::string etag = "");
  /// An object whose bytes matter; those of others are zeros.
  void PutText(const std::string& key, const std::string& text);
  /// What a HEAD of the object says; its time of change becomes another one.
  void SetPosix(const std::string& key, PosixAttributes posix);
  void Erase(const std::string& key);
  std::size_t size() const;
  /// Every LIST first asks `fault`; what it answers is the LIST's answer.
  using Fault = std::function<std::optional<Error>(const ListRequest&)>;
  void SetListFault(Fault fault);
  /// Every HEAD from now on; nothing = as it should be.
  void FailHeads(std::optional<Error> error);
  /// The same, but for the next `count`.
  void FailHeadsAfter(int count, Error error);
  /// From the `lists`-th LIST on, calls wait for Interrupt, as behind an S3 that does not answer.
  void HangAfter(std::uint64_t lists);
  /// The same for HEADs.
  void HangAfterHeads(std::uint64_t heads);
  /// Ends hanging calls with kUnavailable; later ones are answered again.
  void Interrupt();
  /// Waits until so many HEADs hang at the same time; false when they did not within 20 s.
  bool WaitUntilHeadsHang(std::uint64_t count) const;
  /// Waits until a call hangs; false when none did within 20 s.
  bool WaitUntilHanging() const;

  /// Answers pages in reverse order, as some bucket types do.
  void ListBackwards();
  /// Before each page come so many empty ones that promise more.
  void ListEmptyPages(int count);

  std::uint64_t lists() const;
  std::uint64_t heads() const;
  /// The most HEADs that hung at the same time.
  std::uint64_t most_heads_hanging() const;

  Task<Status> Get(GetRequest request, BodySink& sink, Deadline deadline) override;
  Task<Result<ListPage>> List(ListRequest request, Deadline deadline) override;
  Task<Result<VersionPage>> ListVersions(VersionsRequest request, Deadline deadline) override;
  Task<Result<ObjectHead>> Head(HeadRequest request, Deadline deadline) override;

 private:
  // Looked at with the lock held.
  bool WaitUntil(const std::function<bool()>& holds) const;
  Task<void> Yield();
  Task<bool> Hang(const std::optional<std::uint64_t>& after, const std::uint64_t& calls);
  Result<ListPage> Page(const ListRequest& request);

  const std::string bucket_;
  mutable std::mutex mutex_;
  std::map<std::string, ListedObject> objects_;
  std::map<std::string, PosixAttributes> posix_;
  Fault fault_;
  std::map<std::string, std::string> texts_;
  std::optional<Error> head_error_;
  int good_heads_ = 0;  // before head_error_
  bool backwards_ = false;
  int empty_pages_ = 0;
  std::optional<std::uint64_t> hang_after_;
  std::optional<std::uint64_t> hang_after_heads_;
  std::uint64_t interrupts_ = 0;
  bool hanging_ = false;
  std::uint64_t heads_hanging_ = 0;
  std::uint64_t most_heads_hanging_ = 0;
  Notifier interrupted_;
  std::uint64_t lists_ = 0;
  std::uint64_t heads_ = 0;
  std::uint64_t random_;
};

}  // namespace forebay
