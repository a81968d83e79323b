// max_bandwidth: bytes and the time that they take, from below alone: a slow machine takes longer.
#include <string>

#include "tests/component/cachenode/node_fixture.h"

namespace forebay {
namespace {

constexpr std::uint64_t kPerSecond = 4ULL << 20;
constexpr std::uint64_t kSize = 256ULL * 1024;  // one block
constexpr int kReads = 24;
/// 24 reads of 256 KiB are 6 MiB. All but the last are paid for before it, less what gathers in
/// 250 ms: 4.75 MiB, which take 1.19 s.
constexpr std::chrono::milliseconds kAtLeast{1100};

class BandwidthTest : public NodeTest {
 protected:
  BandwidthTest() { max_bandwidth_ = kPerSecond; }

  std::string Socket() const { return "unix:" + (dir_ / "node.sock"); }
  bool ReadOverSocket(const proto::ReadBlockRequest& request) {
    const Result<RpcReply> reply = client_.Call(Socket(), Method::kReadBlock, request);
    return reply && reply->payload.bytes.size() == kSize;
  }
  double Waited() {
    const std::string name = "\nforebay_send_wait_seconds_total ";
    const std::string text = metrics_.Render();
    const std::size_t at = text.find(name);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size()));
  }
};

TEST_F(BandwidthTest, WhatLeavesTheMachineIsBoundedAndItsOwnSocketIsNot) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/a", kSize);
  ASSERT_TRUE(ReadOverSocket(request));
  ASSERT_TRUE(Eventually([&] { return IsCached(request.block()); }));
  for (int i = 0; i < kReads; ++i) ASSERT_TRUE(ReadOverSocket(request));
  EXPECT_EQ(Waited(), 0);
  const TimePoint begin = Clock::now();
  for (int i = 0; i < kReads; ++i) ASSERT_TRUE(Read(request).has_value());
  EXPECT_GE(Clock::now() - begin, kAtLeast);
  EXPECT_GT(Waited(), 0);
  EXPECT_EQ(s3_.gets(), 1U);
}

TEST_F(BandwidthTest, WhatComesFromS3IsBounded) {
  StartNode();
  const TimePoint begin = Clock::now();
  for (int i = 0; i < kReads; ++i)
    ASSERT_TRUE(ReadOverSocket(RequestFor("data/" + std::to_string(i), kSize)));
  EXPECT_GE(Clock::now() - begin, kAtLeast);
  EXPECT_EQ(s3_.gets(), static_cast<std::uint64_t>(kReads));
}

TEST_F(BandwidthTest, WithoutABoundNobodyWaits) {
  max_bandwidth_ = 0;
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/a", kSize);
  for (int i = 0; i < kReads; ++i) ASSERT_TRUE(Read(request).has_value());
  EXPECT_EQ(Waited(), 0);
}

}  // namespace
}  // namespace forebay
