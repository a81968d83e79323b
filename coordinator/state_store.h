#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace forebay {

/// Changes that are made together or not at all.
class StateBatch {
 public:
  struct Change {
    std::string key;
    std::optional<std::string> value;  ///< Nothing = delete.
  };

  void Put(std::string key, std::string value) {
    changes_.push_back({std::move(key), std::move(value)});
  }
  void Delete(std::string key) { changes_.push_back({std::move(key), std::nullopt}); }

  bool empty() const { return changes_.empty(); }
  const std::vector<Change>& changes() const { return changes_; }

 private:
  std::vector<Change> changes_;
};

/// The coordinator's small state: links, members, tasks, the ring table, totals (DESIGN 6.10).
///
/// Fencing: a coordinator claims an epoch when it starts and every write carries it. A write with a
/// lower epoch than the stored one is refused, so a coordinator that was replaced while it slept
/// can change nothing.
///
/// Calls block (Offload) and may come from any thread. What Write answered with success survives a
/// crash of the process and of the machine.
class StateStore {
 public:
  virtual ~StateStore() = default;

  /// Makes the caller the writer: the answer is higher than every epoch claimed before.
  Result<std::uint64_t> Claim() { return ClaimAbove(0); }

  /// As Claim; the answer is higher than `least`, too.
  virtual Result<std::uint64_t> ClaimAbove(std::uint64_t least) = 0;

  virtual Result<std::optional<std::string>> Get(const std::string& key) = 0;

  /// All keys that begin with `prefix` and their values, in byte order.
  virtual Result<std::vector<std::pair<std::string, std::string>>> Scan(
      const std::string& prefix) = 0;

  /// All of `batch` or none of it; the last change of a key counts. kDenied: somebody claimed a
  /// higher epoch than `fence`. kInternal: the disk failed; kUnavailable: the store does not
  /// answer; nothing may be assumed about the batch then.
  virtual Status Write(const StateBatch& batch, std::uint64_t fence) = 0;
};

}  // namespace forebay
