#include "tests/eviction/caches.h"

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <random>
#include <set>
#include <string>
#include <unordered_set>

#include "cachenode/store/block_index.h"
#include "cachenode/store/read_history.h"
#include "cachenode/store/victim_choice.h"

namespace forebay::testing {
namespace {

/// Of the blocks in a row that a node's memory remembers.
constexpr std::size_t kRecent = 16;

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
};

/// The last blocks that were read: a READ of one of them belongs to the read before.
class Recent {
 public:
  bool Has(std::uint32_t block) {
    if (std::ranges::find(blocks_, block) != blocks_.end()) return true;
    blocks_.push_back(block);
    if (blocks_.size() > kRecent) blocks_.pop_front();
    return false;
  }

 private:
  std::deque<std::uint32_t> blocks_;
};

Outcome Run(const Trace& trace, Cache& cache) {
  Outcome outcome;
  Recent recent;
  for (std::size_t at = 0; at < trace.reads.size(); ++at) {
    const BlockRead& read = trace.reads[at];
    if (recent.Has(read.block)) {
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

BlockId IdOf(std::uint32_t block) {
  std::seed_seq seed{block};
  std::array<std::uint32_t, 4> words{};
  seed.generate(words.begin(), words.end());
  return {{std::uint64_t{words[0]} << 32 | words[1], std::uint64_t{words[2]} << 32 | words[3]},
          0,
          1U << 20};
}

Uuid LinkIdOf(std::uint32_t link) {
  Uuid id;
  id.bytes[0] = static_cast<std::uint8_t>(link + 1);
  return id;
}

/// What SegmentStore does, with places instead of a disk.
class Node {
 public:
  explicit Node(std::size_t places) : places_(places), choice_(index_, history_) {}

  void NoteRead(const BlockRead& read, const BlockId& block) {
    choice_.NoteRead(LinkIdOf(read.link), std::to_string(read.job), block);
  }

  Cache::Answer Read(const BlockRead& read, const BlockId& block) {
    NoteRead(read, block);
    if (index_.Find(block)) return {.hit = true};
    if (index_.size() == places_) {
      const auto draw = [this](std::uint64_t random) -> std::optional<VictimChoice::Drawn> {
        const std::optional<BlockIndex::Found> found = index_.Pick(random);
        if (!found) return std::nullopt;
        return VictimChoice::Drawn{*found, LinkIdOf(found->place.segment)};
      };
      const auto victim = choice_.Choose(LinkIdOf(read.link), block, draw);
      if (!victim) return {};
      index_.BeginRemove(victim->block);
      index_.FinishRemove(victim->handle);
      history_.SetCached(victim->block, false);
    }
    index_.Insert(block, {.segment = read.link}, 0);
    history_.SetCached(block, true);
    return {.admitted = true};
  }

 private:
  const std::size_t places_;
  BlockIndex index_;
  ReadHistory history_;
  VictimChoice choice_;
};

/// Nothing is replaced.
class FrozenNode {
 public:
  explicit FrozenNode(std::size_t places) : places_(places) {}

  void NoteRead(const BlockRead& /*read*/, const BlockId& /*block*/) {}
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
    return NodeOf(read).Read(read, ids_[read.block]);
  }
  void ReadAgain(const BlockRead& read) override { NodeOf(read).NoteRead(read, ids_[read.block]); }

 private:
  NodeType& NodeOf(const BlockRead& read) {
    return *nodes_[ids_[read.block].version.high % nodes_.size()];
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
