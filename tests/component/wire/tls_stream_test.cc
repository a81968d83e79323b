#include "common/wire/tls_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/fakes/test_cluster.h"

// TLS over a socket, without what sends frames through it.
namespace forebay {
namespace {

using boost::system::error_code;
using Strings = std::vector<std::string>;

// What a record has around it with AES-GCM: a header, its type and a tag (RFC 8446 section 5.2).
constexpr std::size_t kAround = 22;

std::vector<asio::const_buffer> BuffersOf(const Strings& parts, std::size_t skip) {
  std::vector<asio::const_buffer> buffers;
  for (const std::string& part : parts) {
    const std::size_t gone = std::min(skip, part.size());
    skip -= gone;
    buffers.emplace_back(part.data() + gone, part.size() - gone);
  }
  return buffers;
}

/// Two ends of a connection whose sockets hold little, so that each often waits for the other.
class TlsStreams : public testing::Test {
 protected:
  void Connect(std::uint64_t records_per_key = TlsStream::kRecordsPerKey, int socket_bytes = 0) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    for (const int end : ends) {
      if (socket_bytes == 0) continue;
      ASSERT_EQ(setsockopt(end, SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof socket_bytes), 0);
    }
    near_ = std::make_unique<StreamSocket>(context_, protocol_, ends[0]);
    far_ = std::make_unique<StreamSocket>(context_, protocol_, ends[1]);
    client_ = std::make_unique<TlsStream>(*near_, ContextOf(proto::ROLE_CLIENT)->NewClient(),
                                          Side::kClient, records_per_key);
    server_ = std::make_unique<TlsStream>(*far_, ContextOf(proto::ROLE_NODE)->NewServer(),
                                          Side::kServer, records_per_key);
  }

  void Shake() {
    error_code of_client;
    error_code of_server;
    bool open = true;
    for (int turn = 0; open && turn < kTurns; ++turn) {
      const bool client_waits = client_->Shake(of_client).has_value();
      const bool server_waits = server_->Shake(of_server).has_value();
      open = client_waits || server_waits;
    }
    ASSERT_FALSE(open || of_client || of_server) << of_client.message() << of_server.message();
  }

  /// Sends `parts` from one end to the other, as much at a time as goes; how many calls of Read
  /// brought something.
  static std::size_t Carry(TlsStream& from, TlsStream& to, const Strings& parts, std::size_t room) {
    std::string all;
    for (const std::string& part : parts) all += part;
    std::string got(all.size(), '\0');
    std::size_t taken = 0;
    std::size_t have = 0;
    std::size_t reads = 0;
    while (have < all.size()) {
      error_code error;
      if (taken < all.size()) taken += from.Write(BuffersOf(parts, taken), error);
      EXPECT_TRUE(!error || error == asio::error::would_block) << error.message();
      const std::size_t most = std::min(room, all.size() - have);
      const std::size_t more = to.Read(asio::mutable_buffer(got.data() + have, most), error);
      EXPECT_TRUE(!error || error == asio::error::would_block) << error.message();
      if (more > 0) ++reads;
      have += more;
      if (testing::Test::HasFailure()) return 0;
    }
    EXPECT_EQ(taken, all.size());
    EXPECT_TRUE(got == all);
    return reads;
  }

  std::shared_ptr<const TlsContext> ContextOf(proto::Role role) const {
    return TlsContext::Of(cluster_.Member(role, "m1")).value();
  }

  std::string Noise(std::size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  static constexpr int kTurns = 100;
  const TestCluster cluster_;
  const asio::generic::stream_protocol protocol_{AF_UNIX, 0};
  asio::io_context context_;
  std::mt19937 random_{7};
  std::unique_ptr<StreamSocket> near_;
  std::unique_ptr<StreamSocket> far_;
  std::unique_ptr<TlsStream> client_;
  std::unique_ptr<TlsStream> server_;
};

TEST_F(TlsStreams, CarriesAllSizesBothWaysThroughSmallSockets) {
  ASSERT_NO_FATAL_FAILURE(Connect(TlsStream::kRecordsPerKey, 4096));
  ASSERT_NO_FATAL_FAILURE(Shake());
  for (int turn = 0; turn < 60; ++turn) {
    Strings parts;
    for (std::size_t i = 0; i <= random_() % 5; ++i) {
      const std::size_t order = std::size_t{1} << (random_() % 18);
      parts.push_back(Noise(random_() % (2 * order)));
    }
    const std::size_t room = 1 + random_() % 50'000;
    Carry(*client_, *server_, parts, room);
    Carry(*server_, *client_, parts, room);
    if (HasFailure()) return;
  }
}

TEST_F(TlsStreams, AMegabyteTakesFewCalls) {
  ASSERT_NO_FATAL_FAILURE(Connect(TlsStream::kRecordsPerKey, 1 << 20));
  ASSERT_NO_FATAL_FAILURE(Shake());
  const Strings frame = {Noise(60), Noise(std::size_t{1} << 20)};
  // Of 16 KiB each it would be 65.
  EXPECT_LE(Carry(*server_, *client_, frame, std::size_t{2} << 20), 6u);
}

TEST_F(TlsStreams, SmallPartsShareRecords) {
  ASSERT_NO_FATAL_FAILURE(Connect(TlsStream::kRecordsPerKey, 1 << 20));
  ASSERT_NO_FATAL_FAILURE(Shake());
  const std::uint64_t before = server_->sent_bytes();
  Strings parts;
  for (int i = 0; i < 100; ++i) parts.push_back(Noise(100));
  Carry(*server_, *client_, parts, 1 << 16);
  EXPECT_EQ(server_->sent_bytes() - before, 10'000u + kAround) << "one record";
}

TEST_F(TlsStreams, KeysAreRenewed) {
  ASSERT_NO_FATAL_FAILURE(Connect(3, 1 << 16));
  ASSERT_NO_FATAL_FAILURE(Shake());
  const std::uint64_t before = server_->sent_bytes();
  const std::size_t bytes = std::size_t{16} * 16'384;
  Carry(*server_, *client_, {Noise(bytes)}, std::size_t{1} << 20);
  Carry(*client_, *server_, {Noise(bytes)}, std::size_t{1} << 20);
  // A record of 5 bytes (RFC 8446 section 4.6.3) before the 4th, 7th, 10th, 13th and 16th.
  EXPECT_EQ(server_->sent_bytes() - before, bytes + 16 * kAround + 5 * (5 + kAround));
}

TEST_F(TlsStreams, WhatIsBentOnItsWayIsNotRead) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  ASSERT_NO_FATAL_FAILURE(Shake());
  error_code error;
  const Strings parts = {Noise(1000)};
  ASSERT_EQ(server_->Write(BuffersOf(parts, 0), error), 1000u);
  std::string sealed(2000, '\0');
  const ssize_t size = recv(near_->native_handle(), sealed.data(), sealed.size(), MSG_DONTWAIT);
  ASSERT_EQ(size, 1022);
  sealed[500] = static_cast<char>(sealed[500] ^ 1);
  ASSERT_EQ(send(far_->native_handle(), sealed.data(), 1022, 0), 1022);
  std::string got(1000, '\0');
  EXPECT_EQ(client_->Read(asio::mutable_buffer(got.data(), got.size()), error), 0u);
  EXPECT_EQ(error.category().name(), std::string("TLS")) << error.message();
}

TEST_F(TlsStreams, AnEndIsAnEnd) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  ASSERT_NO_FATAL_FAILURE(Shake());
  error_code error;
  const Strings parts = {Noise(1000)};
  ASSERT_EQ(server_->Write(BuffersOf(parts, 0), error), 1000u);
  ASSERT_EQ(shutdown(far_->native_handle(), SHUT_WR), 0);
  std::string got(2000, '\0');
  EXPECT_EQ(client_->Read(asio::mutable_buffer(got.data(), got.size()), error), 1000u);
  EXPECT_FALSE(error);
  EXPECT_EQ(client_->Read(asio::mutable_buffer(got.data(), got.size()), error), 0u);
  EXPECT_EQ(error, asio::error::eof);
}

/// A client that says what it wants to the server's stream.
class TlsFloods : public TlsStreams {
 protected:
  void Connect() {
    ASSERT_NO_FATAL_FAILURE(TlsStreams::Connect(TlsStream::kRecordsPerKey, 1 << 20));
    client_.reset();
    peer_.reset(ContextOf(proto::ROLE_CLIENT)->NewClient());
    const int fd = near_->native_handle();
    ASSERT_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    ASSERT_EQ(SSL_set_fd(peer_.get(), fd), 1);
    SSL_set_connect_state(peer_.get());
    bool client_waits = true;
    bool server_waits = true;
    error_code error;
    for (int turn = 0; (client_waits || server_waits) && turn < kTurns; ++turn) {
      client_waits = SSL_do_handshake(peer_.get()) != 1;
      server_waits = server_->Shake(error).has_value();
    }
    ASSERT_FALSE(client_waits || server_waits || error) << error.message();
  }

  /// Sends `count` messages that change its keys and ask the server to do the same.
  void ChangeKeys(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(SSL_key_update(peer_.get(), SSL_KEY_UPDATE_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(peer_.get()), 1) << i;
    }
  }

  void Bring(const std::string& bytes) {
    std::size_t taken = 0;
    ASSERT_EQ(SSL_write_ex(peer_.get(), bytes.data(), bytes.size(), &taken), 1);
    ASSERT_EQ(taken, bytes.size());
  }

  /// What one call of the server's Read says.
  std::size_t Read(error_code& error) {
    return server_->Read(asio::mutable_buffer(room_.data(), room_.size()), error);
  }

  const std::size_t most_ = TlsStream::kMostMessages;
  std::string room_ = std::string(std::size_t{1} << 20, '\0');
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> peer_{nullptr, SSL_free};
};

// A change of keys costs its sender 27 bytes, and the receiver a hundred times what they do.
TEST_F(TlsFloods, APeerThatOnlyChangesItsKeysIsCutOff) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  const std::uint64_t before = server_->sent_bytes();
  ASSERT_NO_FATAL_FAILURE(ChangeKeys(500));
  error_code error;
  EXPECT_EQ(Read(error), 0u);
  EXPECT_EQ(error.message(), "the peer changes its keys again and again");
  EXPECT_LE(server_->sent_bytes() - before, most_ * (5 + kAround)) << "what it asked for";
  error.clear();
  EXPECT_EQ(Read(error), 0u);
  EXPECT_TRUE(error && error != asio::error::would_block) << "it stays so";
}

TEST_F(TlsFloods, AFewBytesBetweenThemMakeNoDifference) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  error_code error;
  for (std::size_t i = 0; i < most_; ++i) {
    ASSERT_NO_FATAL_FAILURE(ChangeKeys(1));
    ASSERT_NO_FATAL_FAILURE(Bring("x"));
    ASSERT_EQ(Read(error), 1u) << i;
    ASSERT_FALSE(error) << error.message();
  }
  ASSERT_NO_FATAL_FAILURE(ChangeKeys(1));
  ASSERT_NO_FATAL_FAILURE(Bring("x"));
  EXPECT_EQ(Read(error), 0u);
  EXPECT_EQ(error.message(), "the peer changes its keys again and again");
}

TEST_F(TlsFloods, WhoeverBringsWhatItsKeysAreForMayChangeThem) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  const std::string record = Noise(16'384);
  error_code error;
  for (std::size_t i = 0; i < 10 * most_; ++i) {
    ASSERT_NO_FATAL_FAILURE(ChangeKeys(1));
    ASSERT_NO_FATAL_FAILURE(Bring(record));
    ASSERT_EQ(Read(error), record.size()) << i << ": " << error.message();
    std::size_t got = 0;
    EXPECT_EQ(SSL_read_ex(peer_.get(), room_.data(), room_.size(), &got), 0);
    ASSERT_EQ(SSL_get_error(peer_.get(), 0), SSL_ERROR_WANT_READ) << "it takes the answers";
  }
}

TEST_F(TlsFloods, AnswersThatThePeerDoesNotTakeAreBounded) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  const int small = 4096;
  ASSERT_EQ(setsockopt(far_->native_handle(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  const std::string record = Noise(16'384);
  error_code error;
  int turns = 0;
  for (; !error && turns < 1000; ++turns) {
    ASSERT_NO_FATAL_FAILURE(ChangeKeys(static_cast<int>(most_)));
    ASSERT_NO_FATAL_FAILURE(Bring(record));
    Read(error);
  }
  EXPECT_EQ(error.message(), "the peer does not take the answers of TLS itself");
  EXPECT_GT(turns, 10);
}

}  // namespace
}  // namespace forebay
