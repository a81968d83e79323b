#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <ostream>
#include <string_view>

#include "cli/json.h"
#include "cli/membership.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/units.h"
#include "common/base/wall_clock.h"
#include "common/trust/token_record.h"

namespace forebay {
namespace {

/// What a coordinator says that is of a release before there were viewers.
constexpr std::string_view kNoViewers = "a token is for a client, a node or an admin";
constexpr const char* kUpgrade = "this coordinator is of a release without viewers: upgrade it";

boost::json::object TokenJson(const proto::TokenState& token) {
  boost::json::array links;
  for (const std::string& link : token.links()) links.emplace_back(ValidUtf8(link));
  return {{"id", token.id()},
          {"role", token.role()},
          {"uses", token.uses()},
          {"uses_left", token.uses_left()},
          {"ends", Rfc3339(token.ends_unix_s())},
          {"revoked", token.revoked()},
          {"outdated", token.outdated()},
          {"links", token.links().empty() ? boost::json::value() : boost::json::value(links)}};
}

class TokenVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Choice("ACTION", {"create", "list", "revoke"},
                   "make one, show them all, or let nobody join with one any more", action_);
    options.OptionalArgument("ID", "the token to revoke, as `forebay token list` names it", id_);
    options.Text("--role", "client|node|admin|viewer",
                 "of create: what may join with it; a viewer may look and change nothing", role_);
    options.Text("--links", "A,B",
                 "of create, for clients: the links that it may see and read (default: all)",
                 links_);
    options.Flag("--uses", "N", "of create: how many machines may (default 1)",
                 [this](const std::string& text) -> Status {
                   const Result<std::uint64_t> uses = ParseUint(text, 1, 100'000);
                   if (!uses) return Fail(uses.error());
                   uses_ = static_cast<std::uint32_t>(*uses);
                   return {};
                 });
    options.Flag("--ttl", "TIME", "of create: for how long (default 24h, at most 30d)",
                 [this](const std::string& text) -> Status {
                   const Result<std::chrono::milliseconds> ttl = ParseDuration(text);
                   if (!ttl) return Fail(ttl.error());
                   const std::int64_t seconds = ttl->count() / 1000;
                   if (seconds < 1 || seconds > kLongestTokenSeconds)
                     return Fail(Code::kInvalid, "a token is good for 1 second to 30 days");
                   valid_s_ = static_cast<std::uint32_t>(seconds);
                   return {};
                 });
  }

  Outcome Run(VerbContext& context) override {
    if ((action_ == "revoke") == id_.empty())
      return UsageError(id_.empty() ? "which token is to be revoked?"
                                    : "only revoke takes the ID of a token");
    if (action_ == "create") return Create(context);
    return action_ == "list" ? List(context) : Revoke(context);
  }

 private:
  Outcome Create(VerbContext& context) const {
    if (role_.empty()) return UsageError("--role is missing: client, node, admin or viewer");
    if (!links_.empty() && role_ != "client")
      return UsageError("--links is for tokens of clients: anybody else sees all links");
    proto::CreateTokenRequest request;
    request.set_role(role_);
    request.set_uses(uses_);
    request.set_valid_s(valid_s_);
    for (std::string_view rest = links_; !rest.empty();) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      request.add_links(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    auto reply = Ask<proto::CreateTokenReply>(context.session, Method::kCreateToken, request);
    if (!reply && role_ == "viewer" && reply.error().error.message == kNoViewers)
      reply.error().hint = kUpgrade;
    if (!reply) return OrAmong(reply.error(), "links");
    const std::string line = fmt::format("forebay join {} --token {}",
                                         AsOthersReach(context.session.Address()), reply->text());
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["token"] = TokenJson(reply->token());
      document["join"] = line;
      PrintDocument(console, document);
    } else {
      console.err << fmt::format(
          "until {} {} may become {} with\n", Rfc3339(reply->token().ends_unix_s()),
          uses_ == 1 ? std::string("one machine") : fmt::format("{} machines", uses_), role_);
      console.out << line << "\n" << std::flush;
    }
    return Exit::kDone;
  }

  static Outcome List(VerbContext& context) {
    auto reply = Ask<proto::ListTokensReply>(context.session, Method::kListTokens,
                                             proto::ListTokensRequest());
    if (!reply) return OrAmong(reply.error(), "token list");
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      boost::json::array tokens;
      for (const proto::TokenState& token : reply->tokens()) tokens.emplace_back(TokenJson(token));
      document["tokens"] = std::move(tokens);
      PrintDocument(console, document);
      return Exit::kDone;
    }
    if (reply->tokens().empty()) {
      console.out << "there are no tokens: `forebay token create` makes one\n" << std::flush;
      return Exit::kDone;
    }
    Table table({{.heading = "ID"},
                 {.heading = "ROLE"},
                 {.heading = "USES LEFT", .right = true},
                 {.heading = "ENDS"},
                 {.heading = "LINKS"},
                 {.heading = "STATE"}});
    for (const proto::TokenState& token : reply->tokens()) {
      table.Add(
          {Cell(token.id()), Cell(token.role()),
           Cell(fmt::format("{} of {}", token.uses_left(), token.uses())),
           Cell(Rfc3339(token.ends_unix_s())),
           Cell(token.links().empty() ? "all" : fmt::format("{}", fmt::join(token.links(), ","))),
           Cell(StateOf(token))});
    }
    table.Print(console);
    return Exit::kDone;
  }

  /// Why nobody can join with it; "" = somebody can.
  static std::string StateOf(const proto::TokenState& token) {
    if (token.revoked()) return "revoked";
    if (token.uses_left() == 0) return "used up";
    if (token.ends_unix_s() <= UnixSeconds()) return "ended";
    return token.outdated() ? "of a replaced authority" : "";
  }

  Outcome Revoke(VerbContext& context) const {
    proto::RevokeTokenRequest request;
    request.set_id(id_);
    auto reply = Ask<proto::RevokeTokenReply>(context.session, Method::kRevokeToken, request);
    if (!reply) return OrAmong(reply.error(), "token list");
    const Console& console = context.console;
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["token"] = TokenJson(reply->token());
      document["changed"] = reply->changed();
      PrintDocument(console, document);
    } else {
      console.out << fmt::format("nobody can join with token {} any more\n", Escaped(id_))
                  << std::flush;
    }
    return Exit::kDone;
  }

  std::string action_;
  std::string id_;
  std::string role_;
  std::string links_;
  std::uint32_t uses_ = 1;
  std::uint32_t valid_s_ = kDefaultTokenSeconds;
};

}  // namespace

std::unique_ptr<Verb> MakeToken() { return std::make_unique<TokenVerb>(); }

}  // namespace forebay
