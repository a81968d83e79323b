#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstdint>

#include "cli/console.h"
#include "cli/outcome.h"
#include "proto/coordinator.pb.h"

namespace forebay {

using NodesEvicted = google::protobuf::RepeatedPtrField<proto::NodeEvicted>;

struct Freed {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pinned_blocks = 0;  ///< That stay …
  std::uint64_t pinned_bytes = 0;   ///< … and their bytes on disk.
  Exit exit = Exit::kDone;  ///< kPartly when some nodes did not answer, kFailed when none did.
};

/// Sums what each node freed.
Freed SumOf(const NodesEvicted& nodes);

/// A row for each node, and the sum. `dry_run`: it would be so.
void PrintFreed(const Console& console, const NodesEvicted& nodes, bool dry_run = false);

}  // namespace forebay
