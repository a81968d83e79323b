#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/block_id.h"
#include "common/s3/object_store.h"
#include "coordinator/membership.h"
#include "coordinator/node_calls.h"
#include "coordinator/pin_book.h"
#include "coordinator/request_budgets.h"
#include "coordinator/target_lookup.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// Answers `explain PATH`: the file's version, who owns its blocks and owned them before, who holds
/// them, who read them last, why they went, what pins it, and what S3 has under the key at this
/// moment. Lives on the event loop that the calls belong to.
class Explainer {
 public:
  /// `store`, `pins` and `requests` outlive it.
  Explainer(NodeCaller call, ObjectStore& store, const PinBook& pins,
            const RequestBudgets& requests)
      : call_(std::move(call)), store_(store), pins_(pins), requests_(requests) {}

  /// kInvalid: the target is a folder. A node or an S3 that does not answer in time is no failure:
  /// the reply says that it is silent.
  Task<Result<proto::ExplainReply>> Explain(LocatedTarget target, Roster roster, Deadline deadline);

 private:
  void AddPins(const LocatedTarget& target, const std::string& path,
               proto::ExplainReply& reply) const;
  Task<void> AskNodes(std::vector<BlockId> blocks, Roster roster, Deadline deadline,
                      proto::ExplainReply& reply);
  Task<void> AskS3(LinkOrigin origin, Deadline deadline, proto::ExplainReply& reply);

  NodeCaller call_;
  ObjectStore& store_;
  const PinBook& pins_;
  const RequestBudgets& requests_;
};

}  // namespace forebay
