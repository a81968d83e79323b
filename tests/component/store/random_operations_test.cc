#include <algorithm>
#include <map>
#include <optional>

#include "cachenode/store/segment_format.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

// A third of what may come, so that it is full most of the time, whatever the seed.
constexpr std::uint64_t kCapacity = 16ULL << 20;

/// What the store must hold at most: blocks that were admitted and not evicted by us. The evictor
/// may have removed any of them.
class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) { Reopen(); }

  void Reopen() {
    if (store_) {
      counted_ = (*store_)->BlockCount();
      ASSERT_TRUE((*store_)->Close(Patience()).has_value());
      store_.reset();
    }
    BlockStoreOptions options = OneDirectory(dir_ / "cache", kCapacity, 2ULL << 20);
    options.link_in_use_for = std::chrono::seconds(0);
    options.rules = Rules();
    store_.emplace(options);
    ASSERT_TRUE(store_->open()) << store_->error().message;
    const auto& counters = (*store_)->counters();
    ASSERT_EQ(counters.recovered_blocks.load(), counted_.value_or(0))
        << "a restart keeps the cache";
    ASSERT_EQ(counters.dropped_at_recovery.load(), 0U);
    // The index shares the capacity, and may have grown by a table when it was closed.
    ASSERT_EQ((*store_)->BlockCount() + counters.evicted_blocks.load(), counted_.value_or(0));
    CheckPins();
  }

  /// Other folders are pinned from now on, as the coordinator would say it: first the rules, then
  /// the blocks that it knows, wherever they are.
  void Repin() {
    folders_.clear();
    for (int folder = 0; folder < kFolders; ++folder) {
      if (random_() % kFolders == 0) folders_.push_back(folder);
    }
    (*store_)->SetRules(Rules());
    const std::uint64_t version = ++pins_version_;
    for (std::uint8_t link = 0; link < 3; ++link) {
      std::vector<BlockId> blocks;
      for (std::uint64_t number = 0; number < kBlocks; ++number) {
        if (Numbered(number).version.high % 3 == link && IsPinned(number))
          blocks.push_back(Numbered(number));
      }
      ASSERT_TRUE(store_->TakePins(LinkNumber(link), version, blocks).has_value());
    }
    held_pinned_.clear();
    for (const auto& [block, link] : held_) {
      if (IsPinned(block.version.high) && (*store_)->Contains(block)) held_pinned_.insert(block);
    }
    CheckPins();
  }

  /// What was cached and is pinned is there, and the counts know it.
  void CheckPins() {
    std::uint64_t bytes = 0;
    for (const BlockId& block : held_pinned_) {
      ASSERT_TRUE((*store_)->Contains(block)) << "a pinned block is gone";
      bytes += block.length;
    }
    std::uint64_t counted = 0;
    for (const auto& [link, usage] : (*store_)->UsageByLink()) counted += usage.pinned_bytes;
    ASSERT_EQ(counted, bytes);
    for (const auto& [link, version] : (*store_)->PinsVersions()) ASSERT_EQ(version, pins_version_);
  }

  void Admit() {
    const BlockId block = AnyBlock();
    const Uuid link = LinkNumber(static_cast<std::uint8_t>(block.version.high % 3));
    const Status status = store_->Admit(link, block, PathOf(block.version.high));
    if (status) {
      held_[block] = link;
      if (IsPinned(block.version.high)) held_pinned_.insert(block);
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
      blocks.push_back(block);
      if (held_pinned_.contains(block)) continue;
      if ((*store_)->Contains(block)) ++present;
      held_.erase(block);
    }
    const Result<Evicted> evicted = store_->Evict(blocks);
    ASSERT_TRUE(evicted.has_value());
    ASSERT_EQ(evicted->blocks, present);
    for (const BlockId& block : blocks)
      ASSERT_EQ((*store_)->Contains(block), held_pinned_.contains(block));
  }

  void EvictLink() {
    const Uuid link = LinkNumber(static_cast<std::uint8_t>(random_() % 3));
    const std::uint64_t present = (*store_)->UsageByLink()[link].blocks;
    const auto is_of = [&](const BlockId& block) { return held_.at(block) == link; };
    const auto pinned = static_cast<std::uint64_t>(std::ranges::count_if(held_pinned_, is_of));
    const Result<Evicted> evicted = store_->EvictLink(link);
    ASSERT_TRUE(evicted.has_value());
    ASSERT_EQ(evicted->blocks, present - pinned);
    ASSERT_EQ(evicted->pinned_blocks, pinned);
    std::erase_if(held_, [&](const auto& held) {
      return held.second == link && !held_pinned_.contains(held.first);
    });
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

  // A block's number says in which folder its object lies. About one in twenty is pinned at a time.
  static constexpr int kFolders = 20;
  static std::string FolderOf(int folder) { return "f" + std::to_string(folder) + "/"; }
  static std::string PathOf(std::uint64_t number) {
    return FolderOf(static_cast<int>(number / 3 % kFolders)) + std::to_string(number);
  }
  bool IsPinned(std::uint64_t number) const {
    return std::ranges::find(folders_, static_cast<int>(number / 3 % kFolders)) != folders_.end();
  }
  std::vector<LinkRule> Rules() const {
    std::vector<LinkRule> rules;
    for (std::uint8_t link = 0; link < 3; ++link) {
      LinkRule& rule = rules.emplace_back();
      rule.link = LinkNumber(link);
      for (const int folder : folders_) rule.pins.push_back(FolderOf(folder));
    }
    return rules;
  }

  fakes::TempDir dir_;
  std::mt19937 random_;
  std::optional<TestStore> store_;
  std::optional<std::uint64_t> counted_;
  std::map<BlockId, Uuid> held_;
  std::set<BlockId> held_pinned_;
  std::vector<int> folders_;
  std::uint64_t pins_version_ = 0;
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
    } else if (dice < 988) {
      model.Evict();
    } else if (dice < 993) {
      model.Repin();
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
