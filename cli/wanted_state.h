#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/outcome.h"
#include "cli/session.h"
#include "proto/coordinator.pb.h"

namespace forebay {

/// What a file of `forebay apply` asks for.
struct WantedState {
  std::vector<proto::LinkRequest> links;
  std::vector<proto::PinRequest> pins;
};

/// The links with their options and quotas, and the pins, as a document that ParseWanted reads.
std::expected<boost::json::object, Failure> DescribeState(Session& session);

/// kInvalid: not such a document; the sentence says which link or pin, and what of it.
Result<WantedState> ParseWanted(const std::string& text);

/// One step from what is to what is wanted.
struct WantedChange {
  std::string text;  ///< "link 'a' of s3://b/p: new"
  std::variant<proto::LinkRequest, proto::SetQuotaRequest, proto::SetPriorityRequest,
               proto::SetReplicasRequest, proto::PinRequest>
      request;
};

struct WantedPlan {
  std::vector<WantedChange> changes;   ///< In the order in which they are to be made.
  std::vector<std::string> conflicts;  ///< What cannot be changed; then nothing is to be.
  std::vector<std::string> unnamed;    ///< Links and pins that the file does not name: they stay.
};

/// Asks the coordinator what is, and compares. Changes nothing.
std::expected<WantedPlan, Failure> PlanFor(Session& session, const WantedState& wanted);

/// Makes one change. A new link is there, and being listed, when it returns: its task is answered.
std::expected<std::string, Failure> Make(Session& session, const WantedChange& change);

}  // namespace forebay
