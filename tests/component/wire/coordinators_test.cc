// Who of several coordinators is asked.
#include "common/wire/coordinators.h"

#include "proto/coordinator.pb.h"
#include "tests/component/wire/wire_fixture.h"
#include "tests/fakes/fake_coordinator.h"

namespace forebay {
namespace {

using fakes::FakeCoordinator;

class CoordinatorsTest : public WireFixture {
 protected:
  CoordinatorsTest() { Connect(); }

  Result<RpcReply> Ask(Coordinators& coordinators) { return Run(AskIn(&coordinators)); }

  FakeCoordinator right_{std::string(32, 's')};
  FakeCoordinator stranger_{std::string(32, 'x')};

 private:
  static Task<Result<RpcReply>> AskIn(Coordinators* coordinators) {
    const proto::GetLinksRequest request;
    Result<RpcReply> reply =
        co_await coordinators->Ask(Method::kGetLinks, request, std::chrono::seconds(2));
    co_return reply;
  }
};

TEST_F(CoordinatorsTest, OneThatRefusesToBeAskedIsPassedOver) {
  Coordinators both(*client_, {stranger_.address(), right_.address()});
  for (int i = 0; i < 2; ++i) {
    const Result<RpcReply> reply = Ask(both);
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(both.Current(), right_.address());
  }
}

TEST_F(CoordinatorsTest, ARefusalIsFinalWhereAllRefuse) {
  const std::string gone = right_.address();
  right_.Stop();
  Coordinators waiting(*client_, {gone, stranger_.address()});
  const Result<RpcReply> unanswered = Ask(waiting);
  ASSERT_FALSE(unanswered);
  EXPECT_EQ(unanswered.error().code, Code::kUnavailable) << "the other one may come back";
  EXPECT_NE(unanswered.error().message.find(gone), std::string::npos);
  EXPECT_NE(unanswered.error().message.find(stranger_.address()), std::string::npos);
  Coordinators refused(*client_, {stranger_.address()});
  EXPECT_EQ(Ask(refused).error().code, Code::kDenied);
}

// What the leader says is its answer.
TEST_F(CoordinatorsTest, WhatOneThatWasAskedDeniesIsFinal) {
  FakeCoordinator other(std::string(32, 's'));
  Coordinators both(*client_, {right_.address(), other.address()});
  const auto ask = [](Coordinators* coordinators) -> Task<Result<RpcReply>> {
    proto::GetLinksRequest request;
    request.set_name("nothing");
    Result<RpcReply> reply =
        co_await coordinators->Ask(Method::kGetLinks, request, std::chrono::seconds(2));
    co_return reply;
  };
  EXPECT_EQ(Run(ask(&both)).error().code, Code::kNotFound);
  EXPECT_EQ(other.link_calls(), 0u);
}

}  // namespace
}  // namespace forebay
