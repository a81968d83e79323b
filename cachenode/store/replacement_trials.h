#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// Whether replacing pays, by what was read afterwards: a sample of the replacements that the
/// estimates ask for are watched, whether they are made or not, until one of the two blocks is
/// read. The new one first: it would have paid. Until that is clearly more frequent than the
/// opposite, nothing is replaced, so that estimates that are wrong cost nothing. Each link has its
/// own record. Thread-safe; what is not watched costs a read one access to memory.
class ReplacementTrials {
 public:
  /// At `link`'s `newcomer`, just read, in the place of `victim`. `patience`: reads after which a
  /// trial without an end gives its place to another.
  void Watch(const Uuid& link, const BlockId& newcomer, const BlockId& victim,
             std::uint64_t patience);
  /// `counts`: as ReadHistory::NoteRead says. A read that does not count decides against the
  /// replacement, not for it: the READs of a block in a row, which are answered from memory, are
  /// the newcomer's, but a read soon after another is a hit that the victim would have had.
  /// Does not wait for another thread: where it would have to, a trial goes on without this read.
  void NoteRead(const BlockId& block, bool counts);

  /// Replacing for blocks of `link` has paid.
  bool Pays(const Uuid& link) const;

  /// A read of `link` misses: half of a replacement more that a single job may cause. Whoever makes
  /// one for it spends it first; false: there is none left.
  void NoteMiss(const Uuid& link);
  bool Spend(const Uuid& link);

 private:
  static constexpr std::size_t kTrials = 256;
  static constexpr std::size_t kFilter = 1U << 14U;
  /// Links beyond so many have no record, and replace nothing that is still wanted.
  static constexpr std::size_t kMaxLinks = 1024;
  struct Trial {
    std::uint64_t newcomer = 0;  ///< Hashes; both 0: no trial.
    std::uint64_t victim = 0;
    std::uint64_t ends = 0;
    Uuid link;
  };
  struct Record {
    double won = 0;
    double lost = 0;
    double budget = 0;
  };

  std::atomic<std::uint16_t>& Watched(std::uint64_t hash) { return watched_.at(hash % kFilter); }
  void End(Trial& trial);
  Record* RecordOf(const Uuid& link);

  std::atomic<std::uint64_t> reads_{0};
  /// How many trials have a block of this hash.
  std::array<std::atomic<std::uint16_t>, kFilter> watched_{};

  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  std::array<Trial, kTrials> trials_{};
  std::unordered_map<Uuid, Record> records_;
};

}  // namespace forebay
