#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "coordinator/state_store.h"
#include "proto/coordinator.pb.h"

namespace forebay {

enum class TaskPhase : std::uint8_t { kRunning = 0, kDone = 1, kFailed = 2, kCancelled = 3 };

/// The background tasks and how far they are. A task is persisted when it begins and when it ends,
/// in the batch of the change it belongs to. Its progress is persisted by those that can go on from
/// there (preloads), and lives in memory alone for the others. Thread-safe.
class TaskBook {
 public:
  static constexpr int kFailuresKept = 1000;
  /// Tasks that ended which are kept: the latest of each kind.
  static constexpr std::size_t kEndedKept = 100;
  /// Of periodic refreshes that found nothing new, which are counted apart: a link that is listed
  /// every minute must not push out what somebody asked for.
  static constexpr std::size_t kUneventfulKept = 10;

  /// Takes the persisted tasks. Blocks.
  Status Load(StateStore& store);

  /// A new running task, not yet known here: put it into a batch, then Commit.
  static proto::TaskState Begin(std::string kind, std::string target);
  /// `task` as it is when it ended; `error` empty = done.
  static proto::TaskState Ended(proto::TaskState task, const std::string& error);
  /// `task` as it is when somebody ended it; `reason` says who or what.
  static proto::TaskState Cancelled(proto::TaskState task, const std::string& reason);
  /// A listing of a whole link counted keys while it ran, hidden ones among them.
  static void CountListed(proto::TaskState& task, const proto::GenerationInfo& listed);
  static void Put(StateBatch& batch, const proto::TaskState& task);

  /// Shows a task whose batch was written, and forgets the oldest of those that ended, by the
  /// bounds above.
  void Commit(const proto::TaskState& task);

  std::optional<proto::TaskState> Find(const std::string& id) const;
  /// kNotFound: nobody knows it (any more).
  Result<proto::TaskState> Get(const std::string& id) const;
  /// Oldest first.
  std::vector<proto::TaskState> All() const;
  /// Shows how far a running task is, not yet persisted; one that ended stays as it is.
  void Show(const proto::TaskState& task);

  /// Adds to the report of what failed in a task; the first kFailuresKept are kept.
  void AddFailures(const std::string& id, const std::vector<proto::TaskFailure>& failures);
  proto::TaskFailures Failures(const std::string& id) const;
  void ClearFailures(const std::string& id);
  /// Puts the report into a batch.
  void PutFailures(StateBatch& batch, const std::string& id) const;
  void Progress(const std::string& id, std::uint64_t done, std::uint64_t bytes);
  /// Shows what a running task waits for, "" = nothing. True: whether it waits is another answer
  /// now.
  bool ShowWaiting(const std::string& id, const std::string& why);
  /// Failed tasks that ended at or after `since_unix_s`, oldest first.
  std::vector<proto::TaskState> FailedSince(std::int64_t since_unix_s) const;
  /// Keys of tasks that are no longer shown; a batch may delete them.
  std::vector<std::string> TakeExpiredKeys();

 private:
  Status LoadFailures(StateStore& store);
  void ForgetOldest(const proto::TaskState& like);

  mutable std::mutex mutex_;
  std::map<std::string, proto::TaskState> tasks_;
  std::map<std::string, proto::TaskFailures> failures_;  // by task id
  std::vector<std::string> expired_keys_;
};

}  // namespace forebay
