#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "cachenode/block_peers.h"
#include "common/base/notifier.h"

namespace forebay::fakes {

/// The other nodes of a cluster, as a test's script says; nobody else is there without one. What
/// they have are SampleLink's bytes. Thread-safe.
class ScriptedPeers final : public BlockPeers {
 public:
  using Script = std::function<Result<PeerFind>(const ColdBlock&)>;

  void OnGet(Script script);
  /// What is found from now on has cost another node a GET.
  void FindByGets() { by_gets_ = true; }
  /// From now on they do not answer, until LetGo; then as the script said when they were asked.
  void Hold() { held_ = true; }
  void LetGo();
  std::uint64_t gets() const { return gets_; }

  bool MayHave(const ColdBlock& cold) const override;
  Task<Result<PeerFind>> Get(ColdBlock cold, PeerSink& sink, Deadline deadline) override;
  /// What others say when they are to ask S3 in this node's place; without it there are none.
  void OnStandIn(Script script);
  std::uint64_t stand_in_gets() const { return stand_in_gets_; }
  bool MayStandIn(const ColdBlock& cold) const override;
  Task<Result<PeerFind>> GetByStandIn(ColdBlock cold, PeerSink& sink, Deadline deadline) override;
  void NoteRefused() override { ++refusals_; }
  std::uint64_t refusals() const { return refusals_; }  ///< Of this node, by S3.

 private:
  static void Deliver(const ColdBlock& cold, PeerSink& sink);

  mutable std::mutex mutex_;
  Script script_;
  Script stand_in_;
  std::atomic<std::uint64_t> gets_{0};
  std::atomic<std::uint64_t> stand_in_gets_{0};
  std::atomic<std::uint64_t> refusals_{0};
  std::atomic<bool> by_gets_{false};
  std::atomic<bool> held_{false};
  Notifier let_go_;
};

}  // namespace forebay::fakes
