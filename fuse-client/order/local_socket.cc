#include "fuse-client/order/local_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <ranges>
#include <system_error>
#include <utility>

namespace forebay {
namespace {

/// Between two looks whether it is to end.
constexpr int kLookEveryMs = 100;
constexpr std::size_t kReadBytes = 1U << 20;

std::unexpected<Error> Refused(const std::string& path, const char* what) {
  return Fail(Code::kInternal, fmt::format("programs cannot announce what they will read at {}: "
                                           "{}: {}",
                                           path, what, std::generic_category().message(errno)));
}

bool Readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, kLookEveryMs) > 0;
}

/// All that the client sends until it ends its side.
Result<std::string> ReceiveAll(int client, const std::stop_token& stop) {
  std::string text;
  const Deadline deadline = Deadline::After(LocalSocket::kPatience);
  std::vector<char> part(kReadBytes);
  while (!stop.stop_requested() && !deadline.Expired()) {
    if (!Readable(client)) continue;
    const ssize_t got = ::recv(client, part.data(), part.size(), 0);
    if (got == 0) return text;
    if (got < 0) return Fail(Code::kUnavailable, std::generic_category().message(errno));
    if (text.size() + static_cast<std::size_t>(got) > LocalSocket::kMaxTextBytes) {
      return Fail(Code::kInvalid, fmt::format("an order may take {} MiB: announce a shorter one",
                                              LocalSocket::kMaxTextBytes >> 20));
    }
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return Fail(Code::kTimeout,
              "the order did not come to its end in time: send it whole and then "
              "end the sending side of the connection");
}

/// Who connected.
pid_t ProcessAt(int client) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

}  // namespace

LocalSocket::~LocalSocket() {
  thread_ = {};
  if (!path_.empty()) ::unlink(path_.c_str());
}

Status LocalSocket::Listen(const std::string& path, bool others, JobOf job_of) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalid, fmt::format("local_socket {} is too long for a socket: at most {} "
                                            "bytes",
                                            path, sizeof address.sun_path - 1));
  }
  std::ranges::copy(path, address.sun_path);
  OwnedFd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return Refused(path, "socket");
  // One of a process before this one: two mounts of one place cannot be.
  ::unlink(path.c_str());
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Refused(path, "bind");
  }
  const mode_t mode = others ? 0666 : 0600;
  if (::chmod(path.c_str(), mode) != 0 || ::listen(made.get(), 16) != 0) {
    const auto refused = Refused(path, "listen");
    ::unlink(path.c_str());
    return refused;
  }
  path_ = path;
  job_of_ = std::move(job_of);
  socket_ = std::move(made);
  thread_ = std::jthread([this](const std::stop_token& stop) { Serve(stop); });
  return {};
}

void LocalSocket::Add(const void* owner, const std::string& link, Taker take) {
  const std::scoped_lock lock(mutex_);
  rows_.push_back({.owner = owner, .link = link, .take = std::move(take)});
}

void LocalSocket::Remove(const void* owner) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(rows_, [owner](const Row& row) { return row.owner == owner; });
}

void LocalSocket::Serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!Readable(socket_.get())) continue;
    const OwnedFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client) Answer(client.get(), stop);
  }
}

void LocalSocket::Answer(int client, const std::stop_token& stop) {
  const Result<std::string> text = ReceiveAll(client, stop);
  Result<std::size_t> taken = text ? Take(client, *text) : Fail(text.error());
  boost::json::object answer;
  if (taken) {
    answer["files"] = *taken;
  } else {
    spdlog::info("an announced order was refused: {}", taken.error().message);
    answer["error"] = {{"code", CodeName(taken.error().code)}, {"message", taken.error().message}};
  }
  const std::string line = boost::json::serialize(answer) + "\n";
  // Short enough for the socket's buffer; a client that has gone needs no answer.
  (void)!::send(client, line.data(), line.size(), MSG_NOSIGNAL);
}

Result<std::size_t> LocalSocket::Take(int client, std::string_view text) {
  Result<OrderText> order = ParseOrderText(text);
  if (!order) return Fail(order.error());
  if (order->job.empty()) order->job = job_of_(ProcessAt(client));
  const std::scoped_lock lock(mutex_);
  // Of two with one name the later one: the other is on its way out.
  for (const Row& row : rows_ | std::views::reverse) {
    if (row.link == order->link) return row.take(*order);
  }
  return Fail(Code::kNotFound, fmt::format("this mount shows no link '{}'", order->link));
}

}  // namespace forebay
