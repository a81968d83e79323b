#pragma once

#include <vector>

#include "common/base/asio.h"
#include "common/wire/server.h"
#include "coordinator/background_fills.h"
#include "coordinator/link_registry.h"
#include "coordinator/stats.h"

namespace forebay {

/// Jobs: mounts tell of theirs, an administrator asks for one.
class JobService {
 public:
  JobService(LinkRegistry& links, ClusterStats& stats, BackgroundFills& fills)
      : links_(links), stats_(stats), fills_(fills) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> ReportJobs(RpcCall call);
  Task<Result<RpcReply>> DescribeJob(RpcCall call);

  LinkRegistry& links_;
  ClusterStats& stats_;
  BackgroundFills& fills_;
};

}  // namespace forebay
