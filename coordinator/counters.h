#pragma once

#include <cstdint>

#include "proto/coordinator.pb.h"

namespace forebay {

/// Totals of block lookups, as plain numbers.
struct Totals {
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t hits = 0;
  std::uint64_t hit_bytes = 0;
  std::uint64_t misses = 0;
  std::uint64_t s3_gets = 0;
  std::uint64_t s3_bytes = 0;
  std::uint64_t s3_retries = 0;
  std::uint64_t s3_errors = 0;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t peer_fills = 0;
  std::uint64_t cross_zone_bytes = 0;

  bool operator==(const Totals&) const = default;
  Totals& operator+=(const Totals& other);
  /// Field by field, never below zero.
  Totals Since(const Totals& before) const;
  /// Field by field: reports of one process may overtake each other, its totals only grow.
  void RaiseTo(const Totals& other);

  static Totals From(const proto::LinkCounters& message);
  void WriteTo(proto::LinkCounters& message) const;
};

}  // namespace forebay
