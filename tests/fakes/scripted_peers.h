#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "cachenode/block_peers.h"
#include "tests/fakes/sample_link.h"

namespace forebay::fakes {

/// The other nodes of a cluster, as a test's script says; nobody else is there without one. What
/// they have are SampleLink's bytes. Thread-safe.
class ScriptedPeers final : public BlockPeers {
 public:
  using Script = std::function<Result<PeerFind>(const ColdBlock&)>;

  void OnGet(Script script) {
    const std::scoped_lock lock(mutex_);
    script_ = std::move(script);
  }
  std::uint64_t gets() const { return gets_; }

  bool MayHave(const BlockId& /*block*/) const override {
    const std::scoped_lock lock(mutex_);
    return script_ != nullptr;
  }

  Task<Result<PeerFind>> Get(ColdBlock cold, BodySink& sink, Deadline /*deadline*/) override {
    ++gets_;
    Script script;
    {
      const std::scoped_lock lock(mutex_);
      script = script_;
    }
    Result<PeerFind> find = script(cold);
    if (find && find->found) {
      const auto bytes = SampleLink::Bytes(cold.object.key, cold.block.offset, cold.block.length);
      sink.OnAttempt();
      sink.OnData(bytes->view());
    }
    co_return find;
  }

 private:
  mutable std::mutex mutex_;
  Script script_;
  std::atomic<std::uint64_t> gets_{0};
};

}  // namespace forebay::fakes
