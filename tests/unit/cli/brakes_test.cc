// limit, pause, resume.
#include <gtest/gtest.h>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

proto::SetFillLimitsReply Answered(std::uint64_t bytes, std::uint64_t requests,
                                   std::int64_t paused) {
  proto::SetFillLimitsReply reply;
  reply.set_changed(true);
  reply.mutable_limits()->set_bytes_per_s(bytes);
  reply.mutable_limits()->set_requests_per_s(requests);
  reply.mutable_limits()->set_paused_since_unix_s(paused);
  return reply;
}

TEST(Limit, TakesBytesOrRequests) {
  ScriptedSession session;
  session.Answer(Method::kSetFillLimits, Answered(500'000'000, 0, 0));
  const Ran bytes = RunForebay(session, {"limit", "s3", "500MB/s"});
  EXPECT_EQ(bytes.exit, 0) << bytes.err;
  EXPECT_EQ(bytes.out, "fills from S3: at most 500MB/s\n");
  EXPECT_EQ(session.Asked<proto::SetFillLimitsRequest>(0).bytes_per_s(), 500'000'000u);
  session.Answer(Method::kSetFillLimits, Answered(0, 2000, 0));
  EXPECT_EQ(RunForebay(session, {"limit", "s3", "2000/s"}).out,
            "fills from S3: at most 2,000 requests/s\n");
  const auto asked = session.Asked<proto::SetFillLimitsRequest>(1);
  EXPECT_EQ(asked.requests_per_s(), 2000u);
  EXPECT_EQ(asked.pause_case(), proto::SetFillLimitsRequest::PAUSE_NOT_SET);
  session.Answer(Method::kSetFillLimits, Answered(0, 0, 0));
  EXPECT_EQ(RunForebay(session, {"limit", "s3", "none"}).out, "fills from S3: no limit\n");
  EXPECT_TRUE(session.Asked<proto::SetFillLimitsRequest>(2).no_limit());
}

TEST(Limit, WhatIsNoRateIsRefusedBeforeAnybodyIsAsked) {
  ScriptedSession session;
  for (const char* rate : {"", "fast", "500MB", "0/s", "0MB/s", "-5MB/s", "1.5/s", "/s", "12/m",
                           "99999999999999999999/s"}) {
    const Ran ran = RunForebay(session, {"limit", "s3", rate});
    EXPECT_EQ(ran.exit, 2) << rate;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
  EXPECT_EQ(RunForebay(session, {"limit", "disk", "5MB/s"}).exit, 2);
  EXPECT_EQ(session.calls(), 0u);
}

TEST(Pause, HoldsAndResumeLetsGo) {
  ScriptedSession session;
  session.Answer(Method::kSetFillLimits, Answered(0, 0, 1'767'323'035));
  EXPECT_EQ(RunForebay(session, {"pause", "fills"}).out,
            "fills from S3: paused since 2026-01-02T03:03:55Z\n");
  EXPECT_TRUE(session.Asked<proto::SetFillLimitsRequest>(0).paused());
  session.Answer(Method::kSetFillLimits, Answered(0, 0, 0));
  EXPECT_EQ(RunForebay(session, {"resume", "fills"}).exit, 0);
  const auto asked = session.Asked<proto::SetFillLimitsRequest>(1);
  EXPECT_EQ(asked.pause_case(), proto::SetFillLimitsRequest::kPaused);
  EXPECT_FALSE(asked.paused());
  EXPECT_EQ(RunForebay(session, {"pause", "reads"}).exit, 2);
}

TEST(Pause, ANodeThatDoesNotKnowYetIsNamed) {
  ScriptedSession session;
  proto::SetFillLimitsReply reply = Answered(0, 0, 1'767'323'035);
  reply.add_not_told("n2");
  session.Answer(Method::kSetFillLimits, reply);
  const Ran ran = RunForebay(session, {"pause", "fills"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_NE(ran.out.find("node n2 does not know it yet"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace forebay::testing
