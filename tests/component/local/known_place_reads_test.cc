// The same at places that the mount knows from before, without a question to the node.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuse-client/local_reads.h"
#include "fuse-client/noted_reads.h"
#include "tests/component/local/local_fixture.h"

namespace forebay {
namespace {

using KnownPlaceReads = LocalReadsTest;

TEST_F(KnownPlaceReads, AKnownPlaceCostsNoQuestionAndTheNodeHearsOfEachRead) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsAtAKnownPlace(block));
  constexpr int kReads = 3 * NotedReads::kReadsAtOnce + 7;
  for (int i = 0; i < kReads; ++i) {
    BlockRequest part = block;
    part.job = i % 2 == 0 ? "one" : "two";
    part.range.begin = static_cast<std::uint32_t>(i * 100);
    const std::uint64_t known = Placed(PlacedRead::kRemembered);
    const std::uint64_t all = AnswersOfTheNode();
    ASSERT_TRUE(ReadOnce(part));
    if (Placed(PlacedRead::kRemembered) > known) EXPECT_EQ(AnswersOfTheNode(), all);
  }
  EXPECT_GT(Placed(PlacedRead::kRemembered), 1U);
  EXPECT_TRUE(Eventually([&] { return Reported().reads() >= asked_; }));
  EXPECT_EQ(Reported().reads(), asked_);
  EXPECT_EQ(Reported().hits(), asked_ - 1);
  EXPECT_EQ(s3_.gets(), 1U);
}

TEST_F(KnownPlaceReads, WhatWasEvictedFromAKnownPlaceIsFetchedAnew) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  const BlockRequest other = BlockOf("data/b");  // keeps the segment
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(ReadOnce(other));
  ASSERT_TRUE(
      Eventually([&] { return IsCached(ToProto(block.block)) && IsCached(ToProto(other.block)); }));
  ASSERT_TRUE(ReadsAtAKnownPlace(block));
  ASSERT_TRUE(ReadsAtAKnownPlace(other));
  ASSERT_TRUE(Evict({block}));
  ASSERT_TRUE(ReadOnce(block)) << "a hole is there now";
  EXPECT_EQ(s3_.gets(), 3U);
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsAtAKnownPlace(block)) << "where it lies now";
  ASSERT_TRUE(Evict({block, other}));
  ASSERT_TRUE(ReadOnce(other)) << "its segment's file is empty";
  EXPECT_EQ(s3_.gets(), 4U);
}

TEST_F(KnownPlaceReads, AnotherBlockAtAKnownPlaceIsNotHandedOut) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  const BlockRequest other = BlockOf("data/b");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(ReadOnce(other));
  ASSERT_TRUE(
      Eventually([&] { return IsCached(ToProto(block.block)) && IsCached(ToProto(other.block)); }));
  ASSERT_TRUE(ReadsAtAKnownPlace(block));
  const Result<proto::ReadBlockReply> place = PlaceOf(block);
  ASSERT_TRUE(place.has_value());
  ASSERT_TRUE(place->has_place());
  ++asked_;
  // As if the store had used the space again.
  const auto bytes = fakes::SampleLink::Bytes(other.object.key, 0, kSize);
  const int file = ::open(SegmentFiles().front().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::pwrite(file, bytes->data(), kSize, static_cast<off_t>(place->place().position())),
            static_cast<ssize_t>(kSize));
  ::close(file);
  const std::uint64_t gone = Placed(PlacedRead::kGone);
  for (int i = 0; i < 3; ++i) {
    const Status read = ReadOnce(block);
    ASSERT_TRUE(read.has_value()) << read.error().message;
  }
  EXPECT_GT(Placed(PlacedRead::kGone), gone);
  EXPECT_EQ(s3_.gets(), 3U) << "the node has dropped it and fetched it again";
}

TEST_F(KnownPlaceReads, NoDiskIsAskedForWhatIsNotInMemory) {
  if (fakes::IsInMemory(dir_.path())) GTEST_SKIP() << "this file system has no disk";
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsAtAKnownPlace(block));
  const int file = ::open(SegmentFiles().front().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::fdatasync(file), 0);
  ASSERT_EQ(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  const std::optional<std::uint64_t> before = fakes::PagesInMemory(file);
  const bool read = OnThread([&] { return local_->ReadKnown(block, Clock::now()).has_value(); });
  const std::optional<std::uint64_t> after = fakes::PagesInMemory(file);
  ::close(file);
  if (!before) GTEST_SKIP() << "this kernel does not say what is in memory";
  ASSERT_EQ(before, 0U) << "void: the pages were not taken out of memory";
  EXPECT_FALSE(read);
  EXPECT_EQ(after, 0U) << "the disk was asked by the mount";
}

/// Blocks that lie behind each other in one segment.
class NeighbourReads : public LocalReadsTest {
 protected:
  static constexpr int kBlocks = 20;

  void Fill() {
    Begin();
    for (int i = 0; i < kBlocks; ++i) {
      blocks_.push_back(BlockOf("data/" + std::to_string(i)));
      ASSERT_TRUE(ReadOnce(blocks_.back()));
      ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(blocks_.back().block)); }));
    }
  }
  /// Which of the blocks the node tells of, asked for the first one at `address`.
  std::vector<int> ToldBy(const std::string& address, std::uint32_t neighbours) {
    proto::ReadBlockRequest question = ToProto(blocks_.front());
    question.set_by_place(true);
    question.set_neighbours(neighbours);
    const Result<RpcReply> reply = client_.Call(address, Method::kReadBlock, question);
    proto::ReadBlockReply answer;
    EXPECT_TRUE(reply && ParseMessage(reply->message, answer));
    ++asked_;
    std::vector<int> told;
    for (const proto::PlacedBlock& placed : answer.neighbours()) {
      const auto same = [&](const BlockRequest& one) {
        return one.block == FromProto(placed.block());
      };
      const auto found = std::ranges::find_if(blocks_, same);
      if (found == blocks_.end()) return {-1};
      told.push_back(static_cast<int>(found - blocks_.begin()));
      ExpectThere(*found, placed);
    }
    return told;
  }

  std::vector<BlockRequest> blocks_;

 private:
  void ExpectThere(const BlockRequest& request, const proto::PlacedBlock& placed) const {
    const int file = ::open(SegmentFiles().front().c_str(), O_RDONLY | O_CLOEXEC);
    auto bytes = std::make_shared<Buffer>(request.block.length);
    EXPECT_EQ(::pread(file, bytes->data(), bytes->size(), static_cast<off_t>(placed.position())),
              static_cast<ssize_t>(bytes->size()));
    ::close(file);
    const Cells cells{.bytes = Slice::Of(std::shared_ptr<const Buffer>(std::move(bytes))),
                      .checksums = {placed.checksums().begin(), placed.checksums().end()}};
    EXPECT_TRUE(cells.Verify());
  }
};

TEST_F(NeighbourReads, OneQuestionTellsWhereTheBlocksBehindLie) {
  Fill();
  ASSERT_TRUE(ReadsAtAKnownPlace(blocks_.front()));
  EXPECT_EQ(segments_.places().size(), static_cast<std::size_t>(kBlocks));
  int unasked = 0;
  for (const BlockRequest& block : blocks_) {
    const std::uint64_t known = Placed(PlacedRead::kRemembered);
    const std::uint64_t all = AnswersOfTheNode();
    ASSERT_TRUE(ReadOnce(block));
    if (Placed(PlacedRead::kRemembered) == known) continue;
    EXPECT_EQ(AnswersOfTheNode(), all);
    ++unasked;
  }
  EXPECT_GT(unasked, kBlocks / 2) << "all of them, but for pages that the kernel took away";
  EXPECT_TRUE(Eventually([&] { return Reported().reads() >= asked_; }));
  EXPECT_EQ(Reported().reads(), asked_) << "the node hears of each";
  EXPECT_EQ(s3_.gets(), static_cast<std::uint64_t>(kBlocks));
}

TEST_F(NeighbourReads, TheNodeTellsOfWhatIsThereAndNoMoreThanItIsAsked) {
  Fill();
  // The node opens the file for the first read of it.
  EXPECT_TRUE(Eventually([&] { return ToldBy(Socket(), 3) == std::vector<int>{1, 2, 3}; }));
  EXPECT_EQ(ToldBy(Socket(), UINT32_MAX).size(), static_cast<std::size_t>(kBlocks - 1));
  EXPECT_TRUE(ToldBy(Socket(), 0).empty());
  EXPECT_TRUE(ToldBy(node_->address(), 3).empty()) << "over TCP nobody reads its files";
  ASSERT_TRUE(Evict({blocks_[2]}));
  EXPECT_EQ(ToldBy(Socket(), 3), (std::vector<int>{1, 3, 4})) << "a hole is there";
  EXPECT_EQ(Reported().reads() > asked_, false) << "nobody has read the neighbours";
}

TEST_F(KnownPlaceReads, PlacesOfANodeThatTakesNoNotesAreAskedForEachTime) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsAtAKnownPlace(block));
  Result<proto::ReadBlockReply> answer = PlaceOf(block);
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->has_place());
  const auto knows_after = [&](bool noted) {
    answer->mutable_place()->set_noted(noted);
    return OnThread([&] {
      segments_.places().Forget(block.link, block.block);
      local_->Read(block, ToProto(block), *answer, {"node", Socket()}, Clock::now());
      return segments_.places().size() > 0;
    });
  };
  EXPECT_FALSE(knows_after(false)) << "a node of an older release";
  EXPECT_TRUE(knows_after(true));
}

TEST_F(KnownPlaceReads, PlacesOfANodeThatIsGoneAreForgotten) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  ASSERT_TRUE(ReadOnce(block));
  ASSERT_TRUE(Eventually([&] { return IsCached(ToProto(block.block)); }));
  ASSERT_TRUE(ReadsAtAKnownPlace(block));
  StopNode();
  const BlockRange all{0, static_cast<std::uint32_t>(kSize)};
  EXPECT_TRUE(Eventually([&] {
    return OnThread([&] {
      local_->ReadKnown(block, Clock::now());
      return !segments_.places().Find(block.link, block.block, all).has_value();
    });
  }));
}

TEST_F(KnownPlaceReads, ReadsAreNotedOverTheSocketAloneAndInsideTheirBlocks) {
  Begin();
  const BlockRequest block = BlockOf("data/a");
  proto::NoteReadsRequest notes;
  notes.set_link(BytesOf(block.link));
  notes.add_jobs("job");
  proto::NotedRead& read = *notes.add_reads();
  *read.mutable_block() = ToProto(block.block);
  read.set_bytes(kSize);
  const auto code_at = [&](const std::string& address) {
    const Result<RpcReply> reply = client_.Call(address, Method::kNoteReads, notes);
    return reply ? std::optional<Code>() : reply.error().code;
  };
  EXPECT_EQ(code_at(node_->address()), Code::kInvalid) << "over TCP";
  EXPECT_EQ(code_at(Socket()), std::nullopt);
  EXPECT_TRUE(Eventually([&] { return Reported().reads() == 1; }));
  EXPECT_EQ(Reported().hits(), 1U);
  const Result<RpcReply> reply = client_.Call(Socket(), Method::kNoteReads, notes);
  proto::NoteReadsReply answer;
  ASSERT_TRUE(reply.has_value() && ParseMessage(reply->message, answer));
  EXPECT_TRUE(answer.renamed()) << "no process of this name";
  ASSERT_EQ(answer.moved_size(), 1) << "the block is not here";
  EXPECT_EQ(answer.moved(0), 0U);
  read.set_bytes(kSize + 1);
  EXPECT_EQ(code_at(Socket()), Code::kInvalid) << "more than the block has";
  read.set_bytes(kSize);
  read.set_job(1);
  EXPECT_EQ(code_at(Socket()), Code::kInvalid) << "a job that is not named";
  notes.set_link("");
  EXPECT_EQ(code_at(Socket()), Code::kInvalid);
}

}  // namespace
}  // namespace forebay
