#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include "common/model/record_size.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kLength = 1 << 20;

std::uint64_t AllocatedBelow(const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const auto& file : SegmentsBelow(directory)) {
    struct stat found{};
    EXPECT_EQ(::stat(file.c_str(), &found), 0);
    bytes += static_cast<std::uint64_t>(found.st_blocks) * 512;
  }
  return bytes;
}

class StoreSpaceTest : public ::testing::Test {
 protected:
  BlockStoreOptions Options(std::chrono::seconds in_use_for) {
    BlockStoreOptions options = OneDirectory(dir_ / "cache", 16ULL << 20, 4ULL << 20);
    options.link_in_use_for = in_use_for;
    return options;
  }

  /// Admits blocks from `first` on until one is refused; answers how many were taken.
  static std::uint64_t Fill(TestStore& store, const Uuid& link, std::uint64_t first) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const Status status = store.Admit(link, BlockNumber(first + i, kLength));
      if (status) continue;
      EXPECT_EQ(status.error().code, Code::kOverloaded) << status.error().message;
      return i;
    }
    ADD_FAILURE() << "it never fills up";
    return 0;
  }

  /// As Options, and what is lost is counted by its reason.
  BlockStoreOptions CountingOptions(std::chrono::seconds in_use_for) {
    BlockStoreOptions options = Options(in_use_for);
    options.on_loss = [this](const BlockId&, BlockLoss loss) {
      const std::scoped_lock lock(mutex_);
      ++lost_[loss];
    };
    return options;
  }

  fakes::TempDir dir_;
  std::mutex mutex_;
  std::map<BlockLoss, std::uint64_t> lost_;
};

TEST_F(StoreSpaceTest, LinkInUseIsNotReplacedAndItsNewcomersAreNotKept) {
  TestStore store(Options(3600s));
  const std::uint64_t kept = Fill(store, LinkNumber(1), 0);
  EXPECT_GE(kept, 10U);
  EXPECT_FALSE(store.Admit(LinkNumber(2), BlockNumber(5000, kLength)).has_value());
  EXPECT_EQ(store->BlockCount(), kept);
  EXPECT_EQ(store->counters().refused_blocks.load(), 2U);
  EXPECT_EQ(store->counters().evicted_blocks.load(), 0U);
  for (std::uint64_t i = 0; i < kept; ++i) EXPECT_TRUE(store.Serves(BlockNumber(i, kLength)));
}

TEST_F(StoreSpaceTest, IdleLinkGivesWayOldestBlocksFirst) {
  TestStore store(Options(0s));
  const std::uint64_t kept = Fill(store, LinkNumber(1), 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(store.Admit(LinkNumber(2), BlockNumber(5000 + i, kLength)).has_value());
  }
  const std::uint64_t evicted = store->counters().evicted_blocks.load();
  EXPECT_GE(evicted, 4U);
  EXPECT_LE(evicted, 6U) << "no more than needed";
  for (std::uint64_t i = 0; i < kept; ++i) {
    EXPECT_EQ(store->Contains(BlockNumber(i, kLength)), i >= evicted) << i;
  }
  EXPECT_EQ(store->EvictedBytesByLink().at(LinkNumber(1)), store->counters().evicted_bytes.load());
  EXPECT_LE(store->Disks()[0].used_bytes, store->Disks()[0].capacity_bytes);
}

TEST_F(StoreSpaceTest, WhatTakesFreeRoomOnlyEvictsNothing) {
  TestStore store(Options(0s));
  ASSERT_TRUE(store->HasFreeRoom(LinkNumber(2), kLength));
  std::uint64_t kept = 0;
  while (store.Admit(LinkNumber(1), BlockNumber(kept, kLength), "", Room::kFreeOnly)) ++kept;
  EXPECT_GE(kept, 10U);
  EXPECT_FALSE(store->HasFreeRoom(LinkNumber(2), RecordDiskBytes(kLength)));
  const Status refused =
      store.Admit(LinkNumber(2), BlockNumber(5000, kLength), "", Room::kFreeOnly);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  EXPECT_EQ(store->BlockCount(), kept);
  EXPECT_EQ(store->counters().evicted_blocks.load(), 0U);
  EXPECT_TRUE(store.Admit(LinkNumber(2), BlockNumber(5000, kLength)).has_value())
      << "the link is idle: it gives way to others";
}

TEST_F(StoreSpaceTest, ACopyTakesWhatIsIdleAndNothingOfItsOwnLink) {
  TestStore store(Options(0s));
  std::uint64_t kept = 0;
  while (store.Admit(LinkNumber(1), BlockNumber(kept, kLength), "", Room::kFreeOnly)) ++kept;
  const Status own =
      store.Admit(LinkNumber(1), BlockNumber(4000, kLength), "", Room::kMayEvictIdle);
  ASSERT_FALSE(own.has_value());
  EXPECT_EQ(own.error().code, Code::kOverloaded);
  EXPECT_EQ(store->BlockCount(), kept);
  EXPECT_TRUE(
      store.Admit(LinkNumber(2), BlockNumber(5000, kLength), "", Room::kMayEvictIdle).has_value())
      << "the link is idle";
}

TEST_F(StoreSpaceTest, APinDrivesOthersOutForTheFirstCopyAlone) {
  TestStore store(Options(3600s));
  store->SetRules({{.link = LinkNumber(2), .pins = {"kept/"}}});
  for (std::uint64_t i = 0;
       store.Admit(LinkNumber(1), BlockNumber(i, kLength), "", Room::kFreeOnly);)
    ++i;
  const BlockId block = BlockNumber(5000, kLength);
  EXPECT_FALSE(store.Admit(LinkNumber(2), block, "kept/a", Room::kMayEvictIdle).has_value());
  EXPECT_EQ(store->counters().evicted_blocks.load(), 0U);
  EXPECT_TRUE(store.Admit(LinkNumber(2), block, "kept/a").has_value());
}

TEST_F(StoreSpaceTest, ThereIsNoFreeRoomBeyondAQuota) {
  TestStore store(Options(0s));
  store->SetRules({{.link = LinkNumber(1), .max_bytes = 3ULL * kLength}});
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(store->HasFreeRoom(LinkNumber(1), kLength));
    ASSERT_TRUE(
        store.Admit(LinkNumber(1), BlockNumber(i, kLength), "", Room::kFreeOnly).has_value());
  }
  EXPECT_FALSE(store->HasFreeRoom(LinkNumber(1), kLength));
  EXPECT_TRUE(store->HasFreeRoom(LinkNumber(2), kLength));
  // A pin makes room among the link's own blocks, but not for what may evict nothing.
  store->SetRules({{.link = LinkNumber(1), .max_bytes = 3ULL * kLength, .pins = {"kept/"}}});
  EXPECT_FALSE(
      store.Admit(LinkNumber(1), BlockNumber(7, kLength), "kept/a", Room::kFreeOnly).has_value());
  EXPECT_TRUE(store.Admit(LinkNumber(1), BlockNumber(7, kLength), "kept/a").has_value());
}

TEST_F(StoreSpaceTest, SaysWhenRoomWasMadeThatNoBlockWaitedFor) {
  BlockStoreOptions options = Options(0s);
  std::uint64_t told = 0;
  options.on_room = [&told] { ++told; };
  TestStore store(options);
  auto has_grown = [&, last = store->RoomVersion()]() mutable {
    return std::exchange(last, store->RoomVersion()) < store->RoomVersion();
  };
  const Uuid link = LinkNumber(1);
  store->SetRules({{.link = link, .max_bytes = 3ULL * kLength}});
  EXPECT_FALSE(has_grown()) << "less than before";
  EXPECT_TRUE(store->QuotaLeaves(link, kLength));
  for (std::uint64_t i = 0; i < 3; ++i)
    ASSERT_TRUE(store.Admit(link, BlockNumber(i, kLength)).has_value());
  EXPECT_FALSE(store->QuotaLeaves(link, kLength));
  ASSERT_TRUE(store.Evict({BlockNumber(0, kLength)}, {.dry_run = true}).has_value());
  EXPECT_FALSE(has_grown());
  ASSERT_TRUE(store.Evict({BlockNumber(0, kLength)}).has_value());
  EXPECT_TRUE(has_grown()) << "an eviction";
  store->SetRules({{.link = link}});
  EXPECT_TRUE(has_grown()) << "a quota";
  store->SetRules({{.link = link}});
  EXPECT_FALSE(has_grown()) << "the same again";
  store->SetRules({{.link = link, .priority = LinkPriority::kHigh}});
  EXPECT_TRUE(has_grown()) << "a priority";
  ASSERT_TRUE(store.TakePins(link, 1, {BlockNumber(1, kLength)}).has_value());
  EXPECT_FALSE(has_grown());
  ASSERT_TRUE(store.TakePins(link, 2, {}).has_value());
  EXPECT_TRUE(has_grown()) << "a pin that ended";
  Fill(store, LinkNumber(2), 1000);
  EXPECT_FALSE(has_grown()) << "what made way for a block is gone again";
  EXPECT_EQ(told, store->RoomVersion());
}

TEST_F(StoreSpaceTest, SaysOfEachBlockThatGoesWhyItWent) {
  TestStore store(CountingOptions(0s));
  Fill(store, LinkNumber(1), 0);
  EXPECT_TRUE(lost_.empty()) << "a refusal is no loss of the store's";
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(store.Admit(LinkNumber(2), BlockNumber(5000 + i, kLength)).has_value());
  }
  std::map<BlockLoss, std::uint64_t> expected = {
      {BlockLoss::kReplaced, store->counters().evicted_blocks.load()}};
  EXPECT_EQ(lost_, expected);
  ASSERT_TRUE(store->SetRules({{.link = LinkNumber(2), .max_bytes = 3ULL * kLength}}));
  ASSERT_EQ(fakes::RunTask(store->TrimToQuotas())->blocks, 1U);
  expected[BlockLoss::kOverQuota] = 1;
  EXPECT_EQ(lost_, expected);
  EXPECT_EQ(store.Evict({BlockNumber(5003, kLength)}, {.dry_run = true})->blocks, 1U);
  EXPECT_EQ(lost_, expected);
  EXPECT_EQ(store.Evict({BlockNumber(5003, kLength)})->blocks, 1U);
  EXPECT_EQ(store.EvictLink(LinkNumber(2))->blocks, 2U);
  expected[BlockLoss::kAsked] = 3;
  EXPECT_EQ(lost_, expected);
}

TEST_F(StoreSpaceTest, LongestUnusedLinkGivesWayFirst) {
  TestStore store(Options(0s));
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(store.Admit(LinkNumber(1), BlockNumber(i, kLength)).has_value());
    ASSERT_TRUE(store.Admit(LinkNumber(2), BlockNumber(100 + i, kLength)).has_value());
  }
  EXPECT_TRUE(store.Serves(BlockNumber(0, kLength))) << "a read is a use: link 2 is older now";
  const std::uint64_t taken = Fill(store, LinkNumber(3), 200);
  EXPECT_GE(taken, 10U);
  EXPECT_EQ(store->UsageByLink().count(LinkNumber(2)), 0U);
}

TEST_F(StoreSpaceTest, EvictedBytesComeBackFromTheFileSystem) {
  TestStore store(Options(3600s));
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(store.Admit(LinkNumber(1), BlockNumber(i, kLength)).has_value());
  }
  const std::uint64_t before = AllocatedBelow(dir_ / "cache");
  const Result<Evicted> evicted =
      store.Evict({BlockNumber(1, kLength), BlockNumber(2, kLength), BlockNumber(77, kLength)});
  ASSERT_TRUE(evicted.has_value());
  EXPECT_EQ(evicted->blocks, 2U);
  EXPECT_EQ(evicted->bytes, 2U * (kLength + 4096));
  EXPECT_LE(AllocatedBelow(dir_ / "cache"), before - evicted->bytes + 65536);
  EXPECT_EQ(store->UsageByLink().at(LinkNumber(1)).bytes, 6U * kLength);
  ASSERT_TRUE(store.EvictLink(LinkNumber(1)).has_value());
  EXPECT_EQ(AllocatedBelow(dir_ / "cache"), 0U);
  EXPECT_EQ(store->Disks()[0].used_bytes, 0U);
  EXPECT_EQ(store->BlockCount(), 0U);
}

TEST_F(StoreSpaceTest, SmallerCapacityEvictsTheOldestAtStart) {
  {
    TestStore store(OneDirectory(dir_ / "cache", 64ULL << 20));
    for (std::uint64_t i = 0; i < 40; ++i) {
      ASSERT_TRUE(store.Admit(LinkNumber(1), BlockNumber(i, kLength)).has_value());
    }
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore store(Options(3600s));
  ASSERT_TRUE(store.open());
  EXPECT_LE(store->Disks()[0].used_bytes, 16ULL << 20);
  EXPECT_GE(store->BlockCount(), 10U);
  EXPECT_FALSE(store.Serves(BlockNumber(0, kLength)));
  EXPECT_TRUE(store.Serves(BlockNumber(39, kLength)));
}

TEST_F(StoreSpaceTest, NewBlocksGoToTheDiskWithTheLargestFreeShare) {
  BlockStoreOptions options = OneDirectory(dir_ / "small", 20ULL << 20);
  options.dirs.push_back({dir_ / "large", 80ULL << 20});
  options.segment_bytes = 8ULL << 20;
  {
    TestStore store(options);
    for (std::uint64_t i = 0; i < 50; ++i) {
      ASSERT_TRUE(store.Admit(LinkNumber(1), BlockNumber(i, kLength)).has_value());
    }
    const auto disks = store->Disks();
    const double small = static_cast<double>(disks[0].used_bytes) / (20 << 20);
    const double large = static_cast<double>(disks[1].used_bytes) / (80 << 20);
    EXPECT_NEAR(small, large, 0.15);
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore store(options);
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_TRUE(store.Serves(BlockNumber(i, kLength)));
  EXPECT_EQ(store->UsageByLink().at(LinkNumber(1)).blocks, 50U);
  EXPECT_EQ(store.EvictLink(LinkNumber(1))->blocks, 50U);
}

TEST_F(StoreSpaceTest, FileSystemFilledByOthersIsNeverAnErrorToReaders) {
  const std::string mount = dir_ / "mount";
  std::filesystem::create_directory(mount);
  ASSERT_EQ(::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=64m"), 0) << "needs root";
  {
    BlockStoreOptions options = OneDirectory(mount + "/cache", 48ULL << 20, 8ULL << 20);
    options.link_in_use_for = 0s;
    TestStore store(options);
    for (std::uint64_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(store.Admit(LinkNumber(1), BlockNumber(i, kLength)).has_value());
    }
    {
      std::ofstream other(mount + "/other", std::ios::binary);
      const std::string megabyte(1 << 20, 'x');
      while (other.write(megabyte.data(), static_cast<std::streamsize>(megabyte.size())).flush()) {
      }
    }
    // Nothing but the other link's blocks may give way: room is made, then the block is taken.
    EXPECT_TRUE(store.Admit(LinkNumber(2), BlockNumber(100, kLength)).has_value());
    EXPECT_GT(store->counters().evicted_blocks.load(), 0U);
    EXPECT_EQ(store->Disks()[0].state, DiskState::kOk);
    EXPECT_TRUE(store.Serves(BlockNumber(19, kLength)));
    EXPECT_TRUE(store.Serves(BlockNumber(100, kLength)));
    // A link does not replace its own blocks: served without being kept, not an error.
    std::filesystem::resize_file(mount + "/other", 0);
    std::filesystem::remove(mount + "/other");
    EXPECT_EQ(store->counters().write_errors.load(), 0U);
    EXPECT_TRUE(store->Close(Patience()).has_value());
  }
  EXPECT_EQ(::umount(mount.c_str()), 0);
}

}  // namespace
}  // namespace forebay
