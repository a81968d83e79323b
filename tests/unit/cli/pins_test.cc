// pin, unpin, pins, quota, priority.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/wall_clock.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;

proto::PinReply Pinned() {
  proto::PinReply reply;
  reply.set_changed(true);
  proto::PinState& pin = *reply.mutable_pin();
  pin.set_target("imagenet/train");
  pin.set_objects(4);
  pin.set_bytes(4096);
  pin.set_cached_bytes(1024);
  return reply;
}

TEST(Pin, SaysWhatIsKeptAndUntilWhen) {
  ScriptedSession session;
  session.Answer(Method::kPin, Pinned());
  const Ran ran = RunForebay(session, {"pin", "imagenet/train"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "imagenet/train is pinned until unpin: 4 objects, 4.00 KiB, 25.0 % of it cached\n");
  EXPECT_EQ(session.Asked<proto::PinRequest>(0).until_unix_s(), 0);
}

TEST(Pin, ALeaseIsATimeOrAJob) {
  ScriptedSession session;
  session.Answer(Method::kPin, Pinned());
  const std::int64_t now = UnixSeconds();
  RunForebay(session, {"pin", "imagenet", "--ttl", "2h"});
  EXPECT_NEAR(static_cast<double>(session.Asked<proto::PinRequest>(0).until_unix_s() - now), 7200,
              60);
  session.Answer(Method::kPin, Pinned());
  RunForebay(session, {"pin", "imagenet", "--until", "2088-01-01T00:00:00Z", "--for-job", "j"});
  const auto asked = session.Asked<proto::PinRequest>(1);
  EXPECT_EQ(asked.until_unix_s(), 3'723'753'600);
  EXPECT_EQ(asked.job(), "j");
}

TEST(Pin, TimesThatMakeNoSenseAreRefusedBeforeAnybodyIsAsked) {
  ScriptedSession session;
  for (const char* ttl : {"-1h", "0", "soon"})
    EXPECT_EQ(RunForebay(session, {"pin", "imagenet", "--ttl", ttl}).exit, 2) << ttl;
  for (const char* until : {"tomorrow", "2020-01-01T00:00:00Z", "2088-01-01"})
    EXPECT_EQ(RunForebay(session, {"pin", "imagenet", "--until", until}).exit, 2) << until;
  EXPECT_EQ(
      RunForebay(session, {"pin", "imagenet", "--ttl", "1h", "--until", "2088-01-01T00:00:00Z"})
          .exit,
      2);
  EXPECT_EQ(session.calls(), 0u);
}

TEST(Pin, ANodeThatDoesNotKnowYetIsNamedAndExitThree) {
  ScriptedSession session;
  proto::PinReply reply = Pinned();
  reply.add_not_told("n2");
  session.Answer(Method::kPin, reply);
  const Ran ran = RunForebay(session, {"pin", "imagenet/train"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("node n2 does not know it yet"));
}

TEST(Unpin, WhatIsSoAlreadyIsDone) {
  ScriptedSession session;
  session.Answer(Method::kUnpin, proto::UnpinReply());
  const Ran ran = RunForebay(session, {"unpin", "imagenet/train"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "imagenet/train was not pinned\n");
}

TEST(Pins, ATableOrASentence) {
  ScriptedSession session;
  session.Answer(Method::kListPins, proto::ListPinsReply());
  EXPECT_THAT(RunForebay(session, {"pins"}).out, HasSubstr("nothing is pinned"));
  proto::ListPinsReply reply;
  *reply.add_pins() = Pinned().pin();
  reply.mutable_pins(0)->set_job("j");
  session.Answer(Method::kListPins, reply);
  const Ran ran = RunForebay(session, {"pins"});
  EXPECT_THAT(ran.out, HasSubstr("imagenet/train"));
  EXPECT_THAT(ran.out, HasSubstr("end of job j"));
}

TEST(Quota, TakesASizeOrNone) {
  ScriptedSession session;
  proto::SetQuotaReply reply;
  reply.set_quota_bytes(1ULL << 40);
  session.Answer(Method::kSetQuota, reply);
  EXPECT_EQ(RunForebay(session, {"quota", "imagenet", "1TiB"}).out,
            "link 'imagenet' may take 1.00 TiB\n");
  EXPECT_EQ(session.Asked<proto::SetQuotaRequest>(0).quota_bytes(), 1ULL << 40);
  session.Answer(Method::kSetQuota, proto::SetQuotaReply());
  EXPECT_EQ(RunForebay(session, {"quota", "imagenet", "none"}).out,
            "link 'imagenet' has no quota\n");
  for (const char* size : {"0", "-1GB", "much", "5%"})
    EXPECT_EQ(RunForebay(session, {"quota", "imagenet", size}).exit, 2) << size;
}

TEST(Priority, TakesOneOfThreeWords) {
  ScriptedSession session;
  session.Answer(Method::kSetPriority, proto::SetPriorityReply());
  EXPECT_EQ(RunForebay(session, {"priority", "imagenet", "low"}).out,
            "'imagenet' has priority low\n");
  EXPECT_EQ(session.Asked<proto::SetPriorityRequest>(0).name(), "imagenet");
  EXPECT_EQ(session.Asked<proto::SetPriorityRequest>(0).priority(), -1);
  proto::SetPriorityReply reply;
  reply.add_not_told("n2");
  session.Answer(Method::kSetPriority, reply);
  const Ran ran = RunForebay(session, {"priority", "imagenet", "high"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("node n2 does not know it yet"));
  EXPECT_EQ(session.Asked<proto::SetPriorityRequest>(1).priority(), 1);
  for (const char* word : {"urgent", "1", "High"})
    EXPECT_EQ(RunForebay(session, {"priority", "imagenet", word}).exit, 2) << word;
}

TEST(Replicas, TakesOneToThree) {
  ScriptedSession session;
  proto::SetReplicasReply reply;
  reply.set_replicas(2);
  reply.add_not_told("n2");
  session.Answer(Method::kSetReplicas, reply);
  const Ran ran = RunForebay(session, {"replicas", "imagenet", "2"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_EQ(ran.out,
            "each block of 'imagenet' is kept at 2 nodes\n"
            "node n2 does not know it yet: it will when it answers again\n");
  EXPECT_EQ(session.Asked<proto::SetReplicasRequest>(0).name(), "imagenet");
  EXPECT_EQ(session.Asked<proto::SetReplicasRequest>(0).replicas(), 2u);
  for (const char* number : {"0", "4", "two", "-1"})
    EXPECT_EQ(RunForebay(session, {"replicas", "imagenet", number}).exit, 2) << number;
}

}  // namespace
}  // namespace forebay::testing
