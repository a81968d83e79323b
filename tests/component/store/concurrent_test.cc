#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <thread>

#include "common/base/executors.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

constexpr std::uint64_t kBlocks = 60;

BlockId Sample(std::uint64_t number) {
  return BlockNumber(number, static_cast<std::uint32_t>(1000 + number * 3001));
}

TEST(StoreConcurrency, ReadersAdmissionsAndEvictionsNeverGiveAWrongByte) {
  fakes::TempDir dir;
  BlockStoreOptions options = OneDirectory(dir / "cache", 12ULL << 20, 1ULL << 20);
  options.link_in_use_for = std::chrono::seconds(0);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  {
    TestStore store(options);
    ASSERT_TRUE(store.open());
    std::vector<std::thread> threads;
    threads.reserve(6);
    std::atomic<std::uint64_t> served{0};
    for (unsigned t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(seed + t);
        for (int step = 0; step < 400; ++step) {
          const BlockId block = Sample(random() % kBlocks);
          const Uuid link = LinkNumber(static_cast<std::uint8_t>(block.version.high % 2));
          const unsigned dice = random() % 100;
          if (dice < 35) {
            const Status status = store.Admit(link, block);
            if (!status)
              EXPECT_EQ(status.error().code, Code::kOverloaded) << status.error().message;
          } else if (dice < 90) {
            const auto begin = static_cast<std::uint32_t>(random() % block.length);
            if (store.ServesRange(block, {begin, block.length})) ++served;
          } else if (dice < 99) {
            EXPECT_TRUE(store.Evict({block, Sample(random() % kBlocks)}).has_value());
          } else {
            EXPECT_TRUE(store.EvictLink(link).has_value());
          }
          const DiskUsage usage = store->Disks()[0];
          EXPECT_LE(usage.used_bytes, usage.capacity_bytes);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(served.load(), 0U);
    EXPECT_EQ(store->counters().checksum_failures.load(), 0U)
        << "no reader ever saw space that was freed under it";
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  TestStore again(options);
  ASSERT_TRUE(again.open());
  EXPECT_EQ(again->counters().dropped_at_recovery.load(), 0U);
  std::uint64_t there = 0;
  for (std::uint64_t i = 0; i < kBlocks; ++i) there += again.Serves(Sample(i)) ? 1 : 0;
  EXPECT_EQ(there, again->BlockCount());
  EXPECT_TRUE(again.EvictLink(LinkNumber(0)).has_value());
  EXPECT_TRUE(again.EvictLink(LinkNumber(1)).has_value());
  EXPECT_EQ(again->Disks()[0].used_bytes, 0U) << "every byte was accounted for";
}

// A link's folder and its segment go with the last block while other threads bring the next one.
TEST(StoreConcurrency, LastBlocksOfALinkLeaveWhileItsNextOnesCome) {
  fakes::TempDir dir;
  TestStore store(OneDirectory(dir / "cache", 64ULL << 20, 64ULL << 10));
  ASSERT_TRUE(store.open());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (std::uint64_t step = 0; step < 250; ++step) {
        const BlockId block = BlockNumber(t * std::uint64_t{1000} + step, 5000);
        const Status status = store.Admit(LinkNumber(1), block);
        EXPECT_TRUE(status.has_value()) << status.error().message;
        EXPECT_TRUE(store.Evict({block}).has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->counters().write_errors.load(), 0U) << "nothing is wrong with the disk";
  EXPECT_EQ(store->Disks()[0].state, DiskState::kOk);
  EXPECT_EQ(store->Disks()[0].used_bytes, 0U) << "every byte was accounted for";
  EXPECT_TRUE(SegmentsBelow(dir / "cache").empty());
}

TEST(StoreConcurrency, BlockAdmittedByManyAtOnceIsStoredOnce) {
  fakes::TempDir dir;
  TestStore store(OneDirectory(dir / "cache"));
  ASSERT_TRUE(store.open());
  const BlockId block = BlockNumber(1, 3 << 20);
  asio::io_context context;
  int done = 0;
  for (int i = 0; i < 20; ++i) {
    asio::co_spawn(
        context,
        [](TestStore& to, BlockId admitted, int& count) -> Task<void> {
          const auto data = BytesOf(admitted);
          Slice bytes = Slice::Of(data);
          std::vector<std::uint64_t> checksums = ChecksumsOf(data->view());
          const Status status = co_await to->Admit(LinkNumber(1), admitted, std::move(bytes),
                                                   std::move(checksums), "", Room::kMayEvict);
          EXPECT_TRUE(status.has_value());
          EXPECT_TRUE(to->Contains(admitted));
          ++count;
        }(store, block, done),
        [](std::exception_ptr failed) { EXPECT_FALSE(failed); });
  }
  context.run();
  EXPECT_EQ(done, 20);
  EXPECT_EQ(store->counters().admitted_blocks.load(), 1U);
  EXPECT_EQ(store->Disks()[0].used_bytes, (3ULL << 20) + 4096);
  EXPECT_TRUE(store.Serves(block));
}

TEST(StoreConcurrency, InvalidCallsAreRefused) {
  fakes::TempDir dir;
  TestStore store(OneDirectory(dir / "cache"));
  ASSERT_TRUE(store.open());
  const BlockId block = BlockNumber(1, 100'000);
  const auto data = BytesOf(block);
  const auto admit = [&](const BlockId& id, std::vector<std::uint64_t> checksums) {
    return fakes::RunTask(store->Admit(LinkNumber(1), id, Slice::Of(data), std::move(checksums), "",
                                       Room::kMayEvict));
  };
  const std::vector<std::uint64_t> right = ChecksumsOf(data->view());
  EXPECT_EQ(admit(BlockNumber(1, 99'999), right).error().code, Code::kInvalid);
  EXPECT_EQ(admit(block, {right[0]}).error().code, Code::kInvalid);
  EXPECT_EQ(admit(BlockNumber(1, 0), {}).error().code, Code::kInvalid);
  ASSERT_TRUE(admit(block, right).has_value());
  for (const BlockRange range : {BlockRange{5, 5}, BlockRange{6, 5}, BlockRange{0, 100'001}}) {
    EXPECT_EQ(store.Read(block, range).error().code, Code::kInvalid);
  }
  EXPECT_EQ(store->BlockCount(), 1U);
}

}  // namespace
}  // namespace forebay
