#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/model/object_version.h"
#include "coordinator/state_store.h"

namespace forebay {

// A backup of a coordinator's small state: 8 bytes "FBBACKUP", u64 XXH3-64 of the rest (little
// endian), and a serialised proto::StateBackup. Listings are not in it: S3 has them. It holds what
// join tokens prove, so it is as secret as they are.

/// All that `store` holds. `fence` is the claim of the coordinator that asks. Blocks.
Result<std::string> MakeBackup(StateStore& store, std::uint64_t fence, std::int64_t now_unix_s);

struct RestoredBackup {
  Uuid cluster;
  std::int64_t taken_unix_s = 0;
  std::uint64_t links = 0;
  std::uint64_t fence = 0;  ///< The claim under which it was written.
};

/// Puts a backup in the place of all that `store` holds, under a new claim: whoever claimed before
/// can write no more, and must begin again. The fencing epoch, the ring's epoch, the links' version
/// and the next number of each listing become `now_unix_s` at least, which is above all that the
/// lost cluster counted up to, so that nodes and mounts believe what they hear; restoring the same
/// backup later goes above that again. `cluster` is the certificates'; zero: there are none, and
/// any backup fits. kInvalid: the store has links, pins or tasks, the backup is of another cluster,
/// or `bytes` are no whole backup that this version reads; nothing has changed then. Blocks.
Result<RestoredBackup> RestoreBackup(StateStore& store, std::string_view bytes, const Uuid& cluster,
                                     std::int64_t now_unix_s);

}  // namespace forebay
