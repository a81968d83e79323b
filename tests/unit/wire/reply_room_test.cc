#include "common/wire/reply_room.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace forebay {
namespace {

ReplyRoom::Payer PayerNamed(const std::string& id) {
  PeerIdentity peer;
  peer.role = proto::ROLE_CLIENT;
  peer.id = id;
  return ReplyRoom::PayerOf(peer);
}

class ReplyRoomTest : public ::testing::Test {
 protected:
  ReplyRoom room_{100};
  const ReplyRoom::Payer first_ = PayerNamed("first");
  const ReplyRoom::Payer second_ = PayerNamed("second");
  const ReplyRoom::Payer third_ = PayerNamed("third");
};

TEST_F(ReplyRoomTest, OnePeerHasHalfAndAllHaveTheWhole) {
  std::vector<ReplyRoom::Place> places;
  places.push_back(room_.Take(first_, 50));
  EXPECT_TRUE(places.back().taken());
  EXPECT_FALSE(room_.Take(first_, 1).taken()) << "its half is taken";
  places.push_back(room_.Take(second_, 49));
  EXPECT_TRUE(places.back().taken());
  EXPECT_FALSE(room_.Take(third_, 2).taken()) << "one byte is left";
  EXPECT_TRUE(room_.Take(third_, 1).taken());
  EXPECT_EQ(room_.refused(), 2u);
  EXPECT_EQ(room_.taken(), 99u);
  places.clear();
  EXPECT_EQ(room_.taken(), 0u);
  EXPECT_TRUE(room_.Take(third_, 50).taken()) << "what was refused was not counted for it";
}

TEST_F(ReplyRoomTest, WhatIsLargerThanTheHalfIsRefused) {
  EXPECT_FALSE(room_.Take(first_, 51).taken());
  EXPECT_EQ(room_.taken(), 0u);
}

TEST_F(ReplyRoomTest, BytesKeepTheirPlaceUntilNobodyHoldsThem) {
  auto buffer = std::make_shared<const Buffer>(40);
  const std::weak_ptr<const Buffer> alive = buffer;
  ReplyRoom::Place place = room_.Take(first_, 40);
  Slice kept = ReplyRoom::Keep(Slice::Of(std::move(buffer)), std::move(place));
  EXPECT_EQ(kept.bytes.size(), 40u);
  EXPECT_EQ(kept.bytes.data(), alive.lock()->data());
  Slice part = kept.Sub(10, 10);
  kept = {};
  EXPECT_EQ(room_.taken(), 40u) << "a part holds all of it";
  part = {};
  EXPECT_EQ(room_.taken(), 0u);
  EXPECT_TRUE(alive.expired());
}

TEST_F(ReplyRoomTest, APlaceIsLeftOnce) {
  ReplyRoom::Place place = room_.Take(first_, 10);
  ReplyRoom::Place moved = std::move(place);
  EXPECT_TRUE(moved.taken());
  moved.Leave();
  moved.Leave();
  EXPECT_FALSE(moved.taken());
  EXPECT_EQ(room_.taken(), 0u);
  moved = room_.Take(first_, 10);
  moved = room_.Take(second_, 20);
  EXPECT_EQ(room_.taken(), 20u);
}

}  // namespace
}  // namespace forebay
