#include "fuse-client/local_reads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "tests/component/fuse-client/block_client_fixture.h"
#include "tests/fakes/file_system.h"
#include "tests/fakes/read_errors.h"
#include "tests/fakes/temp_dir.h"

// Reads out of a file that a node of this machine has passed.
namespace forebay {
namespace {

using fakes::FakeNode;

constexpr std::uint64_t kPosition = 4096;
const SegmentName kSegment{.store = 7, .segment = 9};

/// Before the client that uses them.
struct Segments {
  PassedSegments segments{8, 1 << 20};
};

class LocalReadsTest : protected Segments, public BlockClientTest {
 protected:
  LocalReadsTest() : BlockClientTest(std::chrono::milliseconds(300), 0, &segments) {
    const std::string socket = dir_ / "node.sock";
    FakeNode* owner = OwnersOf(request_)[0];
    here_ = std::make_unique<FakeNode>(owner->Info().id, kTestSecret, "unix:" + socket);
    here_->OnRead([this](const proto::ReadBlockRequest& asked) -> FakeNode::Answer {
      RpcReply reply = FakeNode::RightAnswer(asked);
      if (!asked.by_place()) return {std::move(reply)};
      ++places_told_;
      return {PlaceOf(reply)};
    });
    std::vector<NodeInfo> members = table_.nodes();
    for (NodeInfo& member : members) {
      if (member.id != owner->Info().id) continue;
      member.host_id = "this-host";
      member.local_socket = socket;
    }
    table_ = RingTable::Next(table_, members, 1'700'000'001);
    ring_.Offer(table_);
  }

  void SetUp() override {
    if (!fakes::KnowsNoWait(dir_.path())) GTEST_SKIP() << "this file system cannot say what waits";
    const auto bytes = fakes::SampleLink::Bytes(kKey, request_.block.offset, request_.range.size());
    const std::string segment =
        std::string(kPosition, '\0') +
        std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    ASSERT_TRUE(WriteFileAtomically(dir_ / "segment", segment));
    file_ = OwnFile(::open((dir_ / "segment").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_GE(*file_, 0);
    ASSERT_TRUE(segments.BeginOpen(kSegment));
    segments.EndOpen(kSegment, file_, Clock::now());
  }

  static RpcReply PlaceOf(const RpcReply& right) {
    proto::ReadBlockReply message;
    EXPECT_TRUE(ParseMessage(right.message, message));
    message.mutable_place()->set_store(kSegment.store);
    message.mutable_place()->set_segment(kSegment.segment);
    message.mutable_place()->set_position(kPosition);
    message.mutable_place()->set_noted(true);
    RpcReply reply;
    reply.message = message.SerializeAsString();
    return reply;
  }

  std::uint64_t Placed(PlacedRead outcome) const {
    return Stats().placed_reads[static_cast<std::size_t>(outcome)];
  }

  const BlockRequest request_ = RequestFor({0, 65'536});
  const fakes::TempDir dir_;
  PassedFile file_;
  std::atomic<int> places_told_{0};
  std::unique_ptr<FakeNode> here_;
};

TEST_F(LocalReadsTest, WhatItsDiskCannotReadTheNodeIsAskedFor) {
  {
    const fakes::ReadErrors errors(*file_);
    ExpectRight(request_, Read(request_));
    EXPECT_EQ(errors.seen(), 1u);
  }
  EXPECT_EQ(places_told_, 1);
  EXPECT_EQ(here_->reads(), 2u) << "for the place, and then for the bytes";
  EXPECT_EQ(Placed(PlacedRead::kGone), 1u);
  EXPECT_EQ(Placed(PlacedRead::kRead), 0u);
  EXPECT_FALSE(segments.Find(kSegment, Clock::now())) << "nobody is to try it again";
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(Stats().owner_switches, 0u) << "the node is well";
}

TEST_F(LocalReadsTest, WhatItsDiskCanReadNoMoreTheNodeIsAskedFor) {
  ExpectRight(request_, Read(request_));
  const std::uint64_t asked = here_->reads();
  {
    const fakes::ReadErrors errors(*file_);
    ExpectRight(request_, Read(request_));
    EXPECT_EQ(errors.seen(), 1u);
  }
  EXPECT_GT(here_->reads(), asked) << "its place was remembered";
  EXPECT_EQ(Placed(PlacedRead::kGone), 1u);
  EXPECT_FALSE(segments.Find(kSegment, Clock::now()));
}

}  // namespace
}  // namespace forebay
