#include "fuse-client/supervisor/holder_store.h"

#include <poll.h>

#include <chrono>
#include <thread>
#include <utility>

#include "fuse-client/supervisor/private_socket.h"

namespace forebay {

namespace {

/// The supervisor does nothing else meanwhile.
constexpr Duration kAnswersWithin = std::chrono::seconds(2);

/// Between two looks whether a holder listens.
constexpr Duration kLookEvery = std::chrono::milliseconds(50);

}  // namespace

Result<std::unique_ptr<HolderStore>> HolderStore::Open(const std::string& path,
                                                       const std::string& mount,
                                                       Duration patience) {
  std::unique_ptr<HolderStore> store(new HolderStore(path, mount));
  const Deadline deadline = Deadline::After(patience);
  for (;;) {
    const Status found = store->FindAgain();
    if (found) return store;
    if (found.error().code != Code::kUnavailable) return Fail(found.error());
    if (deadline.Expired()) {
      return Fail(Code::kInvalid, "no process holds mounts at " + found.error().message +
                                      "; start `forebay-mount --hold " + path +
                                      "` first, as the same user");
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

Status HolderStore::FindAgain() {
  channel_.reset();
  came_.clear();
  Result<HandoverChannel> channel = PrivateSocket::Connect(path_, kAnswersWithin);
  if (!channel) return Fail(channel.error());
  const Status asked = channel->Send(HandoverKind::kHold, mount_, std::to_string(kHoldFormat));
  if (!asked) return Fail(Code::kUnavailable, path_ + ": " + asked.error().message);
  for (;;) {
    Result<HandoverMessage> message = channel->Receive(true);
    if (!message) return Fail(Code::kUnavailable, path_ + ": " + message.error().message);
    if (message->kind == HandoverKind::kKept) {
      came_[message->key] = std::move(message->fd);
      continue;
    }
    if (message->kind != HandoverKind::kAnswer || message->key != "done") {
      return Fail(Code::kDenied, path_ + ": " + message->value);
    }
    channel_ = std::move(*channel);
    return {};
  }
}

std::map<std::string, OwnedFd> HolderStore::TakeBack() { return std::exchange(came_, {}); }

// The answer comes when it is held: a journal names nothing that could be lost.
Status HolderStore::Put(const std::string& name, int fd) {
  if (!channel_) return Fail(Code::kUnavailable, "nobody holds " + mount_);
  const Status sent = channel_->Send(HandoverKind::kKeep, name, "", fd);
  const Result<HandoverMessage> answer =
      sent ? channel_->Receive(true) : Result<HandoverMessage>(Fail(sent.error()));
  if (!answer || answer->kind != HandoverKind::kAnswer) {
    // An answer that came later would be taken for that to another question.
    channel_.reset();
    return Fail(Code::kUnavailable, "the holder at " + path_ + " does not answer");
  }
  if (answer->key != "done") return Fail(Code::kDenied, path_ + ": " + answer->value);
  return {};
}

void HolderStore::Remove(const std::string& name) {
  if (channel_) channel_->Tell(HandoverKind::kDrop, name, "");
}

// Unasked, a holder says nothing: what can be read is its end.
bool HolderStore::IsThere() {
  if (!channel_) return false;
  pollfd look{channel_->fd(), POLLIN, 0};
  if (::poll(&look, 1, 0) > 0) channel_.reset();
  return channel_.has_value();
}

}  // namespace forebay
