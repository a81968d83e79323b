#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuse-client/block_client.h"
#include "tests/component/fuse-client/block_client_fixture.h"
#include "tests/fakes/temp_dir.h"

// max_bandwidth of a mount.
namespace forebay {
namespace {

using fakes::FakeNode;
using std::chrono::milliseconds;

/// A mount that may take 64 KiB an hour: the first read passes, and owes that for the others.
class BoundedMountTest : public BlockClientTest {
 protected:
  BoundedMountTest() : BlockClientTest(milliseconds(300), 65'536 / 3600) {}
};

TEST_F(BoundedMountTest, WhatComesOverTheNetworkWaitsForItsTurn) {
  const BlockRequest request = RequestFor({0, 65'536});
  FakeNode* owner = OwnersOf(request)[0];
  ExpectRight(request, Read(request));
  const Result<Cells> late = Read(request, milliseconds(100));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kTimeout);
  EXPECT_NE(late.error().message.find("max_bandwidth of this mount, 18 bytes a second"),
            std::string::npos)
      << late.error().message;
  EXPECT_EQ(owner->reads(), 1u);
  EXPECT_EQ(Stats().owner_switches, 0u) << "no node is to blame";
}

TEST_F(BoundedMountTest, WhatDoesNotComeIsNotPaidFor) {
  const BlockRequest request = RequestFor({0, 65'536});
  const std::vector<FakeNode*> owners = OwnersOf(request);
  owners[0]->Stop();
  // It has too much to do at first, and then sends its readers on.
  int asked = 0;
  owners[1]->OnRead([&asked](const proto::ReadBlockRequest&) -> FakeNode::Answer {
    if (++asked <= 3) return {Fail(Code::kOverloaded, "says the script")};
    proto::ReadBlockReply on;
    on.set_go_on(true);
    RpcReply reply;
    reply.message = on.SerializeAsString();
    return {std::move(reply)};
  });
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[1]->reads(), 4u);
  EXPECT_EQ(owners[2]->reads(), 1u);
  const Result<Cells> late = Read(request, milliseconds(100));
  ASSERT_FALSE(late) << "what came is paid for";
  EXPECT_NE(late.error().message.find("max_bandwidth"), std::string::npos) << late.error().message;
}

TEST_F(BoundedMountTest, WhatCameAndWasWrongIsPaidFor) {
  const BlockRequest request = RequestFor({0, 65'536});
  FakeNode* owner = OwnersOf(request)[0];
  owner->OnRead([](const proto::ReadBlockRequest& asked) -> FakeNode::Answer {
    RpcReply reply = FakeNode::RightAnswer(asked);
    auto flipped = std::make_shared<Buffer>(reply.payload.bytes.size());
    std::copy(reply.payload.bytes.begin(), reply.payload.bytes.end(), flipped->data());
    flipped->data()[7] ^= std::byte{1};
    reply.payload = Slice::Of(std::move(flipped));
    return {std::move(reply)};
  });
  const Result<Cells> cells = Read(request, milliseconds(100));
  ASSERT_FALSE(cells);
  EXPECT_NE(cells.error().message.find("max_bandwidth"), std::string::npos)
      << cells.error().message;
  EXPECT_EQ(owner->reads(), 1u);
}

// A listing, whose fetcher would turn to the coordinator long before its turn came.
TEST_F(BoundedMountTest, WhoGoesFirstIsPaidForByThoseBehindIt) {
  const BlockRequest request = RequestFor({0, 65'536});
  options_.goes_first = true;
  const std::unique_ptr<BlockClient> first = NewClient(options_);
  ExpectRight(request, Read(request));
  ExpectRight(request, Run(first->Read(request, Deadline::After(std::chrono::seconds(20)))));
  EXPECT_EQ(bandwidth_.waited_seconds(), 0);
  bandwidth_.GiveBack(65'536);
  const Result<Cells> late = Read(request, milliseconds(100));
  ASSERT_FALSE(late) << "one of the two is still owed";
  EXPECT_NE(late.error().message.find("max_bandwidth"), std::string::npos) << late.error().message;
  EXPECT_TRUE(Eventually([&] { return OnThread([&] { return first->in_flight(); }) == 0; }));
}

TEST_F(BoundedMountTest, WhatANodeOfThisMachineHasIsNotCounted) {
  const fakes::TempDir dir;
  const std::string socket = dir / "node.sock";
  const BlockRequest request = RequestFor({0, 65'536});
  FakeNode* owner = OwnersOf(request)[0];
  fakes::FakeNode here(owner->Info().id, kTestSecret, "unix:" + socket);
  std::vector<NodeInfo> members = table_.nodes();
  for (NodeInfo& member : members) {
    if (member.id != owner->Info().id) continue;
    member.host_id = "this-host";
    member.local_socket = socket;
  }
  table_ = RingTable::Next(table_, members, 1'700'000'001);
  ring_.Offer(table_);
  for (int i = 0; i < 3; ++i) ExpectRight(request, Read(request));
  EXPECT_EQ(here.reads(), 3u);
  EXPECT_EQ(owner->reads(), 0u);
}

}  // namespace
}  // namespace forebay
