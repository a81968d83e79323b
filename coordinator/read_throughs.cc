#include "coordinator/read_throughs.h"

#include <algorithm>

#include "common/model/limits.h"
#include "common/model/read_through.h"

namespace forebay {
namespace {

/// What one row may hold (MountJob.read_blocks).
constexpr int kMostBlocks = 1000;

}  // namespace

bool ReadThroughs::Add(const JobKey& key, const proto::MountJob& row, TimePoint now) {
  const std::uint64_t enough = BlocksOfReadThrough(row.link_blocks());
  if (enough == 0 || row.read_blocks().empty()) return false;
  if (key.job.empty() || key.job.size() > kMaxJobIdBytes) return false;
  if (jobs_.size() >= kMaxJobsShown && !jobs_.contains(key)) return false;
  Blocks& blocks = jobs_[key];
  ForgetOld(blocks, now);
  const int count = std::min(row.read_blocks_size(), kMostBlocks);
  for (int i = 0; i < count && blocks.size() < enough; ++i) {
    if (blocks_ >= kMaxBlocks && !blocks.contains(row.read_blocks(i))) break;
    if (blocks.insert_or_assign(row.read_blocks(i), now).second) ++blocks_;
  }
  return blocks.size() >= enough;
}

void ReadThroughs::ForgetOld(Blocks& blocks, TimePoint now) {
  blocks_ -= std::erase_if(
      blocks, [&](const auto& block) { return now - block.second > kReadThroughWindow; });
}

void ReadThroughs::Forget(const JobKey& key) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  blocks_ -= found->second.size();
  jobs_.erase(found);
}

void ReadThroughs::Tidy(TimePoint now) {
  for (auto& [key, blocks] : jobs_) ForgetOld(blocks, now);
  std::erase_if(jobs_, [](const auto& job) { return job.second.empty(); });
}

}  // namespace forebay
