#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "common/wire/rpc_rules.h"
#include "tests/component/wire/wire_fixture.h"
#include "tests/fakes/test_cluster.h"

// What a server writes down of administrators, whatever it answers.
namespace forebay {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Fails on an odd number.
Task<Result<RpcReply>> EvenAlone(RpcCall call) {
  if (NumberOf(call) % 2 != 0) co_return Fail(Code::kInvalid, "that is odd");
  co_return Echo(NumberOf(call));
}

class AuditedCalls : public WireFixture {
 protected:
  AuditedCalls() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  ~AuditedCalls() override { EndServer(); }

  /// After that nobody writes to the log any more.
  std::string Log() {
    EndServer();
    return log_.str();
  }

  void ServeBoth() { ServeAs(proto::ROLE_NODE, {Method::kEvictBlocks, Method::kReadBlock}); }

  void ServeAs(proto::Role role, const std::vector<Method>& served) {
    server_io_.Start();
    RpcServerOptions options = server_options_;
    options.listen = {"127.0.0.1:0"};
    options.credentials = WhoIs(role, "s1");
    std::vector<MethodEntry> methods;
    methods.reserve(served.size());
    for (const Method method : served) methods.push_back({method, EvenAlone});
    server_ = std::make_unique<RpcServer>(
        server_io_, options, std::move(methods), [] { return std::uint64_t{1}; },
        [](std::uint64_t) {});
    ASSERT_TRUE(server_->Start().has_value());
    address_ = server_->addresses().front();
  }

  Credentials WhoIs(proto::Role role, const std::string& id) const {
    Credentials credentials = Who(role);
    credentials.trust = cluster_.TrustOf(role, id);
    return credentials;
  }

 private:
  void EndServer() {
    if (client_) CloseClient();
    client_.reset();
    if (server_) server_->Stop(Deadline::After(std::chrono::seconds(5)));
    server_io_.Stop();
    client_io_.Stop();
    spdlog::set_default_logger(before_);
  }

  const TestCluster cluster_;
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_;
};

TEST_F(AuditedCalls, EachActionIsALineWithItsOutcomeAndIsCounted) {
  ServeBoth();
  Connect(WhoIs(proto::ROLE_ADMIN, "ann"));
  ASSERT_TRUE(Call(2, Method::kEvictBlocks).has_value());
  ASSERT_FALSE(Call(3, Method::kEvictBlocks).has_value());
  ASSERT_TRUE(Call(4).has_value());
  EXPECT_EQ(server_->counters().audited_done.load(), 1u);
  EXPECT_EQ(server_->counters().audited_failed.load(), 1u);
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("audit: admin 'ann' at 127.0.0.1:"));
  EXPECT_THAT(log, HasSubstr("EvictBlocks"));
  EXPECT_THAT(log, HasSubstr(": failed: that is odd"));
  EXPECT_THAT(log, Not(HasSubstr("ReadBlock"))) << "that only looks";
}

class AuditedBy : public AuditedCalls, public testing::WithParamInterface<proto::Role> {};

// Every request of the table that an administrator may make and that does not only look; those
// whose handler writes the line itself are looked at where the handler is.
TEST_P(AuditedBy, EachRequestThatChangesSomethingIsALine) {
  std::vector<const RpcRule*> rules;
  std::vector<Method> methods;
  for (const RpcRule& rule : AllRules()) {
    if (!rule.servers.Has(GetParam()) || !rule.callers.Has(proto::ROLE_ADMIN)) continue;
    rules.push_back(&rule);
    methods.push_back(rule.method);
  }
  ServeAs(GetParam(), methods);
  Connect(WhoIs(proto::ROLE_ADMIN, "ann"));
  for (const Method method : methods) ASSERT_TRUE(Call(2, method).has_value());
  const std::string log = Log();
  std::size_t audited = 0;
  for (const RpcRule* rule : rules) {
    const std::string line = "): " + std::string(rule->name);
    const bool has_line =
        log.find(line + " ") != std::string::npos || log.find(line + ":") != std::string::npos;
    EXPECT_EQ(has_line, rule->effect == Effect::kChanges) << rule->name << "\n" << log;
    audited += rule->effect == Effect::kLooks ? 0 : 1;
  }
  EXPECT_EQ(server_->counters().audited_done.load(), audited);
}

INSTANTIATE_TEST_SUITE_P(Server, AuditedBy,
                         testing::Values(proto::ROLE_NODE, proto::ROLE_COORDINATOR));

TEST_F(AuditedCalls, NoLogLevelSwitchesThemOff) {
  ServeBoth();
  spdlog::default_logger()->set_level(spdlog::level::err);
  Connect(WhoIs(proto::ROLE_ADMIN, "ann"));
  ASSERT_TRUE(Call(2, Method::kEvictBlocks).has_value());
  ASSERT_FALSE(Call(3, Method::kEvictBlocks).has_value());
  spdlog::info("a line of that level");
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("EvictBlocks 3=2: done"));
  EXPECT_THAT(log, HasSubstr(": failed: that is odd"));
  EXPECT_THAT(log, Not(HasSubstr("a line of that level"))) << "the level holds for the rest";
}

TEST_F(AuditedCalls, AnActionOfAnotherRoleIsRefusedAndSaidOnce) {
  ServeBoth();
  Connect(WhoIs(proto::ROLE_CLIENT, "c1"));
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_FALSE(Call(i, Method::kEvictBlocks).has_value());
  EXPECT_EQ(server_->counters().calls_denied.load(), 5u);
  EXPECT_EQ(server_->counters().audited_failed.load(), 0u);
  const std::string log = Log();
  const std::size_t first = log.find("refused: client 'c1' at 127.0.0.1:");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("refused:", first + 1), std::string::npos) << log;
}

TEST_F(AuditedCalls, AViewerIsToldWhatItWouldNeed) {
  ServeAs(proto::ROLE_COORDINATOR, {Method::kUnlink, Method::kGetRing});
  Connect(WhoIs(proto::ROLE_VIEWER, "ann"));
  EXPECT_TRUE(Call(2, Method::kGetRing).has_value());
  const Result<RpcReply> refused = Call(2, Method::kUnlink);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error(),
            (Error{Code::kDenied,
                   "viewer ann may look and change nothing: Unlink needs an administrator's "
                   "certificate (`forebay token create --role admin`)"}));
  EXPECT_THAT(Log(), HasSubstr("refused: viewer 'ann' at 127.0.0.1:"));
}

TEST_F(AuditedCalls, ANodeAnswersNoViewer) {
  ServeAs(proto::ROLE_NODE, {Method::kReadBlock, Method::kGetRing, Method::kOpenSegment});
  Connect(WhoIs(proto::ROLE_VIEWER, "ann"));
  const auto said = [this](Method method) {
    const Result<RpcReply> refused = Call(2, method);
    EXPECT_FALSE(refused.has_value());
    return refused ? Error{} : refused.error();
  };
  for (const Method method : {Method::kReadBlock, Method::kGetRing, Method::kOpenSegment})
    EXPECT_EQ(said(method).code, Code::kDenied);
  EXPECT_THAT(said(Method::kReadBlock).message, HasSubstr("an administrator's certificate"));
  EXPECT_THAT(said(Method::kGetRing).message, HasSubstr("answers no viewer: coordinators do"));
  EXPECT_THAT(said(Method::kOpenSegment).message, HasSubstr("make request"));
}

}  // namespace
}  // namespace forebay
