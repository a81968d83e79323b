#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <ostream>
#include <utility>

#include "cli/json.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "common/model/link.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

class ReplicasVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("NAME", "the link's name, or a set's for each part", name_);
    options.Argument("N",
                     "at how many nodes each cached block of it is kept, 1 to 3. Copies are made "
                     "in the background, from node to node; with fewer than before, what is too "
                     "much goes when room is needed",
                     replicas_);
  }

  Outcome Run(VerbContext& context) override {
    Status valid = ValidateLinkName(name_);
    if (!valid) return std::unexpected(Failure(valid.error()));
    const Result<std::uint64_t> copies = ParseUint(replicas_, 1, kMostReplicas);
    if (!copies) return std::unexpected(Failure(copies.error(), "", Exit::kUsage));
    proto::SetReplicasRequest request;
    request.set_name(name_);
    request.set_replicas(static_cast<std::uint32_t>(*copies));
    auto reply = Ask<proto::SetReplicasReply>(context.session, Method::kSetReplicas, request);
    if (!reply) return std::unexpected(reply.error());
    Print(context.console, *reply);
    return reply->not_told().empty() ? Exit::kDone : Exit::kPartly;
  }

 private:
  void Print(const Console& console, const proto::SetReplicasReply& reply) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["name"] = name_;
      document["changed"] = reply.changed();
      document["replicas"] = reply.replicas();
      boost::json::array not_told;
      for (const std::string& node : reply.not_told()) not_told.emplace_back(ValidUtf8(node));
      document["not_told"] = std::move(not_told);
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format("each block of '{}' is kept at {} nodes\n", name_, reply.replicas());
    for (const std::string& node : reply.not_told()) {
      console.out << fmt::format("node {} does not know it yet: it will when it answers again\n",
                                 Escaped(node));
    }
    console.out << std::flush;
  }

  std::string name_;
  std::string replicas_;
};

}  // namespace

std::unique_ptr<Verb> MakeReplicas() { return std::make_unique<ReplicasVerb>(); }

}  // namespace forebay
