#include "coordinator/set_sums.h"

#include <algorithm>

namespace forebay {
namespace {

/// As of one target (AdminService).
constexpr int kMostChangedShown = 100;

}  // namespace

void AddTo(proto::CheckTargetReply& sum, const proto::CheckTargetReply& one,
           const std::string& part) {
  sum.set_objects(sum.objects() + one.objects());
  sum.set_bytes(sum.bytes() + one.bytes());
  sum.set_blocks(sum.blocks() + one.blocks());
  sum.set_cached_objects(sum.cached_objects() + one.cached_objects());
  sum.set_cached_bytes(sum.cached_bytes() + one.cached_bytes());
  sum.set_cached_blocks(sum.cached_blocks() + one.cached_blocks());
  sum.set_hidden_keys(sum.hidden_keys() + one.hidden_keys());
  sum.set_unknown_blocks(sum.unknown_blocks() + one.unknown_blocks());
  sum.set_unknown_bytes(sum.unknown_bytes() + one.unknown_bytes());
  sum.set_verified_blocks(sum.verified_blocks() + one.verified_blocks());
  sum.set_corrupt_blocks(sum.corrupt_blocks() + one.corrupt_blocks());
  sum.set_set_aside_blocks(sum.set_aside_blocks() + one.set_aside_blocks());
  sum.set_changed_objects(sum.changed_objects() + one.changed_objects());
  for (const proto::UnknownNode& node : one.unknown()) {
    auto* const all = sum.mutable_unknown();
    const auto known = std::ranges::find(*all, node.node_id(), &proto::UnknownNode::node_id);
    if (known == all->end()) {
      *all->Add() = node;
    } else {
      known->set_blocks(known->blocks() + node.blocks());
    }
  }
  for (const proto::ChangedFile& file : one.changed()) {
    if (sum.changed_size() == kMostChangedShown) break;
    proto::ChangedFile& added = *sum.add_changed();
    added = file;
    added.set_path(part + "/" + file.path());
  }
}

void AddEvicted(google::protobuf::RepeatedPtrField<proto::NodeEvicted>& sum,
                const proto::NodeEvicted& one) {
  const auto known = std::ranges::find(sum, one.node_id(), &proto::NodeEvicted::node_id);
  if (known == sum.end()) {
    *sum.Add() = one;
    return;
  }
  known->set_blocks(known->blocks() + one.blocks());
  known->set_bytes(known->bytes() + one.bytes());
  known->set_pinned_blocks(known->pinned_blocks() + one.pinned_blocks());
  known->set_pinned_bytes(known->pinned_bytes() + one.pinned_bytes());
  known->set_room_version(std::max(known->room_version(), one.room_version()));
  if (known->error().empty()) known->set_error(one.error());
}

void AddTo(proto::EvictTargetReply& sum, const proto::EvictTargetReply& one) {
  sum.set_objects(sum.objects() + one.objects());
  sum.set_cached_bytes(sum.cached_bytes() + one.cached_bytes());
  for (const proto::NodeEvicted& node : one.nodes()) AddEvicted(*sum.mutable_nodes(), node);
}

void AddTo(proto::PreloadReply& sum, const proto::PreloadReply& one) {
  const bool is_first = sum.objects() == 0;
  sum.set_joined(one.joined() && (is_first || sum.joined()));
  sum.set_objects(sum.objects() + one.objects());
  sum.set_bytes(sum.bytes() + one.bytes());
  sum.set_blocks(sum.blocks() + one.blocks());
  sum.set_capacity_bytes(std::max(sum.capacity_bytes(), one.capacity_bytes()));
  sum.set_cached_objects(sum.cached_objects() + one.cached_objects());
  sum.set_cached_bytes(sum.cached_bytes() + one.cached_bytes());
  sum.set_cached_blocks(sum.cached_blocks() + one.cached_blocks());
  sum.set_needed_bytes(sum.needed_bytes() + one.needed_bytes());
  // Each says what it would have alone. A quota is a part's own room; what is left of the nodes
  // is that of all.
  sum.set_room_bytes(one.quota_bound() || sum.quota_bound()
                         ? sum.room_bytes() + one.room_bytes()
                         : std::max(sum.room_bytes(), one.room_bytes()));
  sum.set_quota_bound(sum.quota_bound() || one.quota_bound());
}

}  // namespace forebay
