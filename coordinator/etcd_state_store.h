#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "coordinator/etcd_client.h"
#include "coordinator/state_store.h"

namespace forebay {

/// The StateStore of coordinators that stand in for one another, in etcd, below EtcdClient's
/// prefix:
///
///     fence              "EPOCH.WRITE": the claim, and the last write that was made under it
///     state/KEY          'v' + the value, or 'p' + "ID COUNT SIZE" where it is large
///     parts/ID/0000…     the pieces of a large value
///     redo               a batch that is too large for one transaction, while it is being applied
///
/// Every transaction requires the `fence` that the one before it left, and leaves a new one. So the
/// writes of a replaced coordinator fail, a request that was repeated takes effect once, and one
/// that etcd makes only after we gave up on it comes too late to overwrite a newer one. A batch
/// beyond etcd's limits is first stored as a whole (`redo`, which is the moment when it is made),
/// then applied in pieces; the next Claim finishes what a crash left.
///
/// Errors beside StateStore's: kUnavailable, etcd does not answer, and whether a Write was made, or
/// will be, is not known. What the writer knows of the state may be wrong from then on: every
/// further Write fails so, until the state is claimed and read again.
class EtcdStateStore final : public StateStore {
 public:
  /// Claim succeeds only while `guard` holds: the caller leads. `in_doubt` is called at the first
  /// Write after a claim of which it is not known whether it was made, by the thread that writes;
  /// it must not block. `client` outlives it.
  EtcdStateStore(
      EtcdClient& client, std::optional<EtcdCondition> guard,
      std::function<void()> in_doubt = [] {});

  Result<std::uint64_t> ClaimAbove(std::uint64_t least) override;
  Result<std::optional<std::string>> Get(const std::string& key) override;
  Result<std::vector<std::pair<std::string, std::string>>> Scan(const std::string& prefix) override;
  Status Write(const StateBatch& batch, std::uint64_t fence) override;

 private:
  using Changes = std::map<std::string, std::optional<std::string>>;  // by key in etcd; encoded

  std::string At(std::string_view name) const { return client_.prefix() + std::string(name); }
  Status Commit(const std::vector<EtcdChange>& changes);
  Status CommitSlices(const Changes& changes);
  Result<std::string> Stage(std::string_view bytes);
  Status StageLarge(const StateBatch& batch, Changes& changes);
  Status WriteLarge(const Changes& changes);
  Status FinishRedo(const Changes& changes);
  Status Recover();
  Status DropOrphans();
  Status Settle();
  Result<std::string> Decode(const std::string& key, const std::string& stored);
  void NoteRefs(const Changes& changes);
  Error Fenced(const std::optional<EtcdPair>& found) const;
  Error InDoubt(const std::string& why);

  EtcdClient& client_;
  const std::optional<EtcdCondition> guard_;
  const std::function<void()> tell_in_doubt_;

  std::mutex write_mutex_;  // guards what follows; held over requests
  std::uint64_t epoch_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t staged_ = 0;
  std::string expected_;                     // the fence that the last transaction left
  std::map<std::string, std::string> refs_;  // key in etcd of each large value -> ID
  std::optional<Changes> redo_;              // made, and not yet applied
  bool in_doubt_ = false;                    // whether the last transaction was, or will be, made
};

}  // namespace forebay
