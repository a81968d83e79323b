#include "common/wire/tcp_options.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>

namespace forebay {
namespace {

constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS of Linux 6.15

/// -1: the kernel, or the kind of socket, lacks it.
int Get(StreamSocket& socket, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  const int got = ::getsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, &length);
  return got == 0 ? value : -1;
}

class TcpOptions : public ::testing::Test {
 protected:
  asio::io_context context_;
};

TEST_F(TcpOptions, ASocketThatIsLostIsGivenUpAfterTheGivenTime) {
  for (const auto& protocol : {asio::ip::tcp::v4(), asio::ip::tcp::v6()}) {
    StreamSocket socket(context_, StreamSocket::protocol_type(protocol));
    SetTcpOptions(socket, std::chrono::microseconds(3'999'500));
    EXPECT_NE(Get(socket, TCP_NODELAY), 0);
    EXPECT_EQ(Get(socket, TCP_USER_TIMEOUT), 4000);
    const int pause = Get(socket, kRtoMaxMs);
    EXPECT_TRUE(pause == 1000 || pause == -1) << pause;
  }
}

TEST_F(TcpOptions, WithoutATimeItIsTheKernelsOwn) {
  StreamSocket socket(context_, StreamSocket::protocol_type(asio::ip::tcp::v4()));
  SetTcpOptions(socket);
  EXPECT_NE(Get(socket, TCP_NODELAY), 0);
  EXPECT_EQ(Get(socket, TCP_USER_TIMEOUT), 0);
}

TEST_F(TcpOptions, AUnixSocketIsLeftAsItIs) {
  StreamSocket socket(context_, StreamSocket::protocol_type(asio::local::stream_protocol()));
  SetTcpOptions(socket, std::chrono::seconds(4));
  EXPECT_TRUE(socket.is_open());
}

}  // namespace
}  // namespace forebay
