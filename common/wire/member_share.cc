#include "common/wire/member_share.h"

namespace forebay {

MemberShare::Place::~Place() {
  if (table_) table_->Leave(member_);
}

std::optional<MemberShare::Place> MemberShare::Enter(const std::shared_ptr<MemberShare>& table,
                                                     const PeerIdentity& peer) {
  if (!peer.proved) return Place(nullptr, {});
  std::string member = std::to_string(static_cast<int>(peer.role)) + "/" + peer.id;
  const std::scoped_lock lock(table->mutex_);
  std::size_t& open = table->open_[member];
  if (open >= table->most_) return std::nullopt;
  ++open;
  return Place(table, std::move(member));
}

void MemberShare::Leave(const std::string& member) {
  const std::scoped_lock lock(mutex_);
  const auto found = open_.find(member);
  if (found == open_.end()) return;
  if (--found->second == 0) open_.erase(found);
}

}  // namespace forebay
