#include "fuse-client/file_places.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "common/model/limits.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"
#include "tests/component/fuse-client/client_fixture.h"
#include "tests/fakes/fake_server.h"

namespace forebay {
namespace {

Credentials OfNode() {
  Credentials credentials;
  credentials.role = proto::ROLE_NODE;
  credentials.id = "n1";
  credentials.program = "test";
  credentials.secret = Secret(kTestSecret);
  return credentials;
}

class FilePlacesTest : public ClientFixture {
 protected:
  FilePlacesTest() {
    NodeInfo node;
    node.id = "n1";
    node.address = node_.address();
    node.capacity_bytes = 1 << 30;
    ring_.Offer(RingTable::Next(RingTable(), {node}, 0));
  }

  // Before the node and what it answers from.
  ~FilePlacesTest() override {
    StopThread();
    node_.Stop();
  }

  /// The node has all blocks but those that begin at `missing_`.
  Task<Result<RpcReply>> CheckBlocks(RpcCall call) {
    proto::CheckBlocksRequest request;
    const Status parsed = ParseMessage(call.message, request);
    if (!parsed) co_return Fail(parsed.error());
    if (fails_) co_return Fail(Code::kUnavailable, "not now");
    const auto count = static_cast<std::size_t>(request.blocks_size());
    std::string present((count + 7) / 8, '\0');
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t offset = FromProto(request.blocks(static_cast<int>(i))).offset;
      if (std::ranges::find(missing_, offset) != missing_.end()) continue;
      present[i / 8] = static_cast<char>(static_cast<unsigned char>(present[i / 8]) | 1U << i % 8);
    }
    proto::CheckBlocksReply reply;
    reply.set_present(std::move(present));
    co_return ReplyWith(reply);
  }

  std::string CachedOf(std::uint64_t size) {
    FileSystem::Content file;
    file.object = {"key", "etag", size};
    FilePlaces places({.pool = *pool_, .ring = ring_}, Uuid::Random(), kMinBlockBytes);
    return Run(places.Cached(std::move(file), Deadline::After(std::chrono::seconds(20))));
  }

  static std::uint64_t MostMemory() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
  }

  std::vector<std::uint64_t> missing_;
  bool fails_ = false;
  fakes::FakeServer node_{OfNode(), "127.0.0.1:0", {{Method::kCheckBlocks, [this](RpcCall call) {
                                                       return CheckBlocks(std::move(call));
                                                     }}}};
};

TEST_F(FilePlacesTest, WhatTheOwnersHoldOfAFileIsCounted) {
  EXPECT_EQ(CachedOf(0), "0/0");
  EXPECT_EQ(CachedOf(1000), "1000/1000");
  const std::uint64_t most = FilePlaces::kBlocksAtOnce * kMinBlockBytes;
  const std::uint64_t size = most + kMinBlockBytes + 5;
  EXPECT_EQ(CachedOf(size), std::to_string(size) + "/" + std::to_string(size));
  missing_ = {kMinBlockBytes, most, most + kMinBlockBytes};
  const std::uint64_t less = size - 2 * kMinBlockBytes - 5;
  EXPECT_EQ(CachedOf(size), std::to_string(less) + "/" + std::to_string(size));
}

// One getfattr by anybody, of 67 million blocks.
TEST_F(FilePlacesTest, AFileOfAnySizeTakesLittleMemory) {
  fails_ = true;
  EXPECT_EQ(CachedOf(kMinBlockBytes), "unknown");
  const std::uint64_t before = MostMemory();
  EXPECT_EQ(CachedOf(kMaxObjectBytes), "unknown");
  EXPECT_LT(MostMemory() - before, 128ULL << 20);
}

}  // namespace
}  // namespace forebay
