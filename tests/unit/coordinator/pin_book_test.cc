#include "coordinator/pin_book.h"

#include <gtest/gtest.h>

#include "common/wire/messages.h"
#include "coordinator/task_book.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

class PinBookTest : public testing::Test {
 protected:
  PinBookTest() : fence_(*store_.Claim()), links_(store_, fence_, tasks_), pins_(store_, links_) {
    link_ = TestLink("data", "bucket", "p/");
    EXPECT_TRUE(links_.Add(link_).has_value());
  }

  proto::PinRecord Pin(const std::string& path, std::uint64_t bytes = 10, bool folder = true) {
    proto::PinRecord pin;
    pin.set_link(BytesOf(link_.id));
    pin.set_path(path);
    pin.set_folder(folder);
    pin.set_bytes(bytes);
    return pin;
  }
  bool Put(const proto::PinRecord& pin) { return pins_.Put(pin).value_or(false); }
  LinkSpec Spec() { return links_.FindById(link_.id)->spec; }

  MemoryStateStore store_;
  const std::uint64_t fence_;
  TaskBook tasks_;
  LinkRegistry links_;
  PinBook pins_;
  LinkSpec link_;
};

TEST_F(PinBookTest, ALinkCarriesItsPinsAndAVersionOfThoseOfPaths) {
  ASSERT_TRUE(Put(Pin("")));
  EXPECT_EQ(Spec().pins, (std::vector<std::string>{""}));
  EXPECT_EQ(Spec().pins_version, 0u) << "a link that is pinned as a whole needs no blocks named";
  ASSERT_TRUE(Put(Pin("train")));
  ASSERT_TRUE(Put(Pin("a.bin", 10, false)));
  EXPECT_EQ(Spec().pins, (std::vector<std::string>{"", "a.bin", "train/"}));
  const std::uint64_t version = Spec().pins_version;
  EXPECT_GT(version, 0u);
  EXPECT_TRUE(*pins_.Remove(link_.id, ""));
  EXPECT_EQ(Spec().pins_version, version);
  EXPECT_TRUE(*pins_.Remove(link_.id, "train"));
  EXPECT_GT(Spec().pins_version, version);
  EXPECT_FALSE(*pins_.Remove(link_.id, "train"));
}

TEST_F(PinBookTest, PinningAgainChangesOnlyTheLease) {
  proto::PinRecord pin = Pin("train");
  pin.set_since_unix_s(100);
  ASSERT_TRUE(Put(pin));
  const std::uint64_t version = Spec().pins_version;
  pin.set_since_unix_s(200);
  EXPECT_FALSE(Put(pin)) << "it is so already";
  pin.set_until_unix_s(300);
  EXPECT_TRUE(Put(pin));
  EXPECT_EQ(pins_.Find(link_.id, "train")->since_unix_s(), 100);
  EXPECT_EQ(pins_.Find(link_.id, "train")->until_unix_s(), 300);
  EXPECT_EQ(Spec().pins_version, version);
}

TEST_F(PinBookTest, ARestartKnowsThePins) {
  ASSERT_TRUE(Put(Pin("train")));
  PinBook again(store_, links_);
  ASSERT_TRUE(again.Load().has_value());
  ASSERT_EQ(again.All().size(), 1u);
  EXPECT_EQ(again.All()[0].path(), "train");
}

TEST_F(PinBookTest, WhatCannotBeStoredIsNotPinned) {
  store_.fail_writes = true;
  EXPECT_FALSE(pins_.Put(Pin("train")).has_value());
  EXPECT_TRUE(pins_.All().empty());
  EXPECT_TRUE(Spec().pins.empty());
}

TEST_F(PinBookTest, ANewGenerationIsToldAgain) {
  ASSERT_TRUE(Put(Pin("train")));
  const std::uint64_t version = Spec().pins_version;
  proto::GenerationInfo generation;
  generation.set_generation(1);
  ASSERT_TRUE(links_.Publish(link_.id, generation, {}).has_value());
  EXPECT_GT(Spec().pins_version, version);
}

TEST_F(PinBookTest, EachByteCountsOnceHoweverManyPinsCoverIt) {
  EXPECT_EQ(PinnedBytes({Pin("a", 100), Pin("a/b", 40), Pin("ab", 7), Pin("a/c", 5, false)}), 107u);
  EXPECT_EQ(PinnedBytes({Pin("", 1000), Pin("a", 100)}), 1000u);
  proto::PinRecord other = Pin("a/b", 40);
  other.set_link(BytesOf(Uuid::Random()));
  EXPECT_EQ(PinnedBytes({Pin("a", 100), other}), 140u);
}

}  // namespace
}  // namespace forebay
