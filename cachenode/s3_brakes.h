#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "cachenode/fill_brake.h"
#include "cachenode/request_pace.h"
#include "cachenode/urgency.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// All that holds a fill back before it may ask S3: what S3 takes for its link (RequestPace), then
/// the budget that an administrator set, or a pause, and last what this node may take of its
/// machine's network (FillBrake). A link that is throttled holds up no other. Thread-safe.
class S3Brakes {
 public:
  S3Brakes() = default;
  S3Brakes(const S3Brakes&) = delete;
  S3Brakes& operator=(const S3Brakes&) = delete;

  /// The administrator's.
  FillBrake& budget() { return budget_; }
  /// How many bytes a second may come over the network, from S3 and from other nodes; 0 = no bound.
  void SetBandwidth(double bytes_per_s);

  /// As FillBrake. Each request to S3 passes once: a retry again. Counts the request. `urgency`
  /// says how urgent the block is by now: it may be promoted between the two waits.
  /// `bytes` as FillBrake has it.
  Task<Status> Pass(Uuid link, BlockId block, UrgencyNow urgency, Deadline deadline,
                    std::optional<std::uint32_t> bytes = std::nullopt);
  /// For a block that another node is asked for: the network alone. What did not come is given
  /// back.
  Task<Status> PassNetwork(BlockId block, UrgencyNow urgency, Deadline deadline);
  void GiveBackNetwork(const BlockId& block) { network_.GiveBack(block.length); }
  void Promote(const Uuid& link, const BlockId& block, Urgency urgency);
  void Drop(const Uuid& link, const BlockId& block);
  bool Open(const Uuid& link);
  void Close();

  /// What S3 said to a request that had passed.
  void NoteAnswered(const Uuid& link);
  void NoteThrottled(const Uuid& link);
  /// Called when S3 begins to throttle a link: the coordinator is to hear of it at once. Set once,
  /// before anything passes.
  void OnNews(std::function<void()> on_news) { on_news_ = std::move(on_news); }

  struct Use {
    Uuid link;
    std::uint64_t requests = 0;   ///< That S3 was asked since this node began.
    std::uint64_t throttled = 0;  ///< Of these, answered with "slow down".
    std::uint64_t waiting = 0;    ///< That wait for the link's pace now.
    double limit = 0;             ///< Requests a second; 0 = none.
  };
  std::vector<Use> Uses() const;

  /// What the coordinator said just now: links that are not named have no limit.
  void SetLeases(const std::vector<RequestLease>& leases);
  /// Before anything passes: what the coordinator said to the run before this one. Until it speaks
  /// again, the node goes on from there (RequestPace).
  void Restore(const std::vector<RequestLease>& leases);

 private:
  struct OfLink {
    FillBrake brake{"S3 throttles the link's bucket, and other blocks came first"};
    std::atomic<std::uint64_t> requests{0};
    std::atomic<std::uint64_t> throttled{0};
    std::atomic<std::uint64_t> waiting{0};
    mutable std::mutex mutex;
    RequestPace pace;  // guarded by mutex
  };

  std::shared_ptr<OfLink> Of(const Uuid& link);
  std::map<Uuid, std::shared_ptr<OfLink>> All() const;
  static void Apply(OfLink& of);

  FillBrake budget_{
      "the budget for S3 leaves no room for this block: `forebay limit s3` raises it"};
  FillBrake network_{"max_bandwidth of this node leaves no room for this block"};
  std::function<void()> on_news_;
  mutable std::shared_mutex mutex_;
  bool closed_ = false;                            // guarded by mutex_
  std::map<Uuid, std::shared_ptr<OfLink>> links_;  // guarded by mutex_
};

}  // namespace forebay
