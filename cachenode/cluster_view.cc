#include "cachenode/cluster_view.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "common/base/files.h"
#include "common/model/system_link.h"
#include "common/wire/messages.h"
#include "proto/node_state.pb.h"

namespace forebay {
namespace {

/// The link, and the one that carries its listings.
void Insert(LinkSpec link, ClusterView::Links& links) {
  LinkSpec system = SystemLinkOf(link);
  const Uuid system_id = system.id;
  links[system_id] = std::make_shared<const LinkSpec>(std::move(system));
  const Uuid id = link.id;
  links[id] = std::make_shared<const LinkSpec>(std::move(link));
}

/// As one disk has it.
struct KeptState {
  proto::NodeClusterState state;
  RingTable ring;
  std::string file;
};

Status Damaged(const std::string& file) { return Fail(Code::kCorrupt, file + " is damaged"); }

}  // namespace

Status ClusterView::KeepIn(std::vector<std::string> files) {
  {
    const std::scoped_lock lock(file_mutex_);
    files_.clear();
    for (const std::string& file : files) files_.push_back({.path = file});
  }
  std::vector<KeptState> kept;
  Status failed;
  bool may_be_new = false;
  for (const std::string& file : files) {
    Result<std::string> bytes = ReadWholeFile(file);
    may_be_new = may_be_new || (!bytes && bytes.error().code == Code::kNotFound);
    proto::NodeClusterState state;
    Result<RingTable> ring;
    const bool is_good = bytes && state.ParseFromString(*bytes);
    if (is_good) ring = RingTable::Parse(state.ring());
    if (is_good && ring) {
      kept.push_back({std::move(state), std::move(*ring), file});
    } else if (bytes) {
      failed = Damaged(file);
    } else if (bytes.error().code != Code::kNotFound && failed) {
      failed = Fail(bytes.error());
    }
  }
  // A disk of another cluster is the store's to refuse.
  if (!kept.empty()) {
    std::erase_if(kept, [first = kept.front().state.cluster()](const KeptState& each) {
      return each.state.cluster() != first;
    });
  }
  // Of one node they differ where a disk was away for a while, or a write of one failed.
  std::ranges::sort(kept, std::greater(), [](const KeptState& each) {
    return std::tuple(each.state.fence().epoch(), each.state.links_version(), each.ring.epoch());
  });
  for (KeptState& each : kept) {
    Status taken = Take(each.state, std::move(each.ring), each.file);
    if (taken) return taken;
    failed = taken;
  }
  const bool is_damaged = !failed && failed.error().code == Code::kCorrupt;
  return may_be_new && !is_damaged ? Status() : failed;
}

Status ClusterView::Take(const proto::NodeClusterState& state, RingTable ring,
                         const std::string& file) {
  Links links;
  for (const proto::LinkSpec& message : state.links()) {
    Result<LinkSpec> link = FromProto(message);
    if (!link) return Damaged(file);
    Insert(std::move(*link), links);
  }
  const std::scoped_lock lock(mutex_);
  cluster_ = UuidFromBytes(state.cluster());
  links_.Publish(std::move(links));
  links_version_ = state.links_version();
  fill_limits_ = FromProto(state.fill_limits());
  for (const proto::RequestLease& lease : state.leases())
    leases_.push_back({UuidFromBytes(lease.link()), lease.requests_per_s()});
  fence_ = FromProto(state.fence());
  ring_epoch_.store(ring.epoch(), std::memory_order_release);
  ring_ = std::make_shared<const RingTable>(std::move(ring));
  return {};
}

std::string ClusterView::Serialized() const {
  proto::NodeClusterState state;
  const std::scoped_lock lock(mutex_);
  state.set_cluster(BytesOf(cluster_));
  for (const auto& [id, link] : links_.Copy()) {
    if (!IsSystemLink(*link)) *state.add_links() = ToProto(*link);
  }
  state.set_links_version(links_version_);
  *state.mutable_fill_limits() = ToProto(fill_limits_);
  *state.mutable_fence() = ToProto(fence_);
  for (const RequestLease& lease : leases_) {
    proto::RequestLease& message = *state.add_leases();
    message.set_link(BytesOf(lease.link));
    message.set_requests_per_s(lease.requests_per_s);
  }
  state.set_ring(ring_->Serialize());
  return state.SerializeAsString();
}

Status ClusterView::Keep() {
  Status failed;
  bool any = false;
  for (std::size_t i = 0;; ++i) {
    std::string path;
    {
      const std::scoped_lock lock(file_mutex_);
      if (i >= files_.size()) break;
      File& file = files_[i];
      file.again = file.writing;
      any = any || file.writing;  // by whoever writes it
      if (file.writing) continue;
      file.writing = true;
      path = file.path;
    }
    Status kept = KeepOne(i, path);
    any = any || kept;
    if (failed && !kept) failed = std::move(kept);
  }
  return any ? Status() : failed;
}

/// Until nobody has asked for it meanwhile.
Status ClusterView::KeepOne(std::size_t i, const std::string& path) {
  for (;;) {
    Status written = WriteFileAtomically(path, Serialized());
    const std::scoped_lock lock(file_mutex_);
    if (std::exchange(files_[i].again, false)) continue;
    files_[i].writing = false;
    return written;
  }
}

Uuid ClusterView::cluster() const {
  const std::scoped_lock lock(mutex_);
  return cluster_;
}

void ClusterView::SetCluster(const Uuid& cluster) {
  const std::scoped_lock lock(mutex_);
  cluster_ = cluster;
}

Fence ClusterView::fence() const {
  const std::scoped_lock lock(mutex_);
  return Heard();
}

/// The caller holds mutex_.
Fence ClusterView::Heard() const {
  return Fence{.epoch = fence_.epoch,
               .claim = fence_.claim,
               .state = StateVersion{.links = links_version_, .ring = ring_->epoch()}};
}

bool ClusterView::Believe(const Fence& fence) {
  const std::scoped_lock lock(mutex_);
  if (!Believes(Heard(), fence)) return false;
  fence_ = fence;
  return true;
}

std::shared_ptr<const LinkSpec> ClusterView::FindLink(const Uuid& id) const {
  return links_.Read([&id](const Links& links) {
    const auto found = links.find(id);
    return found == links.end() ? nullptr : found->second;
  });
}

std::vector<std::shared_ptr<const LinkSpec>> ClusterView::AllLinks() const {
  const Links known = links_.Copy();
  std::vector<std::shared_ptr<const LinkSpec>> links;
  links.reserve(known.size());
  for (const auto& [id, link] : known) links.push_back(link);
  return links;
}

std::uint64_t ClusterView::links_version() const {
  const std::scoped_lock lock(mutex_);
  return links_version_;
}

void ClusterView::SetLinks(std::vector<LinkSpec> links, std::uint64_t version) {
  Links fresh;
  for (LinkSpec& link : links) Insert(std::move(link), fresh);
  {
    const std::scoped_lock lock(mutex_);
    links_.Publish(std::move(fresh));
  }
  // Who sees the new version, or waits for a link, finds the links' rules in force.
  if (changed_) changed_();
  {
    const std::scoped_lock lock(mutex_);
    links_version_ = version;
  }
  links_changed_.NotifyAll();
}

std::vector<RequestLease> ClusterView::leases() const {
  const std::scoped_lock lock(mutex_);
  return leases_;
}

void ClusterView::SetLeases(std::vector<RequestLease> leases) {
  const std::scoped_lock lock(mutex_);
  leases_ = std::move(leases);
}

FillLimits ClusterView::fill_limits() const {
  const std::scoped_lock lock(mutex_);
  return fill_limits_;
}

void ClusterView::SetFillLimits(const FillLimits& limits) {
  {
    const std::scoped_lock lock(mutex_);
    if (fill_limits_ == limits) return;
    fill_limits_ = limits;
  }
  if (changed_) changed_();
}

std::shared_ptr<const RingTable> ClusterView::ring() const {
  const std::scoped_lock lock(mutex_);
  return ring_;
}

RingBytes ClusterView::ring_bytes() const {
  // Who comes while they are made waits for them, and does not make its own.
  const std::scoped_lock lock(bytes_mutex_);
  std::shared_ptr<const RingTable> table = ring();
  if (bytes_of_ != table) {
    auto text = std::make_shared<const std::string>(table->Serialize());
    const ByteView view(reinterpret_cast<const std::byte*>(text->data()), text->size());
    bytes_ = Slice{std::move(text), view};
    bytes_of_ = std::move(table);
  }
  return {bytes_of_->epoch(), bytes_};
}

void ClusterView::OfferRing(RingTable table) {
  {
    const std::scoped_lock lock(mutex_);
    if (table.epoch() < ring_->epoch()) return;
    ring_epoch_.store(table.epoch(), std::memory_order_release);
    ring_ = std::make_shared<const RingTable>(std::move(table));
  }
  if (changed_) changed_();
}

}  // namespace forebay
