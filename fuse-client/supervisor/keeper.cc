#include "fuse-client/supervisor/keeper.h"

#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "common/base/version.h"

namespace forebay {

namespace {

/// Between two looks whether the keeper ends.
constexpr int kLookEveryMs = 100;

std::set<std::uint32_t> ConnectionsIn(const KeptEntries& entries) {
  std::set<std::uint32_t> ids;
  for (const auto& [key, kept] : entries) {
    if (const std::uint32_t id = ConnectionOfKey(key)) ids.insert(id);
  }
  return ids;
}

}  // namespace

Keeper::Keeper(std::optional<HandoverChannel> channel, RequestSlots slots, KeptEntries inherited,
               std::string news)
    : channel_(std::move(channel)),
      slots_(std::move(slots)),
      inherited_(std::move(inherited)),
      successor_(!inherited_.empty()),
      news_(std::move(news)) {
  const std::set<std::uint32_t> connections = ConnectionsIn(inherited_);
  if (!connections.empty()) last_connection_ = *connections.rbegin();
  slots_.ClearAllBut(connections);
  arenas_.reserve(slots_.arenas());
  for (std::size_t i = 0; i < slots_.arenas(); ++i) arenas_.push_back(slots_.Arena(i));
}

Keeper::~Keeper() = default;

Result<std::unique_ptr<Keeper>> Keeper::Alone(std::size_t arenas) {
  Result<RequestSlots> slots = RequestSlots::Create(arenas);
  if (!slots) return Fail(slots.error());
  return std::unique_ptr<Keeper>(new Keeper(std::nullopt, std::move(*slots), {}, ""));
}

Result<std::unique_ptr<Keeper>> Keeper::Connect(OwnedFd socket) {
  HandoverChannel channel(std::move(socket));
  OwnedFd slots_file;
  KeptEntries inherited;
  for (;;) {
    Result<HandoverMessage> message = channel.Receive(true);
    if (!message) return Fail(message.error());
    switch (message->kind) {
      case HandoverKind::kHello: {
        if (message->key != std::to_string(kHandoverFormat)) {
          return Fail(Code::kInvalid, "the mount's supervisor has hand-over format " +
                                          message->key + ", this program " +
                                          std::to_string(kHandoverFormat));
        }
        slots_file = std::move(message->fd);
        const Status told = channel.Send(HandoverKind::kPrepared, "", Version());
        if (!told) return Fail(told.error());
        break;
      }
      case HandoverKind::kKept:
        inherited[message->key] = Kept{std::move(message->value), std::move(message->fd)};
        break;
      case HandoverKind::kGo: {
        Result<RequestSlots> slots = RequestSlots::Map(std::move(slots_file));
        if (!slots) return Fail(slots.error());
        return std::unique_ptr<Keeper>(new Keeper(std::move(channel), std::move(*slots),
                                                  std::move(inherited), std::move(message->value)));
      }
      default:
        return Fail(Code::kUnavailable, "the supervisor wants no worker any more");
    }
  }
}

KeptEntries Keeper::TakeInherited(std::string_view prefix) {
  KeptEntries taken;
  auto entry = inherited_.lower_bound(std::string(prefix));
  while (entry != inherited_.end() && entry->first.starts_with(prefix)) {
    taken.insert(inherited_.extract(entry++));
  }
  return taken;
}

std::uint32_t Keeper::NewConnection() { return ++last_connection_; }

// A supervisor that has gone is Listen's to notice.
void Keeper::Keep(std::string_view key, std::string_view value, int fd) const {
  if (!channel_) return;
  const Status kept = channel_->Send(HandoverKind::kKeep, key, value, fd);
  if (!kept && kept.error().code == Code::kInvalid) {
    spdlog::warn("{}; a successor of this process begins without it", kept.error().message);
  }
}

void Keeper::Drop(std::string_view prefix) const {
  if (channel_) channel_->Tell(HandoverKind::kDrop, prefix, "");
}

void Keeper::Ready(std::string_view line) const {
  if (channel_) channel_->Tell(HandoverKind::kReady, "", line);
}

void Keeper::Terminated() const {
  if (channel_) channel_->Tell(HandoverKind::kTerminated, "", "");
}

void Keeper::Finished(int exit_code) const {
  if (channel_) channel_->Tell(HandoverKind::kFinished, "", std::to_string(exit_code));
}

void Keeper::Obey(Orders orders) {
  if (!channel_) return;
  listener_ = std::jthread([this, orders = std::move(orders)](const std::stop_token& stop) {
    ::pthread_setname_np(::pthread_self(), "keeper");
    Listen(orders, stop);
  });
}

void Keeper::Listen(const Orders& orders, const std::stop_token& stop) const {
  while (!stop.stop_requested()) {
    pollfd waiting{channel_->fd(), POLLIN, 0};
    if (::poll(&waiting, 1, kLookEveryMs) <= 0) continue;
    const Result<HandoverMessage> message = channel_->Receive(false);
    if (!message && message.error().code == Code::kUnavailable) {
      spdlog::critical("the supervisor of this mount was killed; the mount ends");
      ::_exit(1);
    }
    if (!message) continue;
    if (message->kind == HandoverKind::kStop) orders.stop();
    if (message->kind == HandoverKind::kLeave) orders.leave();
  }
}

}  // namespace forebay
