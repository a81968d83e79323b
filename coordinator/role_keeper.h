#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/base/program.h"
#include "common/base/result.h"
#include "coordinator/election.h"
#include "coordinator/etcd_client.h"
#include "coordinator/etcd_state_store.h"
#include "coordinator/serving_coordinator.h"
#include "coordinator/standby.h"
#include "coordinator/state_directory.h"
#include "coordinator/trust_book.h"

namespace forebay {

/// One of several coordinators: a standby until it is elected, then the coordinator that serves,
/// and a standby again when it has lost its lease. Both roles listen on the same address, one after
/// the other, so that nobody stays connected to a coordinator in its former role.
class RoleKeeper {
 public:
  struct Parts {
    CoordinatorOptions options;  ///< Without `leadership`, which each term has anew.
    EtcdOptions etcd;
    const S3Config& s3;
    ProgramServices& services;
  };
  /// Becomes a standby, and waits a little until it leads or knows who does: a verb that follows is
  /// answered. Blocks. kInvalid, kInternal: the address or the state directory cannot be
  /// had. That etcd does not answer is no failure: it is said in /readyz, and waited for.
  static Result<std::unique_ptr<RoleKeeper>> Start(Parts parts);
  ~RoleKeeper();  ///< Calls Stop().
  RoleKeeper(const RoleKeeper&) = delete;
  RoleKeeper& operator=(const RoleKeeper&) = delete;

  /// Ends the role, then the lease: another one leads at once.
  void Stop();
  const std::string& address() const { return address_; }
  /// S3's credentials, if it serves.
  void ReloadCredentials();

 private:
  RoleKeeper(Parts parts, StateDirectory directory);
  Status BecomeStandby();
  Status BeginTerm(std::int64_t term);
  void ReadAgain();
  void AwaitLeader();
  void Run();
  void ServeTerm(std::int64_t term);
  void StandBy();
  void LearnCluster();
  void KeepTrust();
  StandbyOptions OptionsOfStandby() const;
  std::string NotReadyText() const;

  Parts parts_;
  const StateDirectory directory_;
  EtcdClient client_;
  EtcdStateStore store_;  // to read
  TrustBook members_;     // of a standby
  std::string address_;
  Uuid cluster_;  // zero until etcd has said it
  Election election_;
  TimePoint keep_trust_at_;
  int unanswered_begins_ = 0;  // one after the other
  std::unique_ptr<Standby> standby_;
  Metrics::Registration standby_metrics_;
  std::mutex mutex_;  // guards the next
  std::unique_ptr<ServingCoordinator> serving_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> again_{false};  // with a restored backup, or after a write in doubt
  std::thread thread_;
};

}  // namespace forebay
