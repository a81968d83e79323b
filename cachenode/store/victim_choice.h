#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "cachenode/store/block_index.h"
#include "cachenode/store/read_history.h"
#include "cachenode/store/replacement_trials.h"

namespace forebay {

/// Which cached block makes way for a new one while jobs run (DESIGN 6.7): of a few that are drawn,
/// the one that the jobs want least; and none when they do not want the new one clearly more, or
/// when replacing has not paid (ReplacementTrials), so that it is served and not kept. A block that
/// no job wants any more goes without that proof. With one job that permutes its epochs this keeps
/// what is there. Thread-safe.
class VictimChoice {
 public:
  VictimChoice(const BlockIndex& index, ReadHistory& history) : index_(index), history_(history) {}

  /// `job` reads the block, through `link`.
  ReadHistory::Noted NoteRead(const Uuid& link, std::string_view job, const BlockId& block);

  /// A block that may go, and the link that it lies in.
  struct Drawn {
    BlockIndex::Found found;
    Uuid link;
  };
  /// The one that 64 random bits choose; empty when they meet none.
  using Draw = std::function<std::optional<Drawn>(std::uint64_t random)>;

  /// A victim for a block of `link`. Blocks of links that nobody has read yet are left alone, and
  /// nothing goes for a block that no job has just read: a fill ahead of demand evicts nothing.
  std::optional<BlockIndex::Found> Choose(const Uuid& link, const BlockId& newcomer,
                                          const Draw& draw);

 private:
  std::uint64_t Random();

  const BlockIndex& index_;
  ReadHistory& history_;
  ReplacementTrials trials_;
  std::atomic<std::uint64_t> seed_{0};
};

}  // namespace forebay
