#pragma once

#include <vector>

#include "common/base/asio.h"
#include "common/wire/server.h"
#include "coordinator/background_fills.h"
#include "coordinator/link_registry.h"
#include "coordinator/stats.h"

namespace forebay {

/// Takes out what `peer` says of links that it may not read: their rows stay, so that answers are
/// in their places, and name no job and no link.
void KeepGranted(const LinkRegistry& links, const PeerIdentity& peer,
                 proto::ReportJobsRequest& request);

/// Jobs: mounts tell of theirs, each of links that it may read, an administrator asks for one.
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
