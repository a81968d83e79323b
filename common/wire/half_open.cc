#include "common/wire/half_open.h"

#include <netinet/in.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "common/model/limits.h"

namespace forebay {
namespace {

// The peer's IP address without its port. Empty for a UNIX socket: all its clients are this user.
std::string AddressOf(const StreamSocket& socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return {};
  const void* raw = peer.data();
  if (peer.protocol().family() == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, raw, sizeof v4);
    return std::string(reinterpret_cast<const char*>(&v4.sin_addr), sizeof v4.sin_addr);
  }
  if (peer.protocol().family() == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, raw, sizeof v6);
    return std::string(reinterpret_cast<const char*>(&v6.sin6_addr), sizeof v6.sin6_addr);
  }
  return {};
}

// A socket is touched on its own io_context alone.
void CloseSoon(std::shared_ptr<StreamSocket> socket) {
  const auto executor = socket->get_executor();
  asio::post(executor, [socket = std::move(socket)] {
    boost::system::error_code ignored;
    socket->close(ignored);
  });
}

}  // namespace

HalfOpen::Place::~Place() {
  if (table_) table_->Leave(address_, socket_);
}

void HalfOpen::Place::Prove() {
  const std::scoped_lock lock(table_->mutex_);
  table_->StopWaiting(address_, socket_);
}

/// Takes out whoever makes way for one more of `address`; null: there is room.
std::shared_ptr<StreamSocket> HalfOpen::TakeOldest(const std::string& address) {
  auto from = sockets_.find(address);
  if (from == sockets_.end() || from->second.size() < kMaxHalfOpenPerAddress) {
    if (waiting_ < most_) return nullptr;
    from = std::ranges::min_element(sockets_, {},
                                    [](const auto& entry) { return entry.second.front().number; });
  }
  std::shared_ptr<StreamSocket> oldest = std::move(from->second.front().socket);
  from->second.pop_front();
  --waiting_;
  if (from->second.empty()) sockets_.erase(from);
  return oldest;
}

HalfOpen::Place HalfOpen::Enter(const std::shared_ptr<HalfOpen>& table,
                                std::shared_ptr<StreamSocket> socket) {
  std::string address = AddressOf(*socket);
  std::shared_ptr<StreamSocket> to_close;
  {
    const std::scoped_lock lock(table->mutex_);
    ++table->places_;
    if (table->closed_) {
      to_close = socket;
    } else {
      to_close = table->TakeOldest(address);
      table->sockets_[address].push_back({socket, table->entered_++});
      ++table->waiting_;
    }
  }
  if (to_close) CloseSoon(std::move(to_close));
  return Place(table, std::move(address), std::move(socket));
}

void HalfOpen::CloseAll() {
  std::unordered_map<std::string, Sockets> sockets;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    sockets.swap(sockets_);
    waiting_ = 0;
  }
  for (auto& [address, same] : sockets) {
    for (Waiting& waiting : same) CloseSoon(std::move(waiting.socket));
  }
}

void HalfOpen::Leave(const std::string& address, const std::shared_ptr<StreamSocket>& socket) {
  const std::scoped_lock lock(mutex_);
  --places_;
  StopWaiting(address, socket);
}

/// Under mutex_.
void HalfOpen::StopWaiting(const std::string& address,
                           const std::shared_ptr<StreamSocket>& socket) {
  const auto found = sockets_.find(address);
  if (found == sockets_.end()) return;
  waiting_ -=
      found->second.remove_if([&](const Waiting& waiting) { return waiting.socket == socket; });
  if (found->second.empty()) sockets_.erase(found);
}

std::size_t HalfOpen::size() const {
  const std::scoped_lock lock(mutex_);
  return places_;
}

}  // namespace forebay
