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

// So many that were closed may be on their way out, beside half as many as there is room for: what
// comes faster than the event loops turn is refused.
constexpr std::size_t kMostLeaving = kMaxHalfOpenPerAddress;

struct Origin {
  std::string address;
  std::string network;
};

template <typename Sockaddr>
Sockaddr As(const StreamEndpoint& peer) {
  Sockaddr address{};
  std::memcpy(&address, peer.data(), std::min(sizeof address, peer.size()));
  return address;
}

std::string BytesOf(const void* bytes, std::size_t count) {
  return std::string(static_cast<const char*>(bytes), count);
}

// The peer's IP address without its port. Empty for a UNIX socket: all its clients are this user.
Origin OriginOf(const StreamEndpoint& peer) {
  if (peer.protocol().family() == AF_INET) {
    const auto v4 = As<sockaddr_in>(peer);
    const std::string address = BytesOf(&v4.sin_addr, sizeof v4.sin_addr);
    return {.address = address, .network = address};
  }
  if (peer.protocol().family() != AF_INET6) return {};
  const auto v6 = As<sockaddr_in6>(peer);
  const std::uint8_t* const bytes = v6.sin6_addr.s6_addr;
  const std::size_t size = sizeof v6.sin6_addr;
  constexpr std::size_t kOfV4 = 4;
  const std::string address = BytesOf(bytes, size);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    const std::string v4 = address.substr(size - kOfV4);
    return {.address = v4, .network = v4};
  }
  return {.address = address, .network = address.substr(0, size / 2)};
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

HalfOpen::HalfOpen(std::size_t most, std::size_t room)
    : most_(most), most_of_network_(std::max(kMaxHalfOpenPerAddress, most / 4)), room_(room) {}

HalfOpen::Place::~Place() {
  if (table_) table_->Leave(*this);
}

void HalfOpen::Place::Prove() {
  const std::scoped_lock lock(table_->mutex_);
  if (!table_->StopWaiting(*this)) return;  // it was closed before
  proved_ = true;
  ++table_->proved_;
}

std::shared_ptr<StreamSocket> HalfOpen::TakeOut(Networks::iterator from, Sockets::iterator which) {
  std::shared_ptr<StreamSocket> socket = std::move(which->socket);
  from->second.erase(which);
  --waiting_;
  if (from->second.empty()) sockets_.erase(from);
  return socket;
}

/// There is one.
std::shared_ptr<StreamSocket> HalfOpen::TakeOldest() {
  const auto from = std::ranges::min_element(
      sockets_, {}, [](const auto& entry) { return entry.second.front().number; });
  return TakeOut(from, from->second.begin());
}

/// Makes room for one more; `to_close` is who has to go for it. False: nobody can. Under mutex_.
bool HalfOpen::MakeWay(const std::string& network, const std::string& address,
                       std::shared_ptr<StreamSocket>& to_close) {
  const std::size_t leaving = places_ - waiting_ - proved_;
  if (leaving >= most_ + kMostLeaving) return false;
  const auto same = sockets_.find(network);
  if (same != sockets_.end() && same->second.size() >= kMaxHalfOpenPerAddress) {
    const auto is_its = [&](const Waiting& waiting) { return waiting.address == address; };
    Sockets& sockets = same->second;
    if (std::cmp_greater_equal(std::ranges::count_if(sockets, is_its), kMaxHalfOpenPerAddress)) {
      to_close = TakeOut(same, std::ranges::find_if(sockets, is_its));
      return true;
    }
    if (sockets.size() >= most_of_network_) {
      to_close = TakeOut(same, sockets.begin());
      return true;
    }
  }
  const bool full = waiting_ + proved_ >= room_;
  if (full && waiting_ == 0) return false;
  if (full || waiting_ >= most_) to_close = TakeOldest();
  return true;
}

std::optional<HalfOpen::Place> HalfOpen::Enter(const std::shared_ptr<HalfOpen>& table,
                                               std::shared_ptr<StreamSocket> socket,
                                               const StreamEndpoint& peer) {
  Origin origin = OriginOf(peer);
  std::shared_ptr<StreamSocket> to_close;
  {
    const std::scoped_lock lock(table->mutex_);
    if (table->closed_) {
      to_close = socket;
    } else {
      if (!table->MakeWay(origin.network, origin.address, to_close)) return std::nullopt;
      table->sockets_[origin.network].push_back(
          {socket, std::move(origin.address), table->entered_++});
      ++table->waiting_;
    }
    ++table->places_;
  }
  if (to_close) CloseSoon(std::move(to_close));
  return Place(table, std::move(origin.network), std::move(socket));
}

void HalfOpen::CloseAll() {
  std::unordered_map<std::string, Sockets> sockets;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    sockets.swap(sockets_);
    waiting_ = 0;
  }
  for (auto& [network, same] : sockets) {
    for (Waiting& waiting : same) CloseSoon(std::move(waiting.socket));
  }
}

void HalfOpen::Leave(const Place& place) {
  const std::scoped_lock lock(mutex_);
  --places_;
  if (place.proved_) {
    --proved_;
  } else {
    StopWaiting(place);
  }
}

/// False: it did not wait. Under mutex_.
bool HalfOpen::StopWaiting(const Place& place) {
  const auto same = sockets_.find(place.network_);
  if (same == sockets_.end()) return false;
  const auto found = std::ranges::find(same->second, place.socket_, &Waiting::socket);
  if (found == same->second.end()) return false;
  TakeOut(same, found);
  return true;
}

std::size_t HalfOpen::size() const {
  const std::scoped_lock lock(mutex_);
  return places_;
}

}  // namespace forebay
