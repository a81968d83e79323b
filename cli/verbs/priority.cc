#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/model/link.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

class PriorityVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("NAME", "the link's name, or a set's for each part", name_);
    options.Argument("PRIORITY",
                     "low, normal or high. Where a cache is full, blocks of links of lower "
                     "priority make way first, and none for a link of lower priority",
                     priority_);
  }

  Outcome Run(VerbContext& context) override {
    Status valid = ValidateLinkName(name_);
    if (!valid) return std::unexpected(Failure(valid.error()));
    const Result<LinkPriority> priority = ParseLinkPriority(priority_);
    if (!priority) return std::unexpected(Failure(priority.error(), "", Exit::kUsage));
    proto::SetPriorityRequest request;
    request.set_name(name_);
    request.set_priority(static_cast<std::int32_t>(*priority));
    auto reply = Ask<proto::SetPriorityReply>(context.session, Method::kSetPriority, request);
    if (!reply) return std::unexpected(reply.error());
    Print(context.console, *reply);
    return reply->not_told().empty() ? Exit::kDone : Exit::kPartly;
  }

 private:
  void Print(const Console& console, const proto::SetPriorityReply& reply) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["name"] = name_;
      document["changed"] = reply.changed();
      document["priority"] = priority_;
      boost::json::array not_told;
      for (const std::string& node : reply.not_told()) not_told.emplace_back(ValidUtf8(node));
      document["not_told"] = std::move(not_told);
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format("'{}' has priority {}\n", name_, priority_);
    for (const std::string& node : reply.not_told()) {
      console.out << fmt::format("node {} does not know it yet: it will when it answers again\n",
                                 Escaped(node));
    }
    console.out << std::flush;
  }

  std::string name_;
  std::string priority_;
};

}  // namespace

std::unique_ptr<Verb> MakePriority() { return std::make_unique<PriorityVerb>(); }

}  // namespace forebay
