#include "coordinator/preload_ledger.h"

#include <algorithm>
#include <utility>

namespace forebay {

std::uint64_t PreloadLedger::Add(const PreloadPiece& piece) {
  Entry entry;
  entry.row = piece.row;
  entry.length = piece.block.length;
  entry.ends_object = piece.ends_object;
  window_.push_back(std::move(entry));
  return first_ + window_.size() - 1;
}

void PreloadLedger::CountBytes(PreloadCounts& counts, const Entry& entry) {
  switch (entry.outcome) {
    case FillOutcome::kFilled:
      ++counts.fetched_blocks;
      counts.fetched_bytes += entry.length;
      [[fallthrough]];
    case FillOutcome::kKept:
      counts.bytes += entry.length;
      break;
    case FillOutcome::kNoRoom:
      counts.not_kept_bytes += entry.length;
      break;
    case FillOutcome::kFailed:
      counts.failed_bytes += entry.length;
      break;
  }
}

void PreloadLedger::Settle(std::uint64_t number, FillOutcome outcome, std::string reason) {
  Entry& entry = window_[number - first_];
  entry.settled = true;
  entry.outcome = outcome;
  entry.reason = std::move(reason);
  CountBytes(live_, entry);
  while (!window_.empty() && window_.front().settled) {
    Entry passed = std::move(window_.front());
    window_.pop_front();
    ++first_;
    Pass(std::move(passed));
  }
}

void PreloadLedger::Pass(Entry entry) {
  CountBytes(behind_, entry);
  if (entry.outcome > worst_) {
    worst_ = entry.outcome;
    reason_ = std::move(entry.reason);
  }
  if (!entry.ends_object) return;
  const FillOutcome worst = std::exchange(worst_, FillOutcome::kKept);
  for (PreloadCounts* counts : {&live_, &behind_}) {
    if (worst == FillOutcome::kFailed) {
      ++counts->failed;
    } else if (worst == FillOutcome::kNoRoom) {
      ++counts->not_kept;
    } else {
      ++counts->objects;
    }
  }
  if (worst == FillOutcome::kFailed) failed_.push_back({entry.row, std::move(reason_)});
  reason_.clear();
  checkpoint_ = {first_, behind_};
}

std::vector<PreloadLedger::FailedObject> PreloadLedger::TakeFailed() {
  return std::exchange(failed_, {});
}

}  // namespace forebay
