#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/model/object_version.h"
#include "coordinator/link_registry.h"
#include "coordinator/state_store.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

/// Bytes that `pins` keep, each byte once however many pins cover it.
std::uint64_t PinnedBytes(const std::vector<proto::PinRecord>& pins);
/// Those of `pins` that no other one of them covers.
std::vector<proto::PinRecord> Uncovered(const std::vector<proto::PinRecord>& pins);

/// All pins, and with each change what the nodes are to know of them: LinkSpec::pins and
/// pins_version. Persisted before it shows. Thread-safe; Put and Remove block (Offload).
class PinBook {
 public:
  /// `store` and `links` outlive it.
  PinBook(StateStore& store, LinkRegistry& links) : store_(store), links_(links) {}

  /// Takes what was persisted. Blocks; before anything serves.
  Status Load();

  /// Adds the pin, or changes until when it holds. True when anything changed.
  Result<bool> Put(const proto::PinRecord& pin);
  /// False when there is no such pin.
  Result<bool> Remove(const Uuid& link, const std::string& path);
  /// What a walk of a newer generation found; kept in memory.
  void Measure(const Uuid& link, const std::string& path, std::uint64_t objects,
               std::uint64_t bytes);

  std::vector<proto::PinRecord> All() const;
  std::optional<proto::PinRecord> Find(const Uuid& link, const std::string& path) const;

 private:
  using Key = std::pair<Uuid, std::string>;
  Status Write(const Uuid& link, std::map<Key, proto::PinRecord> next, StateBatch batch);

  StateStore& store_;
  LinkRegistry& links_;
  std::mutex change_mutex_;   // one change at a time, over its write
  mutable std::mutex mutex_;  // guards what follows
  std::map<Key, proto::PinRecord> pins_;
};

}  // namespace forebay
