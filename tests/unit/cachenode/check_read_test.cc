#include <functional>
#include <limits>
#include <string>

#include "cachenode/service.h"
#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

/// A good request for the last, short block of an object, to be bent.
class CheckReadTest : public ::testing::Test {
 protected:
  CheckReadTest() {
    request_.link = link_.id;
    request_.object = TestObject("data/train/a.jpg", 3 * link_.block_bytes + 1000);
    request_.range = {10, 1000};
    Identify();
  }

  /// Names the block that the object's fields say.
  void Identify() {
    const ObjectRef& object = request_.object;
    const ObjectVersion version = VersionOf(link_, object.key, object.etag, object.size);
    request_.block = BlockAt(version, object.size, link_.block_bytes, 3 * link_.block_bytes);
  }

  void ExpectInvalid(const std::string& what) const {
    const Status checked = CheckRead(link_, request_);
    ASSERT_FALSE(checked.has_value()) << what << " is accepted";
    EXPECT_EQ(checked.error().code, Code::kInvalid);
    EXPECT_NE(checked.error().message.find(what), std::string::npos) << checked.error().message;
  }

  LinkSpec link_ = TestLink();
  BlockRequest request_;
};

TEST_F(CheckReadTest, AGoodRequestPasses) {
  EXPECT_TRUE(CheckRead(link_, request_).has_value());
  request_.range = {0, request_.block.length};
  EXPECT_TRUE(CheckRead(link_, request_).has_value());
}

TEST_F(CheckReadTest, TheVersionMustFollowFromTheObject) {
  const BlockRequest good = request_;
  request_.object.etag += "0";
  ExpectInvalid("is no block of");
  request_ = good;
  request_.object.key = "data/train/b.jpg";
  ExpectInvalid("is no block of");
  request_ = good;
  ++request_.object.size;
  ExpectInvalid("is no block of");
  request_ = good;
  ++request_.block.version.low;
  ExpectInvalid("is no block of");
}

TEST_F(CheckReadTest, AnotherSharingDomainIsAnotherObject) {
  link_.domain = Uuid::Random();
  ExpectInvalid("is no block of");
}

TEST_F(CheckReadTest, TheKeyMustBeTheLinks) {
  for (const std::string key : {"other/a.jpg", "data", "data2/a.jpg", "", "dat\xFF\n"}) {
    request_.object.key = key;
    Identify();
    ExpectInvalid("is not part of link data");
  }
}

TEST_F(CheckReadTest, ALinkToOneObjectTakesThatOneAlone) {
  link_.origin.prefix = "data/train/a.jpg";
  Identify();
  EXPECT_TRUE(CheckRead(link_, request_).has_value());
  request_.object.key = "data/train/a.jpg2";
  Identify();
  ExpectInvalid("is not part of link data");
}

TEST_F(CheckReadTest, RawBytesOfAKeyAreNotRepeatedRaw) {
  request_.object.key = "x\xFF\n";
  Identify();
  const Status checked = CheckRead(link_, request_);
  ASSERT_FALSE(checked.has_value());
  for (const char c : checked.error().message) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST_F(CheckReadTest, TheBlockMustLieInTheObject) {
  const BlockRequest good = request_;
  ++request_.block.offset;
  ExpectInvalid("is no part of an object");
  request_ = good;
  ++request_.block.length;
  ExpectInvalid("is no part of an object");
  request_ = good;
  request_.block.offset = std::numeric_limits<std::uint64_t>::max() - 10;
  ExpectInvalid("is no part of an object");
  request_ = good;
  request_.block.length = 0;
  ExpectInvalid("is no part of an object");
  request_ = good;
  request_.object.size = 0;
  ExpectInvalid("is no part of an object");
}

TEST_F(CheckReadTest, ABlockIsNoLongerThanBlocksMayBe) {
  request_.object.size = 100 * kMaxBlockBytes;
  Identify();
  request_.block.offset = 0;
  request_.block.length = kMaxBlockBytes;
  EXPECT_TRUE(CheckRead(link_, request_).has_value());
  ++request_.block.length;
  ExpectInvalid("is no part of an object");
}

TEST_F(CheckReadTest, TheRangeMustLieInTheBlock) {
  for (const BlockRange range : {BlockRange{0, 0}, BlockRange{10, 5}, BlockRange{0, 1001},
                                 BlockRange{1000, 1001}, BlockRange{4'000'000'000, 10}}) {
    request_.range = range;
    ExpectInvalid("is not inside a block");
  }
}

TEST_F(CheckReadTest, OneReadAsksForNoMoreThanAFrameCarries) {
  request_.object.size = 100 * kMaxBlockBytes;
  Identify();
  request_.block.offset = 0;
  request_.block.length = kMaxBlockBytes;
  request_.range = {0, kMaxPayloadBytes};
  EXPECT_TRUE(CheckRead(link_, request_).has_value());
  request_.range = {1, kMaxPayloadBytes + 1};
  ExpectInvalid("at most");
}

}  // namespace
}  // namespace forebay
