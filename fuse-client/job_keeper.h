#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "fuse-client/job_table.h"
#include "fuse-client/supervisor/keeper.h"

namespace forebay {

/// Keeps what jobs have read for a successor of this process, so that no counter goes backwards
/// and no epoch is lost. One thread at a time.
class JobKeeper {
 public:
  JobKeeper(Keeper& keeper, JobTable& jobs) : keeper_(keeper), jobs_(jobs) {}

  /// Gives the table what an earlier process kept; answers under which number that has reported,
  /// nothing when there is none.
  std::optional<std::uint64_t> Resume();
  /// Keeps what has changed.
  void Save(std::uint64_t incarnation);

 private:
  Keeper& keeper_;
  JobTable& jobs_;
  std::map<std::uint64_t, std::uint64_t> saved_;  // changes by serial
  std::string saved_answers_;
};

}  // namespace forebay
