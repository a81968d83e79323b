#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "cachenode/store/block_index.h"
#include "cachenode/store/read_history.h"

namespace forebay {

/// Which cached block makes way for a new one while jobs run (DESIGN 6.7): of a few that are drawn,
/// the one that the jobs want least; and none when they do not want the new one clearly more, so
/// that it is served and not kept. With one job that permutes its epochs this keeps what is there.
/// Thread-safe.
class VictimChoice {
 public:
  VictimChoice(const BlockIndex& index, const ReadHistory& history)
      : index_(index), history_(history) {}

  /// The link that a drawn block lies in; empty when it must not go.
  using LinkOfVictim = std::function<std::optional<Uuid>(const BlockIndex::Found&)>;

  /// A victim for a block of `link`. Blocks of links that nobody has read yet are left alone, and
  /// nothing goes for a block that no job has just read: a fill ahead of demand evicts nothing.
  std::optional<BlockIndex::Found> Choose(const Uuid& link, const BlockId& newcomer,
                                          const LinkOfVictim& link_of);

 private:
  std::uint64_t Random();

  const BlockIndex& index_;
  const ReadHistory& history_;
  std::atomic<std::uint64_t> seed_{0};
};

}  // namespace forebay
