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

class QuotaVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("NAME", "the link's name", name_);
    options.Argument(
        "SIZE",
        "the most that all nodes together cache of it: 1.5TiB, at least a block; none for no "
        "quota. Each node keeps to its part, by its capacity; what is above is evicted",
        size_);
  }

  Outcome Run(VerbContext& context) override {
    Status valid = ValidateLinkName(name_);
    if (!valid) return std::unexpected(Failure(valid.error()));
    proto::SetQuotaRequest request;
    request.set_name(name_);
    if (size_ != "none") {
      const Result<std::uint64_t> bytes = ParseSize(size_);
      if (!bytes) return std::unexpected(Failure(bytes.error()));
      if (*bytes == 0) return UsageError("a quota of 0 is not possible; none takes it away");
      request.set_quota_bytes(*bytes);
    }
    auto reply = Ask<proto::SetQuotaReply>(context.session, Method::kSetQuota, request);
    if (!reply) return std::unexpected(reply.error());
    Print(context.console, *reply);
    return reply->not_told().empty() ? Exit::kDone : Exit::kPartly;
  }

 private:
  void Print(const Console& console, const proto::SetQuotaReply& reply) const {
    const bool none = reply.quota_bytes() == 0;
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["name"] = name_;
      document["changed"] = reply.changed();
      document["quota_bytes"] =
          none ? boost::json::value() : boost::json::value(reply.quota_bytes());
      boost::json::array not_told;
      for (const std::string& node : reply.not_told()) not_told.emplace_back(ValidUtf8(node));
      document["not_told"] = std::move(not_told);
      PrintDocument(console, document);
      return;
    }
    console.out << (none ? fmt::format("link '{}' has no quota\n", name_)
                         : fmt::format("link '{}' may take {}\n", name_,
                                       HumanBytes(reply.quota_bytes())));
    for (const std::string& node : reply.not_told()) {
      console.out << fmt::format("node {} does not know it yet: it will when it answers again\n",
                                 Escaped(node));
    }
    console.out << std::flush;
  }

  std::string name_;
  std::string size_;
};

}  // namespace

std::unique_ptr<Verb> MakeQuota() { return std::make_unique<QuotaVerb>(); }

}  // namespace forebay
