#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/model/block_source.h"
#include "common/model/link.h"
#include "common/s3/object_store.h"
#include "tests/sim/virtual_time.h"

namespace forebay::sim {

/// The link that everybody reads: objects of one small block each, whose bytes follow from their
/// number.
class Dataset {
 public:
  Dataset(std::size_t objects, std::uint32_t replicas);

  const LinkSpec& link() const { return link_; }
  std::size_t size() const { return requests_.size(); }
  /// For all bytes of object `i`.
  const BlockRequest& RequestFor(std::size_t i) const { return requests_[i]; }
  std::size_t NumberOf(const std::string& key) const;
  /// True when these are its bytes.
  bool AreRight(std::size_t i, ByteView bytes) const;
  static std::vector<std::byte> BytesOf(std::size_t i);

 private:
  LinkSpec link_;
  std::vector<BlockRequest> requests_;
};

/// The one S3 of a world, as far away as S3 is. Counts each GET.
class FarS3 {
 public:
  FarS3(World& world, const Dataset& data) : world_(world), data_(data), gets_(data.size()) {}

  /// Told of each GET that begins: of which object, and by whom.
  void OnGet(std::function<void(std::size_t object, const std::string& node)> told) {
    told_ = std::move(told);
  }
  /// Answers nobody before then.
  void HangUntil(TimePoint until) { hangs_until_ = until; }

  std::uint64_t gets() const { return all_; }
  std::uint64_t gets_of(std::size_t object) const { return gets_[object]; }

  Task<Status> Get(std::string node, std::string key, BodySink* sink, Deadline deadline);

 private:
  World& world_;
  const Dataset& data_;
  std::function<void(std::size_t, const std::string&)> told_;
  TimePoint hangs_until_;
  std::vector<std::uint64_t> gets_;
  std::uint64_t all_ = 0;
};

/// What one node sees of it.
class NodesS3 final : public ObjectStore {
 public:
  NodesS3(FarS3& s3, std::string node) : s3_(s3), node_(std::move(node)) {}

  Task<Status> Get(GetRequest request, BodySink& sink, Deadline deadline) override;
  // Nodes neither list nor ask for heads.
  Task<Result<ListPage>> List(ListRequest request, Deadline deadline) override;
  Task<Result<ObjectHead>> Head(LinkOrigin origin, std::string key, Deadline deadline) override;

 private:
  FarS3& s3_;
  const std::string node_;
};

}  // namespace forebay::sim
