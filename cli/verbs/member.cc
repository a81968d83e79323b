#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json/array.hpp>
#include <ostream>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

boost::json::value TimeOrNull(std::int64_t unix_s) {
  return unix_s == 0 ? boost::json::value() : boost::json::value(Rfc3339(unix_s));
}

boost::json::object MemberJson(const proto::MemberState& member) {
  boost::json::array links;
  for (const std::string& link : member.links()) links.emplace_back(ValidUtf8(link));
  return {{"role", member.role()},
          {"id", member.id()},
          {"ends", TimeOrNull(member.ends_unix_s())},
          {"seen", TimeOrNull(member.seen_unix_s())},
          {"address", ValidUtf8(member.address())},
          {"links", links.empty() ? boost::json::value() : boost::json::value(links)},
          {"failure", member.failure().empty() ? boost::json::value()
                                               : boost::json::value(ValidUtf8(member.failure()))},
          {"revoked", TimeOrNull(member.revoked_unix_s())}};
}

class MemberVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Choice("ACTION", {"list", "revoke"},
                   "show who has asked the coordinator within a month, or let a certificate count "
                   "no more, at once",
                   action_);
    options.OptionalArgument("ROLE", "of revoke: client, node, admin or viewer", role_);
    options.OptionalArgument("ID", "of revoke: the member's name", id_);
  }

  Outcome Run(VerbContext& context) override {
    if (action_ == "list") {
      return role_.empty() ? List(context) : UsageError("list shows all members: leave that out");
    }
    if (id_.empty()) return UsageError("whom? forebay member revoke client|node|admin|viewer ID");
    return Revoke(context);
  }

 private:
  static Outcome List(VerbContext& context) {
    auto reply = Ask<proto::ListMembersReply>(context.session, Method::kListMembers,
                                              proto::ListMembersRequest());
    if (!reply) return std::unexpected(reply.error());
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      boost::json::array members;
      for (const proto::MemberState& member : reply->members())
        members.emplace_back(MemberJson(member));
      document["members"] = std::move(members);
      PrintDocument(console, document);
      return Exit::kDone;
    }
    if (reply->members().empty()) {
      console.out << "nobody with a certificate has asked this coordinator yet\n" << std::flush;
      return Exit::kDone;
    }
    Table table({{.heading = "ROLE"},
                 {.heading = "ID"},
                 {.heading = "ENDS"},
                 {.heading = "SEEN"},
                 {.heading = "LINKS"},
                 {.heading = "STATE"}});
    for (const proto::MemberState& member : reply->members()) {
      const auto time = [](std::int64_t at) { return at == 0 ? std::string("-") : Rfc3339(at); };
      const std::string state = member.revoked_unix_s() != 0
                                    ? "revoked " + Rfc3339(member.revoked_unix_s())
                                    : member.failure();
      table.Add(
          {Cell(member.role()), Cell(member.id()), Cell(time(member.ends_unix_s())),
           Cell(time(member.seen_unix_s())),
           Cell(member.links().empty() ? "all" : fmt::format("{}", fmt::join(member.links(), ","))),
           Cell(state, state.empty() ? Tone::kPlain : Tone::kWarning)});
    }
    table.Print(console);
    return Exit::kDone;
  }

  Outcome Revoke(VerbContext& context) const {
    proto::RevokeMemberRequest request;
    request.set_role(role_);
    request.set_id(id_);
    auto reply = Ask<proto::RevokeMemberReply>(context.session, Method::kRevokeMember, request);
    if (!reply) return std::unexpected(reply.error());
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["role"] = role_;
      document["id"] = id_;
      document["revoked"] = Rfc3339(reply->until_unix_s());
      document["seen"] = !reply->unseen();
      PrintDocument(console, document);
    } else {
      if (reply->unseen()) {
        console.err << fmt::format(
            "nobody called {} {} has joined or asked since the coordinator started: `forebay "
            "member "
            "list` shows who has; it is revoked all the same\n",
            role_, Escaped(id_));
      }
      console.out << fmt::format(
                         "what was issued to {} {} until now counts no more: members that run know "
                         "it within 10 s. It can join again with a new token\n",
                         Escaped(role_), Escaped(id_))
                  << std::flush;
    }
    return Exit::kDone;
  }

  std::string action_;
  std::string role_;
  std::string id_;
};

}  // namespace

std::unique_ptr<Verb> MakeMember() { return std::make_unique<MemberVerb>(); }

}  // namespace forebay
