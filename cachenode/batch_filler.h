#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "cachenode/byte_pace.h"
#include "cachenode/filler.h"
#include "cachenode/store/block_store.h"
#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/fill_outcome.h"

namespace forebay {

/// How a batch is filled.
struct BatchWay {
  /// What is in the store is read and compared with its checksums first; what does not match is
  /// dropped and fetched.
  bool verify = false;
  Urgency urgency = Urgency::kAsked;  ///< Not kReader.
  bool peers_only = false;            ///< What no other node has is kNotFound; S3 is not asked.
  bool copy = false;                  ///< They are further copies.
  /// Which preload or fill asks; 0 = none that says so. What was refused before one asks for the
  /// first time is tried again for it.
  std::uint64_t run = 0;
  BytePace* pace = nullptr;  ///< What is not here yet begins at this rate; null: at once.
};

/// Fills many blocks behind demand, for a preload or for the rest of a link. A reader of one of
/// them joins its fill, which then counts as demand; who asks again for what is on its way joins
/// it, too, and costs no GET.
class BatchFiller {
 public:
  BatchFiller(BlockStore& store, Filler& filler) : store_(store), filler_(filler) {}

  /// kFailed comes as the error.
  using Outcome = Result<FillOutcome>;

  /// One outcome for each block, in their order, when all of them have one; kTimeout for those that
  /// have none at `deadline`. When it ends, also because it was cancelled, what nobody else wants
  /// and S3 has not been asked for yet is not filled. kFilled: Contains is true at this moment.
  /// kKept of what neither moves nor copies blocks: it is cached here or at another node.
  Task<std::vector<Outcome>> Fill(std::vector<ColdBlock> blocks, BatchWay way, Deadline deadline);

 private:
  class Wishes;

  Task<Result<bool>> IsKept(ColdBlock cold, bool verify);
  Task<Outcome> Join(std::shared_ptr<FillLanding> landing, ColdBlock cold, Deadline deadline);

  void NoteRun(std::uint64_t run, const Uuid& link);

  BlockStore& store_;
  Filler& filler_;
  std::mutex mutex_;
  std::deque<std::uint64_t> runs_;  // that have asked, the latest last
};

}  // namespace forebay
