#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "coordinator/etcd_client.h"

namespace forebay {

/// Which of several coordinators leads, by etcd:
///
///     leader               the address of the one that leads, with its lease
///     coordinators/ADDR    each one that runs, with its lease
///
/// Every coordinator renews one lease. The first that writes `leader` leads until its lease ends;
/// the others watch that key. Between renewals a leader counts for itself: from the moment when it
/// sent the last renewal that etcd granted it leads for kLease, which is over before etcd lets
/// another one lead. What a leader writes is fenced all the same (EtcdStateStore): an old one that
/// does not know it yet changes nothing.
///
/// Thread-safe; its work is done by one thread of its own.
class Election {
 public:
  /// A takeover within 5 s: the lease, half a second in which etcd ends it, and the loading of the
  /// state.
  static constexpr std::chrono::seconds kLease{3};
  static constexpr std::chrono::milliseconds kRenewEvery{700};

  /// `client` outlives it.
  explicit Election(EtcdClient& client) : client_(client) {}
  ~Election();  ///< Calls Stop().
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  /// `address`: where others reach this coordinator.
  void Start(std::string address);
  /// Gives up the lease, so that another one leads at once. Idempotent.
  void Stop();

  /// A number for each time that somebody was elected; 0 while this coordinator does not lead.
  std::int64_t Term() const;
  bool Leads() const { return Term() != 0; }
  /// What holds in etcd during this term, for EtcdStateStore.
  EtcdCondition Guard(std::int64_t term) const;
  /// Waits until Term() is another one than `term`, for `patience` at most.
  void WaitWhile(std::int64_t term, Duration patience) const;
  /// This coordinator cannot do its work: lets another one lead, and does not stand for a while.
  void Resign();

  /// The address of the one that leads, as last heard; "" when nobody does, or that is not known.
  std::string Leader() const;
  /// Why it is not known; "" when it is.
  std::string Trouble() const;
  /// The others that run. Blocks.
  Result<std::vector<std::string>> Others();

 private:
  /// This coordinator led until its lease was over, while it waits for etcd to say so. Under
  /// mutex_.
  bool LostTouch() const;
  void Run();
  Status Renew();
  Status Campaign();
  void Note(const Status& status);
  void SetTerm(std::int64_t term);
  std::string LeaderKey() const { return client_.prefix() + "leader"; }

  EtcdClient& client_;
  std::string address_;  // since Start
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> resign_{false};

  // Of the thread alone.
  std::int64_t lease_ = 0;
  std::int64_t revision_ = 0;  // of etcd, when the leader was last looked at
  TimePoint stand_after_;

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  std::int64_t term_ = 0;
  TimePoint leads_until_;
  std::string leader_;
  std::string trouble_ = "etcd was not asked yet";
};

}  // namespace forebay
