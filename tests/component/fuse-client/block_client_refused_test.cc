// Owners that refuse, or are refused.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/component/fuse-client/block_client_fixture.h"

namespace forebay {
namespace {

// S3 refuses what it asks, for its clock or its keys.
TEST_F(BlockClientTest, AnOwnerThatIsRefusedByS3IsPassedOver) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->OnRead(Always(Code::kDenied));
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[0]->reads(), 1u);
  EXPECT_EQ(owners[1]->reads(), 1u);
  EXPECT_EQ(owners[2]->reads(), 0u);
}

TEST_F(BlockClientTest, WhatAnotherOwnerKnowsCountsMoreThanARefusal) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->OnRead(Always(Code::kDenied));
  owners[1]->OnRead(Always(Code::kStale));
  EXPECT_EQ(Read(request).error().code, Code::kStale);
  EXPECT_EQ(owners[2]->reads(), 0u);
}

TEST_F(BlockClientTest, WhatEveryOwnerIsRefusedEndsAtOnceWithWhatTheFirstOneSays) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  for (const auto& owner : owners) owner->OnRead(Always(Code::kDenied));
  owners[2]->OnRead(Always(Code::kUnavailable));
  const Result<Cells> cells = Read(request);
  EXPECT_EQ(cells.error().code, Code::kDenied);
  EXPECT_NE(cells.error().message.find(owners[0]->Info().id), std::string::npos)
      << cells.error().message;
  EXPECT_EQ(owners[0]->reads(), 1u);
  EXPECT_EQ(owners[1]->reads(), 1u);
}

// One whose clock is wrong takes certificates for ended or not begun that all others believe.
TEST_F(BlockClientTest, AnOwnerThatTakesNoConnectionOfOursIsPassedOver) {
  const BlockRequest request = RequestFor({0, 4096});
  const std::string first = OwnersOf(request)[0]->Info().id;
  nodes_.at(first) = std::make_unique<fakes::FakeNode>(first, "another secret");
  Publish(table_);
  ExpectRight(request, Read(request));
  EXPECT_EQ(OwnersOf(request)[0]->reads(), 0u);
}

TEST_F(BlockClientTest, WhatAllOwnersRefuseIsRefused) {
  for (auto& [id, node] : nodes_) node = std::make_unique<fakes::FakeNode>(id, "another secret");
  Publish(table_);
  EXPECT_EQ(Read(RequestFor({0, 4096})).error().code, Code::kDenied);
}

}  // namespace
}  // namespace forebay
