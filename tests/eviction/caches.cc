#include "tests/eviction/caches.h"

#include <algorithm>
#include <list>
#include <memory>
#include <random>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/eviction/choice_alone.h"
#include "tests/eviction/recent.h"
#include "tests/eviction/trace_blocks.h"

namespace forebay::testing {
namespace {

/// As a cache sees it: Read answers whether it was there, and whether it is kept from now on.
class Cache {
 public:
  struct Answer {
    bool hit = false;
    bool admitted = false;
  };
  virtual ~Cache() = default;
  virtual Answer Read(const BlockRead& read, std::size_t at) = 0;
  /// Another READ of a block that was just read.
  virtual void ReadAgain(const BlockRead& /*read*/) {}
  /// Those end that belong to the last read of the block.
  virtual void Forget(std::uint32_t /*block*/) {}
};

Outcome Run(const Trace& trace, Cache& cache) {
  Outcome outcome;
  Recent recent;
  for (std::size_t at = 0; at < trace.reads.size(); ++at) {
    const BlockRead& read = trace.reads[at];
    const bool again = recent.Has(read.block);
    if (const auto left = recent.Left()) cache.Forget(*left);
    if (again) {
      cache.ReadAgain(read);
      continue;
    }
    const Cache::Answer answer = cache.Read(read, at);
    if (at < trace.measured_from) continue;
    ++outcome.reads;
    outcome.hits += answer.hit ? 1 : 0;
    outcome.admitted += answer.admitted ? 1 : 0;
  }
  return outcome;
}

class Lru final : public Cache {
 public:
  Lru(const Trace& trace, std::size_t places)
      : places_(places), where_(trace.blocks, order_.end()) {}

  Answer Read(const BlockRead& read, std::size_t /*at*/) override {
    if (where_[read.block] != order_.end()) {
      order_.splice(order_.begin(), order_, where_[read.block]);
      return {.hit = true};
    }
    if (order_.size() == places_) {
      where_[order_.back()] = order_.end();
      order_.pop_back();
    }
    order_.push_front(read.block);
    where_[read.block] = order_.begin();
    return {.admitted = true};
  }

 private:
  const std::size_t places_;
  std::list<std::uint32_t> order_;
  std::vector<std::list<std::uint32_t>::iterator> where_;
};

class Oracle final : public Cache {
 public:
  Oracle(const Trace& trace, std::size_t places)
      : places_(places), jobs_(trace.jobs), place_of_(trace.blocks, kNone) {
    for (Job& job : jobs_) job.read_in.assign(trace.blocks, UINT32_MAX);
  }

  Answer Read(const BlockRead& read, std::size_t /*at*/) override {
    Job& job = jobs_[read.job];
    job.epoch = read.epoch;
    job.left = read.left;
    ++job.reads;
    job.read_in[read.block] = read.epoch;
    if (place_of_[read.block] != kNone) return {.hit = true};
    if (cached_.size() < places_) {
      place_of_[read.block] = cached_.size();
      cached_.push_back(read.block);
      return {.admitted = true};
    }
    std::size_t victim = 0;
    double least = Worth(read.block);
    bool found = false;
    for (int i = 0; i < kCandidates; ++i) {
      const std::size_t place = random_() % cached_.size();
      const double worth = Worth(cached_[place]);
      if (worth >= least) continue;
      victim = place;
      least = worth;
      found = true;
    }
    if (!found) return {};
    place_of_[cached_[victim]] = kNone;
    cached_[victim] = read.block;
    place_of_[read.block] = victim;
    return {.admitted = true};
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  static constexpr int kCandidates = 32;
  struct Job {
    std::vector<std::uint32_t> read_in;  // the epoch
    std::uint32_t epoch = 0;
    std::uint32_t left = 0;
    double reads = 0;
  };

  double Worth(std::uint32_t block) const {
    double worth = 0;
    for (const Job& job : jobs_) {
      if (job.reads > 0 && job.read_in[block] != job.epoch) worth += job.reads / (job.left + 1.0);
    }
    return worth;
  }

  const std::size_t places_;
  std::vector<Job> jobs_;
  std::vector<std::size_t> place_of_;
  std::vector<std::uint32_t> cached_;
  std::mt19937_64 random_{5};
};

class Belady final : public Cache {
 public:
  Belady(const Trace& trace, std::size_t places)
      : places_(places), next_(trace.reads.size()), wanted_at_(trace.blocks, kNever) {
    Recent recent;
    std::vector<bool> counts;
    counts.reserve(trace.reads.size());
    for (const BlockRead& read : trace.reads) counts.push_back(!recent.Has(read.block));
    std::vector<std::size_t> later(trace.blocks, kNever);
    for (std::size_t at = trace.reads.size(); at-- > 0;) {
      if (!counts[at]) continue;
      next_[at] = later[trace.reads[at].block];
      later[trace.reads[at].block] = at;
    }
  }

  Answer Read(const BlockRead& read, std::size_t at) override {
    const bool hit = cached_.erase({wanted_at_[read.block], read.block}) > 0;
    if (!hit && cached_.size() == places_) {
      const auto last = std::prev(cached_.end());
      if (last->first <= next_[at]) return {};
      cached_.erase(last);
    }
    wanted_at_[read.block] = next_[at];
    cached_.emplace(next_[at], read.block);
    return {.hit = hit, .admitted = !hit};
  }

 private:
  static constexpr std::size_t kNever = SIZE_MAX;
  const std::size_t places_;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> wanted_at_;
  std::set<std::pair<std::size_t, std::uint32_t>> cached_;
};

/// With places instead of a disk.
class Node {
 public:
  explicit Node(std::size_t places) : places_(places) {}

  Cache::Answer Read(const BlockRead& read, const BlockId& block) {
    const auto has_room = [this](std::size_t /*gone*/) { return choice_.size() < places_; };
    const ChoiceAlone::Answer answer = choice_.Read(read, block, has_room);
    return {.hit = answer.hit, .admitted = answer.admitted};
  }
  void Forget(const BlockId& block) { choice_.Forget(block); }

 private:
  const std::size_t places_;
  ChoiceAlone choice_;
};

/// Nothing is replaced.
class FrozenNode {
 public:
  explicit FrozenNode(std::size_t places) : places_(places) {}

  void Forget(const BlockId& /*block*/) {}
  Cache::Answer Read(const BlockRead& /*read*/, const BlockId& block) {
    if (cached_.contains(block)) return {.hit = true};
    if (cached_.size() == places_) return {};
    cached_.insert(block);
    return {.admitted = true};
  }

 private:
  const std::size_t places_;
  std::unordered_set<BlockId> cached_;
};

/// Nodes that share the blocks by their names, and the places evenly.
template <typename NodeType>
class Nodes final : public Cache {
 public:
  Nodes(const Trace& trace, std::size_t places, std::uint32_t nodes) {
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const std::size_t own = places * (i + 1) / nodes - places * i / nodes;
      nodes_.push_back(std::make_unique<NodeType>(own));
    }
    ids_.reserve(trace.blocks);
    for (std::uint32_t block = 0; block < trace.blocks; ++block) ids_.push_back(IdOf(block));
  }

  Answer Read(const BlockRead& read, std::size_t /*at*/) override {
    return NodeOf(read.block).Read(read, ids_[read.block]);
  }
  void ReadAgain(const BlockRead& read) override {
    NodeOf(read.block).Read(read, ids_[read.block]);
  }
  void Forget(std::uint32_t block) override { NodeOf(block).Forget(ids_[block]); }

 private:
  NodeType& NodeOf(std::uint32_t block) {
    return *nodes_[ids_[block].version.high % nodes_.size()];
  }

  std::vector<std::unique_ptr<NodeType>> nodes_;
  std::vector<BlockId> ids_;
};

}  // namespace

Outcome RunForebay(const Trace& trace, std::size_t places, std::uint32_t nodes) {
  Nodes<Node> cache(trace, places, nodes);
  return Run(trace, cache);
}

Outcome RunLru(const Trace& trace, std::size_t places) {
  Lru cache(trace, places);
  return Run(trace, cache);
}

Outcome RunNoEvict(const Trace& trace, std::size_t places, std::uint32_t nodes) {
  Nodes<FrozenNode> cache(trace, places, nodes);
  return Run(trace, cache);
}

Outcome RunOracle(const Trace& trace, std::size_t places) {
  Oracle cache(trace, places);
  return Run(trace, cache);
}

Outcome RunBelady(const Trace& trace, std::size_t places) {
  Belady cache(trace, places);
  return Run(trace, cache);
}

}  // namespace forebay::testing
