#include "common/wire/half_open.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/model/limits.h"

namespace forebay {
namespace {

/// Sockets that nobody is connected to, as if they came from the addresses that a test says.
class HalfOpenTest : public testing::Test {
 protected:
  void Make(std::size_t most, std::size_t room) { table_ = std::make_shared<HalfOpen>(most, room); }

  /// False: it is refused.
  bool Enter(const std::string& address) {
    const StreamEndpoint peer(asio::ip::tcp::endpoint(asio::ip::make_address(address), 1));
    auto socket = std::make_shared<StreamSocket>(context_);
    socket->open({AF_UNIX, SOCK_STREAM});
    std::optional<HalfOpen::Place> place = HalfOpen::Enter(table_, socket, peer);
    if (!place) return false;
    entered_.push_back({socket, std::move(place)});
    Turn();
    return true;
  }

  void Prove(std::size_t which) { entered_[which].place->Prove(); }
  void Leave(std::size_t which) { entered_[which].place.reset(); }
  bool IsOpen(std::size_t which) const { return entered_[which].socket->is_open(); }
  std::size_t OpenOf(std::size_t first, std::size_t count) const {
    std::size_t open = 0;
    for (std::size_t i = first; i < first + count; ++i) open += IsOpen(i) ? 1 : 0;
    return open;
  }

 private:
  void Turn() {
    context_.restart();
    context_.poll();
  }

  struct Entered {
    std::shared_ptr<StreamSocket> socket;
    std::optional<HalfOpen::Place> place;
  };
  asio::io_context context_;
  std::shared_ptr<HalfOpen> table_;
  std::vector<Entered> entered_;  // all of them, in their order
};

constexpr std::size_t kRoom = 800;
constexpr std::size_t kMost = 400;

std::string InNetwork(int n) { return "2001:db8:0:7::" + std::to_string(n + 1); }

TEST_F(HalfOpenTest, WhoeverHasANetworkOf64BitsHasOneCrowdInIt) {
  Make(kMost, kRoom);
  ASSERT_TRUE(Enter("2001:db8:0:8::1"));
  ASSERT_TRUE(Enter("192.0.2.1"));
  constexpr int kCrowd = 300;
  for (int i = 0; i < kCrowd; ++i) ASSERT_TRUE(Enter(InNetwork(i)));
  EXPECT_EQ(OpenOf(2, kCrowd), kMost / 4);
  EXPECT_EQ(OpenOf(2 + kCrowd - kMost / 4, kMost / 4), kMost / 4) << "the oldest make way";
  EXPECT_EQ(OpenOf(0, 2), 2u) << "others do not";
}

TEST_F(HalfOpenTest, OneAddressOfItHasItsOwnCrowd) {
  Make(kMost, kRoom);
  ASSERT_TRUE(Enter(InNetwork(1)));
  constexpr std::size_t kCrowd = kMaxHalfOpenPerAddress + 10;
  for (std::size_t i = 0; i < kCrowd; ++i) ASSERT_TRUE(Enter(InNetwork(2)));
  EXPECT_EQ(OpenOf(1, kCrowd), kMaxHalfOpenPerAddress);
  EXPECT_FALSE(IsOpen(1));
  EXPECT_TRUE(IsOpen(0));
}

// As a socket that listens on [::] sees them: all of them in one network.
TEST_F(HalfOpenTest, AnIPv4AddressIsTheSameOneWhenItIsWrittenAsIPv6) {
  Make(kMost, kRoom);
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(Enter("::ffff:198.51.100." + std::to_string(i)));
  EXPECT_EQ(OpenOf(0, 150), 150u);
  for (std::size_t i = 0; i < kMaxHalfOpenPerAddress; ++i)
    ASSERT_TRUE(Enter(i % 2 == 0 ? "198.51.100.0" : "::ffff:198.51.100.0"));
  EXPECT_FALSE(IsOpen(0));
  EXPECT_EQ(OpenOf(1, 149), 149u);
}

TEST_F(HalfOpenTest, WhereAllIsTakenTheOldestThatStillWaitsMakesWay) {
  Make(2, 4);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(Enter("192.0.2.1"));
    Prove(i);
  }
  ASSERT_TRUE(Enter("192.0.2.2"));
  ASSERT_TRUE(Enter("192.0.2.3")) << "3 have proved who they are, 1 waits";
  EXPECT_EQ(OpenOf(0, 3), 3u);
  EXPECT_FALSE(IsOpen(3));
  EXPECT_TRUE(IsOpen(4));
  Prove(3);
  Leave(3);
  ASSERT_TRUE(Enter("192.0.2.4")) << "who was closed before proves nothing";
  Prove(5);
  EXPECT_FALSE(Enter("192.0.2.5")) << "nobody waits";
  EXPECT_EQ(OpenOf(0, 3), 3u);
  EXPECT_TRUE(IsOpen(5));
  Leave(0);
  EXPECT_TRUE(Enter("192.0.2.6"));
}

// Whoever was closed has its socket until its event loop has turned.
TEST_F(HalfOpenTest, ThoseOnTheirWayOutAreBounded) {
  Make(2, 4);
  std::size_t entered = 0;
  while (entered < 1000 && Enter("192.0.2." + std::to_string(entered))) ++entered;
  EXPECT_EQ(entered, 2 + 2 + kMaxHalfOpenPerAddress);
  Leave(0);
  EXPECT_TRUE(Enter("192.0.2.1"));
}

}  // namespace
}  // namespace forebay
