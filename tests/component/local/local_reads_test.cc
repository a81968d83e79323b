// A mount's client and a node of its machine: bytes are read out of the node's own files.
#include "fuse-client/local_reads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/component/local/local_fixture.h"

namespace forebay {
namespace {

TEST_F(LocalReadsTest, AHitIsReadOutOfTheNodesFileAndCountedOnce) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsOutOfTheFile(block));
  EXPECT_EQ(segments_.size(), 1U);
  for (const BlockRange range : {BlockRange{0, 1}, BlockRange{kSize - 1, kSize},
                                 BlockRange{70'000, 140'000}, BlockRange{65'535, 65'537}}) {
    BlockRequest part = block;
    part.range = range;
    ASSERT_TRUE(ReadsOutOfTheFile(part));
  }
  StatsSnapshot sum;
  stats_.AddTo(sum);
  EXPECT_EQ(sum.checksum_failures, 0U);
  EXPECT_EQ(Placed(PlacedRead::kGone), 0U);
  // The node knows of each of them, and of none twice; one began a GET.
  EXPECT_TRUE(Eventually([&] { return Reported().reads() >= asked_; }));
  EXPECT_EQ(Reported().reads(), asked_);
  EXPECT_EQ(Reported().misses(), 1U);
  EXPECT_EQ(Reported().hits(), asked_ - 1);
  EXPECT_EQ(s3_.gets(), 1U);
}

TEST_F(LocalReadsTest, AReadThatFallsBackIsCountedOnce) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsOutOfTheFile(block));
  // Told a place, the reader asks for the bytes after all.
  bool told = false;
  for (int i = 0; i < kAttempts && !told; ++i) {
    const Result<proto::ReadBlockReply> answer = PlaceOf(block);
    ASSERT_TRUE(answer.has_value());
    told = answer->has_place();
    ++asked_;
  }
  ASSERT_TRUE(told);
  proto::ReadBlockRequest again = ToProto(block);
  again.set_counted(true);
  const Result<RpcReply> bytes = client_.Call(Socket(), Method::kReadBlock, again);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->payload.bytes.size(), kSize);
  ASSERT_TRUE(ReadOnce(block));
  EXPECT_TRUE(Eventually([&] { return Reported().reads() >= asked_; }));
  EXPECT_EQ(Reported().reads(), asked_);
  EXPECT_EQ(Reported().hits(), asked_ - 1);
}

TEST_F(LocalReadsTest, WhatWasEvictedSinceTheNodeAnsweredIsNotHandedOut) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  const BlockRequest other = BlockOf("data/b");  // keeps the segment
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(ReadOnce(other));
  ASSERT_TRUE(
      Eventually([&] { return IsCached(ToProto(block.block)) && IsCached(ToProto(other.block)); }));
  ASSERT_TRUE(ReadsOutOfTheFile(block));
  const auto read_at = [&](const proto::ReadBlockReply& answer) {
    return OnThread([&] {
      return local_->Read(block, ToProto(block), answer, {"node", Socket()}, Clock::now())
          .has_value();
    });
  };
  Result<proto::ReadBlockReply> answer = Fail(Code::kNotFound, "not yet");
  for (int i = 0; i < kAttempts; ++i) {
    answer = PlaceOf(block);
    ASSERT_TRUE(answer.has_value());
    if (answer->has_place() && read_at(*answer)) break;
    ASSERT_TRUE(ReadOnce(block));
  }
  ASSERT_TRUE(answer->has_place());
  // Punched out of its segment.
  ASSERT_TRUE(Evict({block}));
  EXPECT_FALSE(read_at(*answer));
  // Gone with its segment, whose file the mount still has.
  ASSERT_TRUE(Evict({other}));
  EXPECT_FALSE(read_at(*answer));
  EXPECT_TRUE(ReadOnce(block)) << "out of S3";
  EXPECT_GE(Placed(PlacedRead::kGone) + Placed(PlacedRead::kNotInMemory), 2U);
}

TEST_F(LocalReadsTest, AnEvictedSegmentTakesNoSpaceThoughAMountHasItOpen) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_EQ(SegmentFiles().size(), 1U);
  const int file = ::open(SegmentFiles().front().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_TRUE(Evict({block}));
  EXPECT_TRUE(SegmentFiles().empty());
  struct stat attributes{};
  EXPECT_EQ(::fstat(file, &attributes), 0);
  EXPECT_EQ(attributes.st_nlink, 0U);
  EXPECT_EQ(attributes.st_size, 0);
  EXPECT_EQ(attributes.st_blocks, 0);
  ::close(file);
}

TEST_F(LocalReadsTest, NeverAWrongByteWhileBlocksAreEvictedAndComeBack) {
  Begin();
  std::vector<BlockRequest> blocks;
  for (int i = 0; i < 24; ++i) blocks.push_back(BlockOf("data/" + std::to_string(i)));
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> evictions{0};
  std::atomic<std::uint64_t> reads{0};
  std::thread evictor([&] {
    std::minstd_rand random(1);
    while (!over) {
      // Beside the reads, and not so often that nothing is ever cached.
      if (reads < evictions * 12) {
        std::this_thread::yield();
        continue;
      }
      std::vector<BlockRequest> some;
      for (int i = 0; i < 4; ++i) some.push_back(blocks[random() % blocks.size()]);
      if (evictions % 16 == 15) some = blocks;  // and whole segments with them
      EXPECT_TRUE(Evict(some));
      ++evictions;
    }
  });
  std::minstd_rand random(2);
  std::uint64_t wrong = 0;
  const auto done = [&] { return evictions >= 64 && OutOfFiles() >= 50; };
  for (int i = 0; i < 20'000 && !(i >= 1000 && done()); ++i) {
    BlockRequest request = blocks[random() % blocks.size()];
    request.range.begin = static_cast<std::uint32_t>(random() % kSize);
    const Status read = ReadOnce(request);
    ++reads;
    if (!read) ++wrong;
    EXPECT_TRUE(read.has_value()) << read.error().message;
  }
  over = true;
  evictor.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GE(evictions, 64U);
  EXPECT_GE(OutOfFiles(), 50U);
  EXPECT_GT(Placed(PlacedRead::kRemembered), 0U);
}

TEST_F(LocalReadsTest, AfterARestartOfTheNodeItsNewFilesAreRead) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsOutOfTheFile(block));
  StopNode();
  Begin();
  // The new process hears of reads at places that the old one has told, and says so.
  EXPECT_TRUE(ReadsUntilMore(block, [this] { return Placed(PlacedRead::kNoFile); }))
      << "the old process's names say nothing now";
  EXPECT_TRUE(ReadsAtAKnownPlace(block));
  EXPECT_EQ(s3_.gets(), 1U);
}

TEST_F(LocalReadsTest, DamagedBytesAreNotHandedOut) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsOutOfTheFile(block));
  const Result<proto::ReadBlockReply> answer = PlaceOf(block);
  ASSERT_TRUE(answer.has_value());
  const int file = ::open(SegmentFiles().front().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const std::string garbage(4096, 'x');
  const auto place = static_cast<off_t>(answer->place().position() + 70'000);
  ASSERT_EQ(::pwrite(file, garbage.data(), garbage.size(), place), 4096);
  ::close(file);
  for (int i = 0; i < 3; ++i) {
    const Status read = ReadOnce(block);
    ASSERT_TRUE(read.has_value()) << read.error().message;
  }
  EXPECT_EQ(s3_.gets(), 2U) << "the node has dropped it and fetched it again";
  EXPECT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
}

TEST_F(LocalReadsTest, AFileIsPassedOverTheSocketAloneAndToWhoCanNameABlockOfIt) {
  Begin();
  const proto::ReadBlockRequest request = RequestFor("data/a", kSize);
  ASSERT_TRUE(Read(request));
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  ASSERT_TRUE(Read(request)) << "its segment is open now";
  const auto open = [&](const proto::ReadBlockRequest& question, const std::string& address) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    return asio::co_spawn(threads_.At(0),
                          pool_->CallForFile(address, Method::kOpenSegment, question, deadline),
                          asio::use_future)
        .get();
  };
  const Result<RpcReply> passed = open(request, Socket());
  ASSERT_TRUE(passed.has_value()) << passed.error().message;
  ASSERT_TRUE(passed->file);
  EXPECT_EQ(::fcntl(*passed->file, F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_NE(::fcntl(*passed->file, F_GETFD) & FD_CLOEXEC, 0);
  const Result<RpcReply> over_tcp = open(request, node_->address());
  ASSERT_FALSE(over_tcp.has_value());
  EXPECT_EQ(over_tcp.error().code, Code::kInvalid);
  proto::ReadBlockRequest unnamed = request;
  unnamed.set_etag("other");
  const Result<RpcReply> refused = open(unnamed, Socket());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

// The links share blocks of the same objects. The file of one also holds what the other's readers
// may not see.
TEST_F(LocalReadsTest, ABlockThatAnotherLinkHasBroughtComesOverTheSocketAlone) {
  LinkSpec narrow = link_;
  narrow.id = Uuid::Random();
  narrow.name = "narrow";
  narrow.origin.prefix = "data/shared/";
  coordinator_->SetLinks({link_, narrow});
  Begin();
  proto::ReadBlockRequest request = RequestFor("data/shared/a", kSize);
  ASSERT_TRUE(Read(request));
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  ASSERT_TRUE(Read(request)) << "its segment is open now";
  const auto ask = [&](Method method, bool by_place, const Uuid& link) {
    proto::ReadBlockRequest question = request;
    question.set_link(BytesOf(link));
    question.set_by_place(by_place);
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    return asio::co_spawn(threads_.At(0), pool_->CallForFile(Socket(), method, question, deadline),
                          asio::use_future)
        .get();
  };
  ASSERT_TRUE(ask(Method::kOpenSegment, false, link_.id).has_value());
  const Result<RpcReply> refused = ask(Method::kOpenSegment, false, narrow.id);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  const Result<RpcReply> read = ask(Method::kReadBlock, true, narrow.id);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  proto::ReadBlockReply answer;
  ASSERT_TRUE(ParseMessage(read->message, answer));
  EXPECT_FALSE(answer.has_place());
  EXPECT_EQ(read->payload.bytes.size(), kSize);
  EXPECT_EQ(s3_.gets(), 1U) << "both links share the block";
}

}  // namespace
}  // namespace forebay
