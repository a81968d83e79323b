#include "common/wire/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace forebay {

std::string BytesOf(const Uuid& uuid) { return std::string(uuid.bytes.begin(), uuid.bytes.end()); }

Uuid UuidFromBytes(std::string_view bytes) {
  Uuid uuid;
  if (bytes.size() != uuid.bytes.size()) return uuid;
  std::ranges::transform(bytes, uuid.bytes.begin(),
                         [](char c) { return static_cast<std::uint8_t>(c); });
  return uuid;
}

proto::LinkSpec ToProto(const LinkSpec& link) {
  proto::LinkSpec message;
  message.set_id(BytesOf(link.id));
  message.set_name(link.name);
  proto::LinkOrigin& origin = *message.mutable_origin();
  origin.set_bucket(link.origin.bucket);
  origin.set_prefix(link.origin.prefix);
  origin.set_endpoint(link.origin.endpoint);
  origin.set_region(link.origin.region);
  origin.set_profile(link.origin.profile);
  origin.set_path_style(link.origin.path_style);
  origin.set_requester_pays(link.origin.requester_pays);
  origin.set_no_sign(!link.origin.sign);
  origin.set_expected_owner(link.origin.expected_owner);
  message.set_domain(BytesOf(link.domain));
  message.set_sharing_domain(link.sharing_domain);
  message.set_block_bytes(link.block_bytes);
  message.set_replicas(link.replicas);
  message.set_refresh(static_cast<std::uint32_t>(link.refresh));
  message.set_quota_bytes(link.quota_bytes);
  message.set_priority(static_cast<std::int32_t>(link.priority));
  message.set_no_background_fill(!link.background_fill);
  for (const std::string& pin : link.pins) message.add_pins(pin);
  message.set_pins_version(link.pins_version);
  for (const std::string& glob : link.includes) message.add_includes(glob);
  for (const std::string& glob : link.excludes) message.add_excludes(glob);
  if (!link.manifest.location.empty()) {
    proto::LinkManifest& manifest = *message.mutable_manifest();
    manifest.set_location(link.manifest.location);
    manifest.set_behind_prefix(link.manifest.behind_prefix);
    manifest.set_skip_bad(link.manifest.skip_bad);
  }
  message.set_posix_metadata(link.posix_metadata);
  message.set_refresh_seconds(link.refresh_seconds);
  message.set_set(link.set);
  return message;
}

Result<LinkSpec> FromProto(const proto::LinkSpec& message) {
  LinkSpec link;
  link.id = UuidFromBytes(message.id());
  link.name = message.name();
  const proto::LinkOrigin& origin = message.origin();
  link.origin = LinkOrigin{.bucket = origin.bucket(),
                           .prefix = origin.prefix(),
                           .endpoint = origin.endpoint(),
                           .region = origin.region(),
                           .profile = origin.profile(),
                           .path_style = origin.path_style(),
                           .requester_pays = origin.requester_pays(),
                           .sign = !origin.no_sign(),
                           .expected_owner = origin.expected_owner()};
  link.domain = UuidFromBytes(message.domain());
  link.sharing_domain = message.sharing_domain();
  link.block_bytes = message.block_bytes();
  link.replicas = message.replicas();
  link.refresh = static_cast<RefreshPolicy>(message.refresh());
  link.quota_bytes = message.quota_bytes();
  link.priority = LinkPriorityOf(message.priority());
  link.background_fill = !message.no_background_fill();
  link.pins.assign(message.pins().begin(), message.pins().end());
  link.pins_version = message.pins_version();
  link.includes.assign(message.includes().begin(), message.includes().end());
  link.excludes.assign(message.excludes().begin(), message.excludes().end());
  link.manifest = {.location = message.manifest().location(),
                   .behind_prefix = message.manifest().behind_prefix(),
                   .skip_bad = message.manifest().skip_bad()};
  link.posix_metadata = message.posix_metadata();
  link.refresh_seconds = message.refresh_seconds();
  link.set = message.set();
  const bool good = !link.id.IsZero() && !link.domain.IsZero() && !link.name.empty() &&
                    link.block_bytes != 0 &&
                    message.refresh() <= static_cast<std::uint32_t>(RefreshPolicy::kPeriodic);
  if (!good) return Fail(Code::kInvalid, fmt::format("link '{}' is incomplete", link.name));
  return link;
}

proto::NodeInfo ToProto(const NodeInfo& node) {
  proto::NodeInfo message;
  message.set_id(node.id);
  message.set_address(node.address);
  message.set_local_socket(node.local_socket);
  message.set_host_id(node.host_id);
  message.set_zone(node.zone);
  message.set_capacity_bytes(node.capacity_bytes);
  message.set_state(static_cast<std::uint32_t>(node.state));
  return message;
}

Result<NodeInfo> FromProto(const proto::NodeInfo& message) {
  if (message.state() > static_cast<std::uint32_t>(NodeState::kOut)) {
    return Fail(Code::kInvalid,
                fmt::format("node '{}' is in an unknown state {}", message.id(), message.state()));
  }
  return NodeInfo{.id = message.id(),
                  .address = message.address(),
                  .local_socket = message.local_socket(),
                  .host_id = message.host_id(),
                  .zone = message.zone(),
                  .capacity_bytes = message.capacity_bytes(),
                  .state = static_cast<NodeState>(message.state())};
}

proto::FillLimits ToProto(const FillLimits& limits) {
  proto::FillLimits message;
  message.set_bytes_per_s(limits.bytes_per_s);
  message.set_requests_per_s(limits.requests_per_s);
  message.set_paused_since_unix_s(limits.paused_since_unix_s);
  message.set_version(limits.version);
  return message;
}

FillLimits FromProto(const proto::FillLimits& message) {
  return FillLimits{.bytes_per_s = message.bytes_per_s(),
                    .requests_per_s = message.requests_per_s(),
                    .paused_since_unix_s = message.paused_since_unix_s(),
                    .version = message.version()};
}

proto::Fence ToProto(const Fence& fence) {
  proto::Fence message;
  message.set_epoch(fence.epoch);
  if (!fence.claim.IsZero()) message.set_claim(BytesOf(fence.claim));
  if (fence.state) {
    message.mutable_state()->set_links(fence.state->links);
    message.mutable_state()->set_ring(fence.state->ring);
  }
  return message;
}

Fence FromProto(const proto::Fence& message) {
  Fence fence{.epoch = message.epoch(), .claim = UuidFromBytes(message.claim())};
  if (message.has_state())
    fence.state = StateVersion{.links = message.state().links(), .ring = message.state().ring()};
  return fence;
}

proto::BlockKey ToProto(const BlockId& block) {
  proto::BlockKey message;
  message.set_version_high(block.version.high);
  message.set_version_low(block.version.low);
  message.set_offset(block.offset);
  message.set_length(block.length);
  return message;
}

BlockId FromProto(const proto::BlockKey& message) {
  return BlockId{.version = {.high = message.version_high(), .low = message.version_low()},
                 .offset = message.offset(),
                 .length = message.length()};
}

}  // namespace forebay
