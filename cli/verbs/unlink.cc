#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <ostream>
#include <utility>

#include "cli/cluster_stats.h"
#include "cli/freed.h"
#include "cli/json.h"
#include "cli/verb_table.h"
#include "common/model/link.h"

namespace forebay {
namespace {

class UnlinkVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("NAME", "the link's name, or a set's with all its parts", name_);
    options.Switch("--evict", "also free what the nodes hold of it", evict_);
    options.Switch("--force", "also what a job reads now: what its mounts do not have then fails",
                   force_);
  }

  Outcome Run(VerbContext& context) override {
    while (name_.ends_with('/')) name_.pop_back();
    Status valid = ValidateLinkName(name_);
    if (!valid) return std::unexpected(Failure(valid.error()));
    proto::UnlinkRequest request;
    request.set_name(name_);
    request.set_evict(evict_);
    request.set_force(force_);
    auto reply = Ask<proto::UnlinkReply>(context.session, Method::kUnlink, request);
    // What is already so is done; a misspelt name is seen by the nearest one in the message.
    const bool absent = !reply && reply.error().error.code == Code::kNotFound;
    if (!reply && !absent) return std::unexpected(reply.error());
    Print(context.console, absent ? nullptr : &*reply,
          absent ? reply.error().error.message : std::string());
    return absent ? Exit::kDone : SumOf(reply->evicted()).exit;
  }

 private:
  void Print(const Console& console, const proto::UnlinkReply* reply,
             const std::string& why_absent) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["name"] = name_;
      document["removed"] = reply != nullptr;
      boost::json::array evicted;
      if (reply != nullptr) {
        for (const proto::NodeEvicted& node : reply->evicted()) {
          evicted.emplace_back(EvictedJson(node));
        }
      }
      document["evicted"] = std::move(evicted);
      PrintDocument(console, document);
      return;
    }
    if (reply == nullptr) {
      console.out << "nothing to do: " << why_absent << '\n' << std::flush;
      return;
    }
    console.out << fmt::format("'{}' is removed\n", name_) << std::flush;
    if (evict_) PrintFreed(console, reply->evicted());
  }

  std::string name_;
  bool evict_ = false;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeUnlink() { return std::make_unique<UnlinkVerb>(); }

}  // namespace forebay
