#include "fuse-client/supervisor/holder_store.h"

#include <poll.h>

#include <chrono>
#include <thread>
#include <utility>

#include "fuse-client/supervisor/private_socket.h"

namespace forebay {

namespace {

/// At a start. Later a supervisor has more to do than to wait for it.
constexpr Duration kFirstAnswerWithin = std::chrono::seconds(2);

/// Between two looks whether a holder listens.
constexpr Duration kLookEvery = std::chrono::milliseconds(50);

}  // namespace

Result<std::unique_ptr<HolderStore>> HolderStore::Open(const std::string& path,
                                                       const std::string& mount,
                                                       Duration patience) {
  std::unique_ptr<HolderStore> store(new HolderStore(path, mount));
  const Deadline deadline = Deadline::After(patience);
  for (;;) {
    const Status found = store->Find(kFirstAnswerWithin);
    if (found) return store;
    const Code code = found.error().code;
    if (code != Code::kUnavailable && code != Code::kTimeout) return Fail(found.error());
    if (!deadline.Expired()) {
      std::this_thread::sleep_for(kLookEvery);
      continue;
    }
    if (code == Code::kTimeout) {
      return Fail(Code::kUnavailable, found.error().message +
                                          ": it may have been stopped; let it go on, or end it "
                                          "and start another one");
    }
    return Fail(Code::kInvalid, "no process holds mounts at " + found.error().message +
                                    "; start `forebay-mount --hold " + path +
                                    "` first, as the same user");
  }
}

Status HolderStore::FindAgain() { return Find(kAnswersWithin); }

// Who does not answer and still has its line open goes on when it is let: to such a holder the
// mount stays one that is served, and nobody else gets it.
Status HolderStore::Find(Duration patience) {
  if (silent_ && !HasSomethingToRead()) return Silent();
  silent_ = false;
  channel_.reset();
  came_.clear();
  Result<HandoverChannel> channel =
      PrivateSocket::Connect(path_, PrivateSocket::Of::kThisUser, patience);
  if (!channel && channel.error().code == Code::kTimeout) return Silent();
  if (!channel) return Fail(channel.error());
  const Status asked = channel->Send(HandoverKind::kHold, mount_, std::to_string(kHoldFormat));
  if (!asked) return Fail(Code::kUnavailable, path_ + ": " + asked.error().message);
  std::map<std::string, OwnedFd> came;
  for (;;) {
    Result<HandoverMessage> message = channel->Receive(true);
    if (!message && message.error().code == Code::kTimeout) {
      silent_ = true;
      channel_ = std::move(*channel);
      return Silent();
    }
    if (!message) return Fail(Code::kUnavailable, path_ + ": " + message.error().message);
    if (message->kind == HandoverKind::kKept) {
      came[message->key] = std::move(message->fd);
      continue;
    }
    if (message->kind != HandoverKind::kAnswer || message->key != "done") {
      return Fail(Code::kDenied, path_ + ": " + message->value);
    }
    SetPatience(*channel, kAnswersWithin);
    channel_ = std::move(*channel);
    came_ = std::move(came);
    return {};
  }
}

std::unexpected<Error> HolderStore::Silent() const {
  return Fail(Code::kTimeout, "the process that holds mounts at " + path_ + " does not answer");
}

// Unasked, a holder says nothing: it is the answer that did not come in time, or its end.
bool HolderStore::HasSomethingToRead() const {
  pollfd look{channel_ ? channel_->fd() : -1, POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

std::map<std::string, OwnedFd> HolderStore::TakeBack() { return std::exchange(came_, {}); }

// The answer comes when it is held: a journal names nothing that could be lost.
Status HolderStore::Put(const std::string& name, int fd) {
  if (silent_) return Silent();
  if (!channel_) return Fail(Code::kUnavailable, "nobody holds " + mount_);
  const Status sent = channel_->Send(HandoverKind::kKeep, name, "", fd);
  const Result<HandoverMessage> answer =
      sent ? channel_->Receive(true) : Result<HandoverMessage>(Fail(sent.error()));
  if (!answer && answer.error().code == Code::kTimeout) {
    // An answer that came later would be taken for that to another question.
    silent_ = true;
    return Silent();
  }
  if (!answer || answer->kind != HandoverKind::kAnswer) {
    channel_.reset();
    return Fail(Code::kUnavailable, "nobody holds " + mount_ + " any more");
  }
  if (answer->key != "done") return Fail(Code::kDenied, path_ + ": " + answer->value);
  return {};
}

// Also to one who does not answer, and does as it was told when it goes on: what has been unmounted
// meanwhile is not taken for what is left to the next start.
void HolderStore::Remove(const std::string& name) {
  if (channel_ && !channel_->Send(HandoverKind::kDrop, name, "")) Leave();
}

void HolderStore::Leave() {
  silent_ = false;
  channel_.reset();
}

bool HolderStore::IsThere() {
  if (silent_) return false;
  if (HasSomethingToRead()) channel_.reset();
  return channel_.has_value();
}

}  // namespace forebay
