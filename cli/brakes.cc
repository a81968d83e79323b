#include "cli/brakes.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <ostream>
#include <utility>

#include "cli/cluster_stats.h"
#include "cli/json.h"
#include "cli/text.h"

namespace forebay {

Outcome ChangeBrakes(Session& session, const Console& console,
                     const proto::SetFillLimitsRequest& request) {
  auto reply = Ask<proto::SetFillLimitsReply>(session, Method::kSetFillLimits, request);
  if (!reply) return std::unexpected(reply.error());
  if (console.json()) {
    boost::json::object document = NewDocument();
    document["changed"] = reply->changed();
    document["s3_limit"] = FillLimitsJson(reply->limits());
    boost::json::array not_told;
    for (const std::string& node : reply->not_told()) not_told.emplace_back(ValidUtf8(node));
    document["not_told"] = std::move(not_told);
    PrintDocument(console, document);
  } else {
    const std::string limits = FillLimitsText(reply->limits());
    console.out << fmt::format("fills from S3: {}\n", limits.empty() ? "no limit" : limits);
    for (const std::string& node : reply->not_told()) {
      console.out << fmt::format("node {} does not know it yet: it will when it answers again\n",
                                 Escaped(node));
    }
    console.out << std::flush;
  }
  return reply->not_told().empty() ? Exit::kDone : Exit::kPartly;
}

}  // namespace forebay
