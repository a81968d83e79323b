#include "coordinator/mount_book.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/model/link_set.h"

namespace forebay {
namespace {

constexpr std::string_view kProgram = "forebay-mount ";

// What a mount says of itself is kept so far.
constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kMaxVersion = 64;

constexpr Duration kTidyEvery = std::chrono::seconds(10);

std::string Cut(std::string_view text, std::size_t bytes) {
  return std::string(text.substr(0, bytes));
}

/// The text before the first '/', and what is behind it.
std::pair<std::string_view, std::string_view> Split(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {path, {}};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool IsGranted(const std::optional<std::vector<std::string>>& granted,
               const MountBook::Wanted& link) {
  if (!granted) return true;
  const auto names = [&](const std::string& name) {
    return !name.empty() && std::ranges::find(*granted, name) != granted->end();
  };
  return names(link.link) || names(link.set);
}

std::string Encode(std::uint64_t incarnation, const std::string& who) {
  std::string text;
  for (int shift = 56; shift >= 0; shift -= 8)
    text.push_back(static_cast<char>(static_cast<unsigned char>(incarnation >> shift)));
  return text + who;
}

std::pair<std::uint64_t, std::string> Decode(const std::string& text) {
  std::uint64_t incarnation = 0;
  const std::size_t digits = std::min(text.size(), sizeof incarnation);
  for (std::size_t i = 0; i < digits; ++i)
    incarnation = incarnation << 8 | static_cast<unsigned char>(text[i]);
  return {incarnation, text.substr(digits)};
}

}  // namespace

void MountBook::Note(const proto::GetLinksRequest& request, const PeerIdentity& peer,
                     TimePoint now) {
  const bool says = request.has_mount();
  const bool is_mount = peer.role == proto::ROLE_CLIENT && peer.program.starts_with(kProgram);
  if (!is_mount || (says && request.mount().mountpoint().empty())) return;
  const std::string client = Cut(peer.id, kMaxName);
  const proto::MountSelf& self = request.mount();
  // Of an older release each connection is one: it has one to this coordinator.
  Key key = says ? Key(self.incarnation(), client) : Key(0, client + ' ' + peer.address);
  if (!mounts_.contains(key)) MakeRoom(now);
  Mount& mount = mounts_[std::move(key)];
  mount.host = Cut(self.host(), kMaxName);
  mount.mountpoint = Cut(self.mountpoint(), kMaxPath);
  // An older one names its link, and sometimes asks for all of them.
  if (says) mount.source = Cut(self.source(), kMaxPath);
  if (!says && !request.name().empty()) mount.source = Cut(request.name(), kMaxPath);
  mount.client = client;
  mount.address = peer.address;
  mount.version = Cut(std::string_view(peer.program).substr(kProgram.size()), kMaxVersion);
  mount.granted = peer.terms.links;
  mount.heard = now;
}

void MountBook::MakeRoom(TimePoint now) {
  if (now - tidied_ >= kTidyEvery || mounts_.size() >= kMaxMounts) {
    std::erase_if(mounts_, [now](const auto& row) { return now - row.second.heard > kShownFor; });
    tidied_ = now;
  }
  if (mounts_.size() < kMaxMounts) return;
  mounts_.erase(
      std::ranges::min_element(mounts_, {}, [](const auto& row) { return row.second.heard; }));
}

bool MountBook::Shows(const Mount& mount, const Wanted& link) {
  // One that does not say what it shows may show all that it may see.
  if (mount.source.empty() || mount.source == "/")
    return link.exists && IsGranted(mount.granted, link);
  const auto [name, path] = Split(mount.source);
  if (name == link.link) return true;
  if (link.set.empty() || name != link.set) return false;
  const std::string_view part = Split(path).first;
  return part.empty() || LinkOfPart(name, part) == link.link;
}

void MountBook::List(const std::optional<std::vector<Wanted>>& links, const std::string& after,
                     TimePoint now, proto::ListMountsReply& reply) const {
  std::size_t bytes = 0;
  auto row = after.empty() ? mounts_.begin() : mounts_.upper_bound(Decode(after));
  for (; row != mounts_.end(); ++row) {
    if (reply.mounts_size() >= kMaxRows || bytes >= kMaxPageBytes) {
      const Key& last = std::prev(row)->first;
      reply.set_next(Encode(last.first, last.second));
      return;
    }
    const Mount& mount = row->second;
    if (now - mount.heard > kShownFor) continue;
    const auto shows = [&](const Wanted& link) { return Shows(mount, link); };
    if (links && std::ranges::none_of(*links, shows)) continue;
    proto::MountState& state = *reply.add_mounts();
    state.set_host(mount.host);
    state.set_mountpoint(mount.mountpoint);
    state.set_source(mount.source);
    state.set_client(mount.client);
    state.set_address(mount.address);
    state.set_version(mount.version);
    state.set_heard_ms(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now - mount.heard).count()));
    bytes += state.ByteSizeLong();
  }
}

}  // namespace forebay
