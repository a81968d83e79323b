#pragma once

#include <cstdint>
#include <memory>

#include "tests/eviction/caches.h"
#include "tests/eviction/workload.h"

namespace forebay::testing {

/// All that a node has between a question and S3: BlockReader, Filler and the store on a disk of
/// its own, with a made-up S3 and a clock that goes on by a millisecond with each read. One read
/// after the other, so that the counts are the same on every run.
class WholeNode {
 public:
  /// Its blocks lie in a folder of the system's for temporary files, until it ends.
  explicit WholeNode(std::uint64_t capacity_bytes);
  ~WholeNode();
  WholeNode(const WholeNode&) = delete;
  WholeNode& operator=(const WholeNode&) = delete;

  /// How many blocks of a trace a new disk of this capacity has room for. The room changes a little
  /// as the store's index grows and shrinks.
  static std::size_t PlacesIn(std::uint64_t capacity_bytes);

  /// `link`'s blocks may take so many places.
  void SetQuota(std::uint32_t link, std::size_t places);

  struct Outcomes {
    Outcome whole;
    Outcome alone;  ///< Of ChoiceAlone, which is told at each read what room the node had.
  };
  /// What it made of the trace, counted as RunForebay does: a hit costs no GET. Once.
  Outcomes Run(const Trace& trace);

  std::uint64_t gets() const;      ///< That S3 has seen.
  std::size_t blocks() const;      ///< That the store has.
  std::uint64_t counted_misses();  ///< As `forebay stats` counts them, of all links.
  std::uint64_t counted_reads();   ///< So too.

 private:
  struct Parts;
  struct Step {
    bool hit = false;
    std::size_t evicted = 0;
    std::size_t admitted = 0;
  };
  Step Read(const BlockRead& read);

  std::unique_ptr<Parts> parts_;
};

}  // namespace forebay::testing
