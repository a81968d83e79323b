#include "cachenode/block_reader.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

using fakes::GetScript;

class BlockReaderTest : public ReaderRig {
 protected:
  const ObjectRef object_ = TestObject("data/a", kBlock);

  /// The n-th cell of the object's only block.
  CheckedRead Cell(std::uint32_t n) const {
    const auto begin = static_cast<std::uint32_t>(n * kCellBytes);
    return ReadOf(object_, 0, {begin, begin + 100});
  }
};

TEST_F(BlockReaderTest, AMissFillsFromS3AndTheNextReadIsAHit) {
  const CheckedRead read = Cell(1);
  const Result<Cells> miss = Read(read);
  EXPECT_TRUE(AreRight(miss, read));
  EXPECT_EQ(miss->tier, Tier::kS3);
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  const Result<Cells> hit = Read(read);
  EXPECT_TRUE(AreRight(hit, read));
  EXPECT_EQ(hit->tier, Tier::kLocal);
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(count().reads, 2u);
  EXPECT_EQ(count().hits, 1u);
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().fill_bytes, 100u);
  EXPECT_EQ(count().kept_bytes, 100u);
  EXPECT_EQ(count().hit_bytes, 100u);
  EXPECT_EQ(count().s3_gets, 1u);
  EXPECT_EQ(count().s3_bytes, kBlock);
}

TEST_F(BlockReaderTest, AReadThatWasCountedIsCountedAgainOnlyIfItCostsAGet) {
  CheckedRead read = Cell(1);
  EXPECT_TRUE(AreRight(Read(read), read));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  read.request.counted = true;
  EXPECT_TRUE(AreRight(Read(read), read));
  EXPECT_EQ(count().reads, 1u) << "the hit was counted when its place was told";
  EXPECT_EQ(count().hits, 0u);
  CheckedRead cold = ReadOf(TestObject("data/b", kBlock), 0, {0, 100});
  cold.request.counted = true;
  EXPECT_TRUE(AreRight(Read(cold), cold));
  EXPECT_EQ(count().reads, 2u) << "it was evicted in between";
  EXPECT_EQ(count().misses, 2u);
  EXPECT_EQ(s3_.gets(), 2u);
}

TEST_F(BlockReaderTest, RemembersWhoReadABlockButNotWhatAPeerAskedOrFailed) {
  CheckedRead read = Cell(1);
  read.request.job = "job-1";
  CheckedRead peer = Cell(1);
  peer.request.job = "job-2";
  peer.request.peer_only = true;
  EXPECT_FALSE(Read(peer).has_value()) << "not here yet";
  EXPECT_EQ(history_.Find(read.request.block).read_unix_s, 0);
  s3_.OnGet([](const GetRequest&) { return GetScript{.error = Error{Code::kStale, "gone"}}; });
  EXPECT_FALSE(Read(read).has_value());
  s3_.OnGet([](const GetRequest&) { return GetScript{}; });
  EXPECT_EQ(history_.Find(read.request.block).read_unix_s, 0);
  EXPECT_TRUE(AreRight(Read(read), read));
  EXPECT_TRUE(AreRight(Read(peer), peer));
  EXPECT_EQ(history_.Find(read.request.block).job, "job-1");
  EXPECT_GT(history_.Find(read.request.block).read_unix_s, 0);
}

TEST_F(BlockReaderTest, TheGetAsksForOneRangeOfOneVersion) {
  const ObjectRef object = TestObject("data/big", 2ULL * kBlock + 1000);
  const CheckedRead read = ReadOf(object, 2ULL * kBlock, {0, 1000});
  EXPECT_TRUE(AreRight(Read(read), read));
  const std::optional<GetRequest> get = s3_.last();
  ASSERT_TRUE(get.has_value());
  EXPECT_EQ(get->origin, link_->origin);
  EXPECT_EQ(get->key, object.key);
  EXPECT_EQ(get->etag, object.etag);
  EXPECT_EQ(get->object_size, object.size);
  EXPECT_EQ(get->offset, 2 * kBlock);
  EXPECT_EQ(get->length, 1000u);
}

TEST_F(BlockReaderTest, AReadIsAnsweredBeforeItsBlockIsWhole) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 3 * kCellBytes}; });
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  EXPECT_FALSE(IsIdle()) << "the fill goes on behind the answer";
  s3_.Release();
}

TEST_F(BlockReaderTest, SecondReaderJoinsTheRunningFill) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::future<Result<Cells>> first = Start(Cell(0));
  ASSERT_TRUE(s3_.WaitForHeld(1));
  std::future<Result<Cells>> second = Start(Cell(3));
  Settle();
  s3_.Release();
  EXPECT_TRUE(AreRight(first.get(), Cell(0)));
  const Result<Cells> joined = second.get();
  EXPECT_TRUE(AreRight(joined, Cell(3)));
  EXPECT_EQ(joined->tier, Tier::kS3);
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().hits, 1u) << "who joins costs no GET";
}

TEST_F(BlockReaderTest, AThousandReadersOfOneColdBlockCostOneGet) {
  constexpr int kReaders = 1000;
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = kCellBytes}; });
  std::vector<std::future<Result<Cells>>> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(Start(Cell(static_cast<std::uint32_t>(i) % 4)));
    if (i == kReaders / 2) s3_.Release();
  }
  for (int i = 0; i < kReaders; ++i) {
    EXPECT_TRUE(AreRight(readers[static_cast<std::size_t>(i)].get(),
                         Cell(static_cast<std::uint32_t>(i) % 4)));
  }
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().hits, kReaders - 1u);
}

TEST_F(BlockReaderTest, ManyBlocksReadByManyAtOnceCostOneGetEach) {
  constexpr std::uint32_t kBlocks = 40;
  const ObjectRef big = TestObject("data/big", kBlocks * std::uint64_t{kBlock});
  std::vector<std::pair<CheckedRead, std::future<Result<Cells>>>> reads;
  for (int round = 0; round < 20; ++round) {
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      CheckedRead read = ReadOf(big, b * std::uint64_t{kBlock}, {0, 1});
      std::future<Result<Cells>> answer = Start(read);
      reads.emplace_back(std::move(read), std::move(answer));
    }
  }
  for (auto& [read, answer] : reads) EXPECT_TRUE(AreRight(answer.get(), read));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(s3_.gets(), kBlocks);
  EXPECT_EQ(count().misses, kBlocks);
  EXPECT_EQ(count().s3_gets, kBlocks);
  EXPECT_EQ(store_.admissions(), kBlocks);
}

TEST_F(BlockReaderTest, AFullStoreDoesNotCostAGetForEachRead) {
  store_.RefuseAdmissions(Error{Code::kOverloaded, "no space that may be freed"});
  for (std::uint32_t cell = 0; cell < 4; ++cell) {
    EXPECT_TRUE(AreRight(Read(Cell(cell)), Cell(cell)));
  }
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(count().misses, 1u);
  EXPECT_EQ(count().hits, 3u);
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(store_.refused(), 1u);
  EXPECT_EQ(filler_.recent().bytes(), kBlock);
}

TEST_F(BlockReaderTest, ADiskThatCannotWriteDoesNotFailReads) {
  store_.RefuseAdmissions(Error{Code::kInternal, "the disk is read-only"});
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  EXPECT_TRUE(AreRight(Read(Cell(1)), Cell(1)));
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(BlockReaderTest, ABlockThatIsListedAndCannotBeReadIsFetched) {
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  store_.RefuseReads(Error{Code::kNotFound, "the disk has just failed"});
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  EXPECT_EQ(s3_.gets(), 2u);
}

TEST_F(BlockReaderTest, ABlockOnADiskThatHangsIsFetched) {
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  store_.RefuseReads(Error{Code::kTimeout, "the disk does not answer"});
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  EXPECT_EQ(s3_.gets(), 2u);
}

TEST_F(BlockReaderTest, AStoreThatIsOverloadedIsNotReplacedByS3) {
  store_.RefuseReads(Error{Code::kOverloaded, "too much disk work is waiting"});
  EXPECT_EQ(Read(Cell(0)).error().code, Code::kOverloaded);
  EXPECT_EQ(s3_.gets(), 0u);
}

TEST_F(BlockReaderTest, PeerOnlyNeverBeginsAFill) {
  CheckedRead read = Cell(0);
  read.request.peer_only = true;
  EXPECT_EQ(Read(read).error().code, Code::kNotFound);
  EXPECT_EQ(s3_.gets(), 0u);
  EXPECT_EQ(count().reads, 0u) << "it is the peer's read";
}

TEST_F(BlockReaderTest, PeerOnlyJoinsARunningFillAndReadsTheStore) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::future<Result<Cells>> leader = Start(Cell(0));
  ASSERT_TRUE(s3_.WaitForHeld(1));
  CheckedRead peer = Cell(1);
  peer.request.peer_only = true;
  std::future<Result<Cells>> joined = Start(peer);
  Settle();
  s3_.Release();
  EXPECT_TRUE(AreRight(joined.get(), peer));
  EXPECT_TRUE(leader.get().has_value());
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_TRUE(AreRight(Read(peer), peer));
  EXPECT_EQ(s3_.gets(), 1u);
  EXPECT_EQ(count().reads, 1u);
}

TEST_F(BlockReaderTest, AnErrorReachesAllWaitersAndTheNextReadBeginsANewFill) {
  s3_.OnGet([](const GetRequest&) {
    return GetScript{.hold_after = 0, .error = Error{Code::kUnavailable, "S3 answered 503"}};
  });
  std::future<Result<Cells>> first = Start(Cell(0));
  ASSERT_TRUE(s3_.WaitForHeld(1));
  CheckedRead joining = Cell(1);
  joining.request.peer_only = true;  // so that it can only join
  std::future<Result<Cells>> second = Start(joining);
  Settle();
  s3_.Release();
  EXPECT_EQ(first.get().error().message, "S3 answered 503");
  EXPECT_EQ(second.get().error().message, "S3 answered 503");
  s3_.OnGet(nullptr);
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_EQ(s3_.gets(), 2u);
  EXPECT_EQ(count().misses, 2u);
  EXPECT_EQ(count().s3_gets, 1u);
  EXPECT_EQ(count().s3_errors, 1u);
}

TEST_F(BlockReaderTest, AnObjectThatIsGoneIsStale) {
  s3_.OnGet([](const GetRequest&) {
    return GetScript{.error = Error{Code::kNotFound, "there is no such object"}};
  });
  EXPECT_EQ(Read(Cell(0)).error().code, Code::kStale);
  EXPECT_EQ(count().s3_gets, 0u);
  EXPECT_EQ(count().s3_errors, 1u);
}

TEST_F(BlockReaderTest, ABrokenAttemptLeavesNoTrace) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.broken_attempt = kCellBytes - 1}; });
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0))) << "and none in the store";
  EXPECT_EQ(count().s3_gets, 1u);
  EXPECT_EQ(count().s3_retries, 1u);
}

TEST_F(BlockReaderTest, AReaderThatGivesUpDoesNotEndTheFill) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  EXPECT_EQ(Start(Cell(0), std::chrono::milliseconds(20)).get().error().code, Code::kTimeout);
  s3_.Release();
  ASSERT_TRUE(Eventually([this] { return store_.admissions() == 1; }));
  EXPECT_TRUE(AreRight(Read(Cell(0)), Cell(0)));
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(BlockReaderTest, ACancelledReaderDoesNotEndTheFillAndIsCounted) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  asio::cancellation_signal cancel;
  std::promise<void> ended;
  asio::io_context& context = pool_.At(0);
  Task<Result<Cells>> task = reader_.Read(Cell(0), Deadline::After(std::chrono::seconds(20)));
  asio::co_spawn(context, std::move(task),
                 asio::bind_cancellation_slot(
                     cancel.slot(), [&](std::exception_ptr, Result<Cells>) { ended.set_value(); }));
  ASSERT_TRUE(s3_.WaitForHeld(1));
  asio::post(context, [&] { cancel.emit(asio::cancellation_type::terminal); });
  ended.get_future().wait();
  EXPECT_EQ(count().reads, 1u);
  EXPECT_EQ(count().misses, 1u) << "it began a fill, whatever became of it";
  s3_.Release();
  ASSERT_TRUE(Eventually([this] { return store_.admissions() == 1; }));
}

TEST_F(BlockReaderTest, PrefetchFillsWithoutBeingARead) {
  const ColdBlock cold = ColdOf(Cell(0));
  EXPECT_EQ(reader_.Prefetch(cold, "job"), Prefetched::kBegun);
  ASSERT_TRUE(Eventually([this] { return store_.admissions() == 1; }));
  EXPECT_EQ(reader_.Prefetch(cold, "job"), Prefetched::kHere) << "it is in the store";
  EXPECT_EQ(count().reads, 0u);
  EXPECT_EQ(count().s3_gets, 1u);
  EXPECT_TRUE(AreRight(Read(Cell(2)), Cell(2)));
  EXPECT_EQ(count().hits, 1u);
}

TEST_F(BlockReaderTest, PrefetchOfARunningFillBeginsNothing) {
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  EXPECT_EQ(reader_.Prefetch(ColdOf(Cell(0)), "job"), Prefetched::kBegun);
  EXPECT_EQ(reader_.Prefetch(ColdOf(Cell(0)), "job"), Prefetched::kHere);
  s3_.Release();
}

TEST_F(BlockReaderTest, StoreHearsOfTheReadsOfJobsAndNotOfThoseOfNodes) {
  CheckedRead of_node = Cell(1);
  of_node.request.peer_only = true;
  EXPECT_FALSE(Read(of_node).has_value());
  EXPECT_TRUE(store_.noted_reads().empty());
  EXPECT_TRUE(Read(Cell(0)).has_value());
  EXPECT_TRUE(Read(Cell(1)).has_value());
  const auto noted = store_.noted_reads();
  ASSERT_EQ(noted.size(), 2u) << "hit or miss";
  EXPECT_EQ(noted[1].first, "job");
  EXPECT_EQ(noted[1].second, Cell(1).request.block);
}

TEST_F(BlockReaderTest, ReadsOfJobsAreCountedApart) {
  CheckedRead other = Cell(1);
  other.request.job = "other";
  EXPECT_TRUE(Read(Cell(0)).has_value());
  ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  EXPECT_TRUE(Read(Cell(0)).has_value());
  EXPECT_TRUE(Read(other).has_value());
  std::vector<JobCount> jobs = counters_.Jobs();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].job, "job");
  EXPECT_EQ(jobs[0].reads, 2u);
  EXPECT_EQ(jobs[0].hits, 1u);
  EXPECT_EQ(jobs[1].job, "other");
  EXPECT_EQ(jobs[1].hits, 1u);
}

}  // namespace
}  // namespace forebay
