#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "common/model/block_id.h"
#include "common/model/object_version.h"

namespace forebay {

/// Which blocks of listings a node has kept since it began, so that those of old generations can go
/// at once. Thread-safe.
class KeptListings {
 public:
  /// A block of the object `key` of a system link is kept now. Answers the blocks of generations
  /// before the one before the newest, which no mount asks for any more; they are forgotten here.
  std::vector<BlockId> Add(const Uuid& system_link, std::string_view key, const BlockId& block);

 private:
  std::mutex mutex_;
  std::map<Uuid, std::map<std::uint64_t, std::vector<BlockId>>> by_generation_;
};

}  // namespace forebay
