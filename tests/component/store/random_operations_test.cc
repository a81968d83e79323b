#include <algorithm>
#include <map>
#include <optional>

#include "cachenode/store/segment_format.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

constexpr std::uint64_t kCapacity = 24ULL << 20;

/// What the store must hold at most: blocks that were admitted and not evicted by us. The evictor
/// may have removed any of them.
class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) { Reopen(); }

  void Reopen() {
    if (store_) {
      counted_ = (*store_)->BlockCount();
      ASSERT_TRUE((*store_)->Close().has_value());
      store_.reset();
    }
    BlockStoreOptions options = OneDirectory(dir_ / "cache", kCapacity, 2ULL << 20);
    options.link_in_use_for = std::chrono::seconds(0);
    store_.emplace(options);
    ASSERT_TRUE(store_->open()) << store_->error().message;
    ASSERT_EQ((*store_)->BlockCount(), counted_.value_or(0)) << "a restart keeps the cache";
    ASSERT_EQ((*store_)->counters().dropped_at_recovery.load(), 0U);
  }

  void Admit() {
    const BlockId block = AnyBlock();
    const Uuid link = LinkNumber(static_cast<std::uint8_t>(block.version.high % 3));
    const Status status = store_->Admit(link, block);
    if (status) {
      held_[block] = link;
      ASSERT_TRUE((*store_)->Contains(block));
    } else {
      ASSERT_EQ(status.error().code, Code::kOverloaded) << status.error().message;
    }
  }

  void Read() {
    const BlockId block = AnyBlock();
    const auto begin = static_cast<std::uint32_t>(random_() % block.length);
    const auto end = begin + 1 + static_cast<std::uint32_t>(random_() % (block.length - begin));
    const bool contained = (*store_)->Contains(block);
    ASSERT_EQ(store_->ServesRange(block, {begin, end}), contained);
    if (contained) ASSERT_TRUE(held_.contains(block));
  }

  void Evict() {
    std::vector<BlockId> blocks;
    std::uint64_t present = 0;
    for (int i = 0; i < 5; ++i) {
      const BlockId block = AnyBlock();
      if (std::ranges::find(blocks, block) != blocks.end()) continue;
      if ((*store_)->Contains(block)) ++present;
      blocks.push_back(block);
      held_.erase(block);
    }
    const Result<Evicted> evicted = store_->Evict(blocks);
    ASSERT_TRUE(evicted.has_value());
    ASSERT_EQ(evicted->blocks, present);
    for (const BlockId& block : blocks) ASSERT_FALSE((*store_)->Contains(block));
  }

  void EvictLink() {
    const Uuid link = LinkNumber(static_cast<std::uint8_t>(random_() % 3));
    const std::uint64_t present = (*store_)->UsageByLink()[link].blocks;
    const Result<Evicted> evicted = store_->EvictLink(link);
    ASSERT_TRUE(evicted.has_value());
    ASSERT_EQ(evicted->blocks, present);
    ASSERT_FALSE((*store_)->UsageByLink().contains(link));
    std::erase_if(held_, [&](const auto& held) { return held.second == link; });
  }

  void CheckCounts() {
    const std::vector<DiskUsage> disks = (*store_)->Disks();
    ASSERT_LE(disks[0].used_bytes, disks[0].capacity_bytes);
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    for (const auto& [link, usage] : (*store_)->UsageByLink()) {
      blocks += usage.blocks;
      bytes += usage.bytes;
    }
    ASSERT_EQ(blocks, (*store_)->BlockCount());
    ASSERT_LE(bytes, disks[0].used_bytes);
    ASSERT_LE(blocks, held_.size());
  }

  /// Every single block: what is held is right, what was evicted is gone.
  void CheckAll() {
    std::uint64_t served = 0;
    std::uint64_t on_disk = 0;
    for (std::uint64_t number = 0; number < kBlocks; ++number) {
      const BlockId block = Numbered(number);
      if (!store_->Serves(block)) continue;
      ASSERT_TRUE(held_.contains(block));
      ++served;
      on_disk += RecordDiskBytes(block.length);
    }
    ASSERT_EQ(served, (*store_)->BlockCount());
    ASSERT_EQ(on_disk, (*store_)->Disks()[0].used_bytes) << "no space is lost or counted twice";
  }

  std::mt19937& random() { return random_; }
  std::uint64_t evicted() { return (*store_)->counters().evicted_blocks.load(); }

 private:
  static constexpr std::uint64_t kBlocks = 600;

  static BlockId Numbered(std::uint64_t number) {
    // Small objects, whole cells, several cells: 500 B to 300 KiB.
    constexpr std::array<std::uint32_t, 6> kLengths = {500,    5'000,   40'000,
                                                       65'536, 131'073, 300'000};
    return BlockNumber(number, kLengths[number % kLengths.size()]);
  }
  BlockId AnyBlock() { return Numbered(random_() % kBlocks); }

  fakes::TempDir dir_;
  std::mt19937 random_;
  std::optional<TestStore> store_;
  std::optional<std::uint64_t> counted_;
  std::map<BlockId, Uuid> held_;
};

TEST(StoreRandomOperations, NeverAWrongByteAndNeverMoreThanItsCapacity) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Model model(seed);
  std::uint64_t evictions = 0;
  for (int step = 0; step < 4'000 && !::testing::Test::HasFatalFailure(); ++step) {
    const std::uint32_t dice = model.random()() % 1000;
    if (dice < 480) {
      model.Admit();
    } else if (dice < 950) {
      model.Read();
    } else if (dice < 993) {
      model.Evict();
    } else if (dice < 996) {
      model.EvictLink();
    } else {
      evictions += model.evicted();
      model.CheckAll();
      model.Reopen();
    }
    model.CheckCounts();
  }
  evictions += model.evicted();
  model.CheckAll();
  model.Reopen();
  model.CheckAll();
  EXPECT_GT(evictions, 0U) << "the cache never filled up: this test shows less than it should";
}

}  // namespace
}  // namespace forebay
