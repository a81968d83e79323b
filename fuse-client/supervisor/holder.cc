#include "fuse-client/supervisor/holder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/files.h"

namespace forebay {

namespace {

/// For one that has connected to say what it serves.
constexpr Duration kSaysWithin = std::chrono::seconds(5);

/// And to take what it is sent: others wait meanwhile.
constexpr Duration kTakesWithin = std::chrono::seconds(1);

/// Between two looks at what has no event.
constexpr Duration kLookEvery = std::chrono::seconds(1);

constexpr std::size_t kPeersMax = 2 * Holder::kMountsMax;
constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kPathBytesMax = 4096;

/// A mount has three descriptors and one for each listing with open files: with fewer left it does
/// not begin.
constexpr std::size_t kRoomToBegin = 8;

Status CheckFolder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  Status made = MakePrivateFolder(folder);
  if (!made) return made;
  struct stat attributes{};
  const bool found = ::stat(folder.c_str(), &attributes) == 0;
  if (found && attributes.st_uid == ::geteuid() && (attributes.st_mode & 022) == 0) return {};
  return Fail(Code::kInvalid,
              folder +
                  " is no folder that this user alone may write to; name the socket in one "
                  "that does not exist yet, such as " +
                  folder + "/hold/socket");
}

/// Nothing: another process has it. It outlives the socket, which a process that was killed leaves
/// behind, and whose removal would be another one's.
Result<OwnedFd> LockOf(const std::string& socket) {
  const std::string path = socket + ".lock";
  OwnedFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (lock && errno == EWOULDBLOCK) return OwnedFd();
  return Fail(Code::kInternal,
              "cannot lock " + path + ": " + std::generic_category().message(errno));
}

/// Of another release, which has no lock; one that does not answer counts.
Result<bool> SomebodyListens(const std::string& path) {
  const Result<HandoverChannel> other =
      PrivateSocket::Connect(path, PrivateSocket::Of::kThisUser, kLookEvery);
  if (!other && other.error().code == Code::kInvalid) return Fail(other.error());
  return other || other.error().code != Code::kUnavailable;
}

/// /dev/fuse does, files do not.
bool Connects(int fd) {
  struct stat attributes{};
  return ::fstat(fd, &attributes) == 0 && !S_ISREG(attributes.st_mode);
}

/// The other end has gone: what was mounted is in no tree, or was forced out.
bool HasEnded(int fd) {
  pollfd look{fd, 0, 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

bool IsReadable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

void Answer(const HandoverChannel& channel, const std::string& refusal) {
  channel.Tell(HandoverKind::kAnswer, refusal.empty() ? "done" : "refused", refusal);
}

}  // namespace

Result<Holder> Holder::Listen(HolderOptions options) {
  const Status folder = CheckFolder(options.path);
  if (!folder) return Fail(folder.error());
  Result<OwnedFd> lock = LockOf(options.path);
  if (!lock) return Fail(lock.error());
  const Result<bool> other = *lock ? SomebodyListens(options.path) : true;
  if (!other) return Fail(other.error());
  if (*other) return Fail(Code::kInvalid, "another process holds mounts at " + options.path);
  Result<PrivateSocket> socket = PrivateSocket::Listen(options.path);
  if (!socket) return Fail(socket.error());
  return Holder(std::move(options), std::move(*lock), std::move(*socket));
}

void Holder::Serve(int stop) {
  while (!IsReadable(stop)) {
    Wait(stop, kLookEvery);
    DropEnded();
  }
  socket_ = PrivateSocket();  // nobody comes any more
  lock_ = OwnedFd();          // but to the next holder
  const Deadline grace = Deadline::After(options_.grace);
  const auto any_served = [this] {
    return std::ranges::any_of(mounts_, [this](const auto& row) { return IsServed(row.first); });
  };
  while (any_served() && !grace.Expired()) Wait(-1, grace.Remaining());
  Wait(-1, Duration());  // who has left by now
  next_look_ = TimePoint();
  DropEnded();
  for (const auto& [mount, descriptors] : mounts_) {
    if (IsServed(mount)) {
      spdlog::info("{} is served and goes on without a holder", mount);
    } else {
      End(mount);
    }
  }
}

void Holder::End(const std::string& mount) const {
  const Status done = options_.detach(mount);
  if (done) {
    spdlog::info("{} is unmounted: nobody serves it, and its holder ends", mount);
  } else if (done.error().code == Code::kNotFound) {
    spdlog::warn(
        "{} ends with its holder and is not unmounted: {}; does what is mounted in one container "
        "show in the other (mountPropagation: Bidirectional)?",
        mount, done.error().message);
  } else {
    spdlog::warn("{} ends with its holder and is not unmounted: {}", mount, done.error().message);
  }
}

// Served ones are their supervisors' to end.
void Holder::DropEnded() {
  const TimePoint now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  std::erase_if(mounts_, [this](const auto& row) {
    const auto& [mount, descriptors] = row;
    if (IsServed(mount)) return false;
    std::size_t ended = 0;
    for (const auto& [name, held] : descriptors) {
      if (!held.connects) continue;
      if (!HasEnded(held.fd.get())) return false;
      ++ended;
    }
    if (ended > 0) {
      spdlog::info("{} was unmounted while nobody served it: it is not held any more", mount);
    }
    return ended > 0;
  });
}

void Holder::Wait(int stop, Duration patience) {
  std::vector<pollfd> waiting;
  for (const int fd : {stop, peers_.size() < kPeersMax ? socket_.fd() : -1}) {
    waiting.push_back(pollfd{fd, POLLIN, 0});
  }
  for (const Peer& peer : peers_) waiting.push_back(pollfd{peer.channel.fd(), POLLIN, 0});
  const Deadline look = Deadline::After(patience).AtMost(kLookEvery);
  (void)::poll(waiting.data(), waiting.size(), static_cast<int>(look.RemainingMs().count()));
  // Those who leave before those who come: a successor finds its mount free.
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (Hear(*peer)) {
      ++peer;
      continue;
    }
    const Peer gone = std::move(*peer);
    peer = peers_.erase(peer);
    Part(gone);
  }
  if (socket_.fd() >= 0) Accept();
}

void Holder::Accept() {
  while (peers_.size() < kPeersMax && IsReadable(socket_.fd())) {
    std::optional<HandoverChannel> channel = socket_.Accept();
    if (!channel) return;
    SetPatience(*channel, kTakesWithin);
    peers_.push_back(Peer{.channel = std::move(*channel), .came = Clock::now()});
  }
}

/// False: it has gone, or is none of ours.
bool Holder::Hear(Peer& peer) {
  for (;;) {
    Result<HandoverMessage> message = peer.channel.Receive(false);
    if (!message && message.error().code == Code::kTimeout) {
      return !peer.mount.empty() || Clock::now() < peer.came + kSaysWithin;
    }
    if (!message || !Take(peer, std::move(*message))) return false;
  }
}

bool Holder::Take(Peer& peer, HandoverMessage message) {
  if (peer.mount.empty()) return message.kind == HandoverKind::kHold && Begin(peer, message);
  if (message.kind == HandoverKind::kKeep) return Keep(peer, std::move(message));
  if (message.kind != HandoverKind::kDrop) return false;
  mounts_[peer.mount].erase(message.key);
  return true;
}

bool Holder::Begin(Peer& peer, const HandoverMessage& message) {
  const std::string refusal = WhyNot(message);
  if (!refusal.empty()) {
    spdlog::warn("\"{}\" is not held: {}", message.key.substr(0, 200), refusal);
    Answer(peer.channel, refusal);
    return false;
  }
  peer.mount = message.key;
  const Descriptors& descriptors = mounts_[peer.mount];
  for (const auto& [name, held] : descriptors) {
    if (!peer.channel.Send(HandoverKind::kKept, name, "", held.fd.get())) return false;
  }
  Answer(peer.channel, "");
  spdlog::info("{} is served; {} descriptors were held", peer.mount, descriptors.size());
  return true;
}

/// "" = it may begin.
std::string Holder::WhyNot(const HandoverMessage& asked) const {
  if (asked.value != std::to_string(kHoldFormat)) {
    return fmt::format(
        "this holder speaks format {}, that forebay-mount {}; use programs of one "
        "version",
        kHoldFormat, asked.value);
  }
  if (!asked.key.starts_with('/') || asked.key.size() > kPathBytesMax) {
    return "it is no mount point";
  }
  if (IsServed(asked.key)) return asked.key + " is served by another forebay-mount";
  if (mounts_.contains(asked.key)) return "";
  if (mounts_.size() >= kMountsMax) {
    return fmt::format("this holder has {} mounts, which is the most; start another one",
                       kMountsMax);
  }
  return Count() + kRoomToBegin > options_.descriptors_max ? Full() : "";
}

std::string Holder::Full() const {
  return fmt::format(
      "this holder has {} descriptors, and room for {}; start another one, or raise "
      "its limit of open files",
      Count(), options_.descriptors_max);
}

bool Holder::Keep(Peer& peer, HandoverMessage message) {
  if (message.key.size() > kNameBytesMax) return false;
  Descriptors& descriptors = mounts_[peer.mount];
  if (!message.fd) {
    Answer(peer.channel,
           "a descriptor did not come: this holder has as many open files as it may; start another "
           "one, or raise its limit");
    return true;
  }
  if (Count() >= options_.descriptors_max && !descriptors.contains(message.key)) {
    Answer(peer.channel, Full());
    return true;
  }
  const bool connects = Connects(message.fd.get());
  descriptors[message.key] = Held{.fd = std::move(message.fd), .connects = connects};
  Answer(peer.channel, "");
  return true;
}

void Holder::Part(const Peer& peer) {
  const auto mount = mounts_.find(peer.mount);
  if (mount == mounts_.end()) return;
  if (mount->second.empty()) {
    spdlog::info("{} has ended", mount->first);
    mounts_.erase(mount);
    return;
  }
  spdlog::info("{} is held for its next start: {} descriptors", mount->first, mount->second.size());
}

bool Holder::IsServed(const std::string& mount) const {
  return std::ranges::any_of(peers_, [&](const Peer& peer) { return peer.mount == mount; });
}

std::size_t Holder::Count() const {
  std::size_t count = 0;
  for (const auto& [mount, descriptors] : mounts_) count += descriptors.size();
  return count;
}

}  // namespace forebay
