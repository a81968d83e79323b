#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/s3/object_store.h"
#include "tests/sim/dataset.h"
#include "tests/sim/virtual_time.h"

namespace forebay::sim {

/// The one S3 of a world, as far away as S3 is. Counts each GET.
class FarS3 {
 public:
  FarS3(World& world, const Dataset& data)
      : world_(world),
        data_(data),
        gets_(data.size()),
        in_vain_(data.size()),
        brought_(data.size()) {}

  /// Told of each GET that begins: of which block, and by whom.
  void OnGet(std::function<void(std::size_t block, const std::string& node)> told) {
    told_ = std::move(told);
  }
  /// Answers nobody before then.
  void HangUntil(TimePoint until) { hangs_until_ = until; }
  /// Answers this node no more, however long it waits, as behind a route that is broken; or again.
  void Lose(const std::string& node) { lost_.insert(node); }
  void Find(const std::string& node) { lost_.erase(node); }
  /// For mutants: what it sends from now on is one bit wrong; it refuses everything; or GETs that
  /// run now fail.
  void Damage() { damaged_ = true; }
  void Refuse() { refuses_ = true; }
  void FailAllThatRun() { ++failures_; }

  std::uint64_t gets() const { return all_; }
  std::uint64_t gets_of(std::size_t block) const { return gets_[block]; }
  /// By a node that it does not answer, which waits for it at this moment.
  bool is_asked_in_vain(std::size_t block) const { return in_vain_[block] > 0; }
  /// Bytes that were brought although they had been brought already.
  std::uint64_t again_of(std::size_t block) const;

  Task<Status> Get(std::string node, GetRequest request, BodySink* sink, Deadline deadline);
  Task<Result<ObjectHead>> Head(std::string node, Deadline deadline);

 private:
  Task<bool> AwaitRoute(const std::string* node, const GetRequest* request,
                        const std::size_t* block, Deadline deadline);

  World& world_;
  const Dataset& data_;
  std::set<std::string> lost_;
  std::function<void(std::size_t, const std::string&)> told_;
  TimePoint hangs_until_;
  bool damaged_ = false;
  bool refuses_ = false;
  std::uint64_t failures_ = 0;
  std::vector<std::uint64_t> gets_;
  std::vector<int> in_vain_;                      // attempts that run
  std::vector<std::vector<BlockRange>> brought_;  // by block, whole answers
  std::uint64_t all_ = 0;
};

/// What one node sees of it.
class NodesS3 final : public ObjectStore {
 public:
  NodesS3(FarS3& s3, std::string node) : s3_(s3), node_(std::move(node)) {}

  Task<Status> Get(GetRequest request, BodySink& sink, Deadline deadline) override;
  // Nodes do not list.
  Task<Result<ListPage>> List(ListRequest request, Deadline deadline) override;
  Task<Result<VersionPage>> ListVersions(VersionsRequest request, Deadline deadline) override;
  Task<Result<ObjectHead>> Head(HeadRequest request, Deadline deadline) override;

 private:
  FarS3& s3_;
  const std::string node_;
};

}  // namespace forebay::sim
