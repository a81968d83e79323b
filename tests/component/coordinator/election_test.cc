#include "coordinator/election.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/fakes/etcd_server.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// In front of etcd: what it is to grant or to commit arrives late, everything else at once.
class SlowPath {
 public:
  SlowPath(std::string_view endpoint, Duration delay) : delay_(delay) {
    const std::string_view port = endpoint.substr(endpoint.rfind(':') + 1);
    std::from_chars(port.data(), port.data() + port.size(), to_port_);
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listening_, any, size) | ::listen(listening_, 16), 0);
    EXPECT_EQ(::getsockname(listening_, any, &size), 0);
    endpoint_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    accepting_ = std::jthread([this](const std::stop_token& stop) { Accept(stop); });
  }
  ~SlowPath() {
    accepting_.request_stop();
    accepting_.join();
    lines_.clear();
    ::close(listening_);
  }
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;

  const std::string& endpoint() const { return endpoint_; }

 private:
  static bool IsReadable(int fd) {
    pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&waited, 1, 20) > 0;
  }

  void Accept(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!IsReadable(listening_)) continue;
      const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
      lines_.emplace_back([this, client](const std::stop_token& end) { Relay(end, client); });
    }
  }

  void Relay(const std::stop_token& stop, int client) const {
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(to_port_);
    bool goes_on =
        ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    while (goes_on && !stop.stop_requested()) {
      if (IsReadable(client)) goes_on = Pass(client, server);
      if (goes_on && IsReadable(server)) goes_on = Pass(server, client);
    }
    ::close(server);
    ::close(client);
  }

  bool Pass(int from, int to) const {
    std::array<char, 1 << 14> bytes{};
    const ssize_t size = ::recv(from, bytes.data(), bytes.size(), 0);
    if (size <= 0) return false;
    const std::string_view passed(bytes.data(), static_cast<std::size_t>(size));
    const bool late =
        passed.starts_with("POST /v3/lease/grant ") || passed.starts_with("POST /v3/kv/txn ");
    if (late) std::this_thread::sleep_for(delay_);
    return ::send(to, passed.data(), passed.size(), MSG_NOSIGNAL) == size;
  }

  const Duration delay_;
  std::uint16_t to_port_ = 0;
  int listening_ = -1;
  std::string endpoint_;
  std::list<std::jthread> lines_;
  std::jthread accepting_;
};

// Whoever is elected late in a lease renews it before that ends.
TEST(ElectionTest, ASlowElectionIsNotFollowedByAGap) {
  const auto etcd = fakes::EtcdServer::Start();
  ASSERT_NE(etcd, nullptr) << "etcd does not start: ops/setup installs it";
  // The lease, one commit to say that it is there, and one to be elected: then less of the lease is
  // left than lies between renewals.
  const SlowPath slow(etcd->endpoint(), (Election::kLease - Election::kRenewEvery * 2 / 3) / 3);
  EtcdClient client(EtcdOptions{.endpoints = {slow.endpoint()}});
  Election election(client);
  election.Start("127.0.0.1:1");
  const Deadline deadline = Deadline::After(30s);
  while (!election.Leads() && !deadline.Expired()) std::this_thread::sleep_for(1ms);
  const std::int64_t term = election.Term();
  ASSERT_NE(term, 0);
  const Deadline watched = Deadline::After(Election::kLease);
  while (!watched.Expired()) {
    ASSERT_EQ(election.Term(), term);
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace
}  // namespace forebay
