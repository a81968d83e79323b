#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/json_doc.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

proto::MountState MountOn(const std::string& host, std::uint64_t heard_ms = 1200) {
  proto::MountState mount;
  mount.set_host(host);
  mount.set_mountpoint("/mnt/imagenet");
  mount.set_source("imagenet/train");
  mount.set_client("client-" + host);
  mount.set_address("10.0.0.2:51234");
  mount.set_version("0.1.0");
  mount.set_heard_ms(heard_ms);
  return mount;
}

proto::ListMountsReply ReplyWith(std::vector<proto::MountState> mounts) {
  proto::ListMountsReply reply;
  reply.set_listening_ms(3'600'000);
  for (proto::MountState& mount : mounts) *reply.add_mounts() = std::move(mount);
  return reply;
}

TEST(Mounts, AreATableByHostWithHowLongAgoEachWasHeard) {
  ScriptedSession session;
  session.Answer(Method::kListMounts, ReplyWith({MountOn("gpu-2"), MountOn("gpu-1", 61'000)}));
  const Ran ran = RunForebay(session, {"mounts"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "HOST   MOUNTPOINT     LINK            VERSION  HEARD\n"
            "gpu-1  /mnt/imagenet  imagenet/train  0.1.0    1 min 1 s ago\n"
            "gpu-2  /mnt/imagenet  imagenet/train  0.1.0    1.20 s ago\n");
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(session.Asked<proto::ListMountsRequest>(0).link(), "");
}

TEST(Mounts, WideHasWhoItIsToo) {
  ScriptedSession session;
  session.Answer(Method::kListMounts, ReplyWith({MountOn("gpu-1")}));
  const Ran ran = RunForebay(session, {"mounts", "imagenet", "-o", "wide"});
  EXPECT_THAT(ran.out, HasSubstr("CLIENT"));
  EXPECT_THAT(ran.out, HasSubstr("client-gpu-1  10.0.0.2:51234"));
  EXPECT_EQ(session.Asked<proto::ListMountsRequest>(0).link(), "imagenet");
}

TEST(Mounts, AllPagesAreAskedForAndTheLinkWithEach) {
  ScriptedSession session;
  proto::ListMountsReply first = ReplyWith({MountOn("gpu-9")});
  first.set_next("a");
  session.Answer(Method::kListMounts, first);
  proto::ListMountsReply second = ReplyWith({MountOn("gpu-1")});
  second.set_next("b");
  session.Answer(Method::kListMounts, second);
  session.Answer(Method::kListMounts, ReplyWith({}));
  const Ran ran = RunForebay(session, {"mounts", "imagenet"});
  EXPECT_LT(ran.out.find("gpu-1"), ran.out.find("gpu-9"));
  ASSERT_EQ(session.calls(), 3u);
  EXPECT_EQ(session.Asked<proto::ListMountsRequest>(1).after(), "a");
  EXPECT_EQ(session.Asked<proto::ListMountsRequest>(2).after(), "b");
  EXPECT_EQ(session.Asked<proto::ListMountsRequest>(2).link(), "imagenet");
}

TEST(Mounts, ACoordinatorThatSendsInCirclesEndsThem) {
  ScriptedSession session;
  proto::ListMountsReply page = ReplyWith({MountOn("gpu-1")});
  page.set_next("a");
  session.Answer(Method::kListMounts, page);
  session.Answer(Method::kListMounts, page);
  EXPECT_EQ(RunForebay(session, {"mounts"}).exit, 0);
}

TEST(Mounts, WhatAnOlderReleaseDoesNotSayIsADash) {
  ScriptedSession session;
  proto::MountState old = MountOn("");
  old.clear_mountpoint();
  old.set_source("imagenet");
  session.Answer(Method::kListMounts, ReplyWith({old}));
  EXPECT_THAT(RunForebay(session, {"mounts"}).out,
              HasSubstr("\n-     -           imagenet  0.1.0    1.20 s ago\n"));
}

TEST(Mounts, WhatTheySayCannotCommandATerminal) {
  ScriptedSession session;
  proto::MountState bad = MountOn("gpu-1");
  bad.set_mountpoint("/mnt/\x1b[31m\xff");
  session.Answer(Method::kListMounts, ReplyWith({bad}));
  EXPECT_THAT(RunForebay(session, {"mounts"}).out, HasSubstr("/mnt/\\x1b[31m\\xff"));
  session.Answer(Method::kListMounts, ReplyWith({bad}));
  EXPECT_THAT(RunForebay(session, {"mounts", "-o", "json"}).out, HasSubstr("\"mountpoint_hex\""));
}

TEST(Mounts, NoneIsASentence) {
  ScriptedSession session;
  session.Answer(Method::kListMounts, ReplyWith({}));
  EXPECT_THAT(RunForebay(session, {"mounts"}).out, StartsWith("no mounts: `forebay-mount"));
  session.Answer(Method::kListMounts, ReplyWith({}));
  const Ran ran = RunForebay(session, {"mounts", "imagenet"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "no mount shows 'imagenet'; a new one is here within seconds\n");
}

TEST(Mounts, OfACoordinatorThatHasJustBegunTheListIsSaidToBeIncomplete) {
  ScriptedSession session;
  proto::ListMountsReply reply = ReplyWith({});
  reply.set_listening_ms(3100);
  session.Answer(Method::kListMounts, reply);
  const Ran ran = RunForebay(session, {"mounts"});
  EXPECT_THAT(ran.err, HasSubstr("has been asked for 3.10 s only"));
  reply.set_listening_ms(10'000);
  session.Answer(Method::kListMounts, reply);
  EXPECT_THAT(RunForebay(session, {"mounts"}).err, Not(HasSubstr("only")));
}

TEST_F(JsonDoc, Mounts) {
  proto::MountState old;
  old.set_source("imagenet");
  old.set_client("gpu-2");
  old.set_address("10.0.0.3:51234");
  old.set_version("0.0.9");
  old.set_heard_ms(400);
  proto::MountState mount = MountOn("gpu-1");
  mount.set_client("gpu-1");
  session_.Answer(Method::kListMounts, ReplyWith({old, mount}));
  Run("mounts", {"mounts"});
}

}  // namespace
}  // namespace forebay::testing
