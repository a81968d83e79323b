#include "common/model/fence.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/wire/messages.h"

namespace forebay {
namespace {

const Uuid kFirst = Uuid::Random();
const Uuid kSecond = Uuid::Random();

Fence Of(std::uint64_t epoch, const Uuid& claim, std::uint64_t links, std::uint64_t ring) {
  return Fence{.epoch = epoch, .claim = claim, .state = StateVersion{.links = links, .ring = ring}};
}

TEST(Fence, TheSameCoordinatorIsBelievedWhateverItBeganWith) {
  EXPECT_TRUE(Believes(Of(7, kFirst, 12, 5), Of(7, kFirst, 3, 2)));
  EXPECT_FALSE(Believes(Of(7, kFirst, 12, 5), Of(7, kSecond, 12, 5))) << "two from one state";
  EXPECT_FALSE(Believes(Of(7, kFirst, 12, 5), Of(6, kFirst, 99, 99)));
}

TEST(Fence, ALaterOneIsBelievedIfItBeganWithWhatWasShown) {
  const Fence heard = Of(7, kFirst, 12, 5);
  EXPECT_TRUE(Believes(heard, Of(8, kSecond, 12, 5)));
  EXPECT_TRUE(Believes(heard, Of(9, kSecond, 13, 6)));
  EXPECT_FALSE(Believes(heard, Of(8, kSecond, 11, 5))) << "a link less";
  EXPECT_FALSE(Believes(heard, Of(8, kSecond, 12, 4))) << "an older ring";
  EXPECT_FALSE(Believes(heard, Of(std::numeric_limits<std::uint64_t>::max(), kSecond, 0, 0)));
}

TEST(Fence, ReleasesThatDoNotSayItAreBelievedByTheirEpoch) {
  const Fence before{.epoch = 8, .claim = kSecond};
  EXPECT_TRUE(Believes(Of(7, kFirst, 12, 5), before));
  EXPECT_TRUE(Believes(before, Of(9, kFirst, 0, 0)));
  EXPECT_TRUE(Believes(Fence(), before)) << "nobody was heard of";
  EXPECT_TRUE(Believes(Of(0, Uuid(), 12, 5), Of(1, kFirst, 0, 0)));
  EXPECT_TRUE(Believes(Fence(), Fence()));
  EXPECT_FALSE(Believes(before, Fence()));
}

TEST(Fence, IsTheSameAfterTheWire) {
  for (const Fence& fence :
       {Fence(), Fence{.epoch = 8, .claim = kSecond}, Of(7, kFirst, 12, 5), Of(1, kFirst, 0, 0)}) {
    proto::Fence message;
    ASSERT_TRUE(message.ParseFromString(ToProto(fence).SerializeAsString()));
    EXPECT_EQ(FromProto(message), fence);
  }
}

}  // namespace
}  // namespace forebay
