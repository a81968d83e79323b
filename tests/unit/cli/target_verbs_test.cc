// ls, check, evict, unlink.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;

proto::CheckTargetReply Checked(std::uint64_t cached_blocks) {
  proto::CheckTargetReply reply;
  reply.set_link("imagenet");
  reply.set_objects(4);
  reply.set_bytes(4096);
  reply.set_blocks(4);
  reply.set_cached_objects(cached_blocks);
  reply.set_cached_bytes(1024 * cached_blocks);
  reply.set_cached_blocks(cached_blocks);
  return reply;
}

TEST(Check, AllCachedIsExitZero) {
  ScriptedSession session;
  session.Answer(Method::kCheckTarget, Checked(4));
  const Ran ran = RunForebay(session, {"check", "imagenet/train"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "imagenet/train: all cached, 100.0 %\n"
            "  objects            4 of            4\n"
            "  bytes       4.00 KiB of     4.00 KiB\n"
            "  blocks             4 of            4\n");
  EXPECT_EQ(session.Asked<proto::CheckTargetRequest>(0).target().text(), "imagenet/train");
}

TEST(Check, PartlyCachedIsExitThree) {
  ScriptedSession session;
  session.Answer(Method::kCheckTarget, Checked(3));
  const Ran ran = RunForebay(session, {"check", "imagenet"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("imagenet: partly cached, 75.0 %\n"));
}

TEST(Check, NothingCachedIsExitThreeAsWellForExitOneIsAFailure) {
  ScriptedSession session;
  session.Answer(Method::kCheckTarget, Checked(0));
  const Ran ran = RunForebay(session, {"check", "imagenet"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("imagenet: not cached, 0.0 %\n"));
}

TEST(Check, WhatASilentNodeMayHoldIsUnknownAndExitThree) {
  ScriptedSession session;
  proto::CheckTargetReply reply = Checked(0);
  reply.set_unknown_blocks(4);
  proto::UnknownNode& silent = *reply.add_unknown();
  silent.set_node_id("n2");
  silent.set_reason("suspect");
  silent.set_blocks(4);
  session.Answer(Method::kCheckTarget, reply);
  const Ran ran = RunForebay(session, {"check", "imagenet"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("  unknown: 4 blocks on node n2 (suspect)\n"));
}

TEST(Check, VerifySaysWhatTheNodesFound) {
  ScriptedSession session;
  proto::CheckTargetReply reply = Checked(3);
  reply.set_verified_blocks(3);
  reply.set_corrupt_blocks(1);
  session.Answer(Method::kCheckTarget, reply);
  const Ran ran = RunForebay(session, {"check", "imagenet", "--verify"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("  verified 3 blocks, dropped 1 that did not match\n"));
  EXPECT_TRUE(session.Asked<proto::CheckTargetRequest>(0).verify());
}

TEST(Check, NothingToCacheIsAllCached) {
  ScriptedSession session;
  session.Answer(Method::kCheckTarget, proto::CheckTargetReply());
  EXPECT_EQ(RunForebay(session, {"check", "imagenet"}).exit, 0);
}

TEST(Check, WhatTheCoordinatorRefusesIsExitOneInOneLine) {
  ScriptedSession session;
  session.Refuse(Method::kCheckTarget,
                 Error{Code::kNotFound, "no link 'imagnet'; the nearest is 'imagenet'"});
  const Ran ran = RunForebay(session, {"check", "imagnet"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.err, "forebay: no link 'imagnet'; the nearest is 'imagenet'\n");
}

TEST(Check, AnAnswerThatMakesNoSenseIsAFailureAndNotUsage) {
  ScriptedSession session;
  proto::StatsReply other;
  other.set_cluster(std::string("\xFF\xFF\xFF", 3));
  session.Answer(Method::kCheckTarget, other);
  const Ran ran = RunForebay(session, {"check", "imagenet"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("matching versions"));
}

void AddFile(proto::ListTargetReply& page, const std::string& name, std::uint64_t size) {
  proto::ListedEntry& entry = *page.add_entries();
  entry.set_name(name);
  entry.set_size(size);
  entry.set_mtime_s(1'767'323'045);
  entry.set_cached_bytes(size / 2);
}

TEST(Ls, ListsAllPagesUnderOneHeading) {
  ScriptedSession session;
  proto::ListTargetReply first;
  proto::ListedEntry& folder = *first.add_entries();
  folder.set_name("val");
  folder.set_kind(1);
  first.set_next_cursor(17);
  proto::ListTargetReply last;
  AddFile(last, "a\nb.jpg", 39'000);
  session.Answer(Method::kListTarget, first);
  session.Answer(Method::kListTarget, last);
  const Ran ran = RunForebay(session, {"ls", "imagenet"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "    SIZE  MODIFIED              NAME\n"
            "       -  -                     val/\n"
            "38.1 KiB  2026-01-02T03:04:05Z  a\\nb.jpg\n");
  EXPECT_EQ(session.Asked<proto::ListTargetRequest>(0).cursor(), 0u);
  EXPECT_EQ(session.Asked<proto::ListTargetRequest>(1).cursor(), 17u);
  EXPECT_FALSE(session.Asked<proto::ListTargetRequest>(1).with_cached());
}

TEST(Ls, CachedShowsTheShareOfEachEntry) {
  ScriptedSession session;
  proto::ListTargetReply page;
  AddFile(page, "a.jpg", 2048);
  session.Answer(Method::kListTarget, page);
  const Ran ran = RunForebay(session, {"ls", "imagenet", "--cached"});
  EXPECT_THAT(ran.out, HasSubstr("50.0 %  a.jpg\n"));
  EXPECT_TRUE(session.Asked<proto::ListTargetRequest>(0).with_cached());
}

TEST(Ls, WideShowsEtags) {
  ScriptedSession session;
  proto::ListTargetReply page;
  proto::ListedEntry& folder = *page.add_entries();
  folder.set_name("val");
  folder.set_kind(1);
  AddFile(page, "a.jpg", 2048);
  page.mutable_entries(1)->set_etag("d41d8cd98f00b204e9800998ecf8427e");
  session.Answer(Method::kListTarget, page);
  const Ran ran = RunForebay(session, {"ls", "imagenet", "-o", "wide"});
  EXPECT_THAT(ran.out, HasSubstr("MODIFIED              ETAG                              NAME\n"));
  EXPECT_THAT(ran.out, HasSubstr("Z  d41d8cd98f00b204e9800998ecf8427e  a.jpg\n"));
}

TEST(Ls, HiddenShowsKeysAndReasons) {
  ScriptedSession session;
  proto::ListTargetReply page;
  proto::ListedEntry& entry = *page.add_entries();
  entry.set_name("a//b\x1b[2J");
  entry.set_reason("a component of the key is empty");
  session.Answer(Method::kListTarget, page);
  const Ran ran = RunForebay(session, {"ls", "imagenet", "--hidden"});
  EXPECT_EQ(ran.out,
            "REASON                           KEY\n"
            "a component of the key is empty  a//b\\x1b[2J\n");
  EXPECT_TRUE(session.Asked<proto::ListTargetRequest>(0).hidden());
}

TEST(Ls, CachedAndHiddenExcludeEachOther) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"ls", "imagenet", "--hidden", "--cached"}).exit, 2);
}

TEST(Ls, AnEmptyFolderPrintsNothing) {
  ScriptedSession session;
  session.Answer(Method::kListTarget, proto::ListTargetReply());
  const Ran ran = RunForebay(session, {"ls", "imagenet"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "");
}

proto::EvictTargetReply Evicted(const std::string& error = "") {
  proto::EvictTargetReply reply;
  reply.set_link("imagenet");
  reply.set_objects(4);
  reply.set_cached_bytes(3072);
  proto::NodeEvicted& first = *reply.add_nodes();
  first.set_node_id("n1");
  first.set_blocks(3);
  first.set_bytes(3072);
  proto::NodeEvicted& second = *reply.add_nodes();
  second.set_node_id("n2");
  second.set_error(error);
  return reply;
}

TEST(Evict, WithoutATerminalItNeedsYes) {
  for (const Terminal& terminal : {Terminal{}, Terminal{.err = true}, Terminal{.in = true}}) {
    ScriptedSession session;
    const Ran ran = RunForebay(session, {"evict", "imagenet"}, terminal);
    EXPECT_EQ(ran.exit, 2);
    EXPECT_THAT(ran.err, HasSubstr("--yes"));
  }
}

TEST(Evict, YesFreesAtOnceAndSaysWhatEachNodeFreed) {
  ScriptedSession session;
  session.Answer(Method::kEvictTarget, Evicted());
  const Ran ran = RunForebay(session, {"evict", "imagenet/a", "--yes"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "NODE  BLOCKS     FREED  PROBLEM\n"
            "n1         3  3.00 KiB\n"
            "n2         0       0 B\n"
            "freed 3.00 KiB in 3 blocks\n");
  EXPECT_FALSE(session.Asked<proto::EvictTargetRequest>(0).dry_run());
}

TEST(Evict, ANodeThatDidNotAnswerIsPartlyDone) {
  ScriptedSession session;
  session.Answer(Method::kEvictTarget, Evicted("silent for 3 s"));
  const Ran ran = RunForebay(session, {"evict", "imagenet/a", "--yes"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("n2         0       0 B  silent for 3 s\n"));
}

TEST(Evict, DryRunFreesNothing) {
  ScriptedSession session;
  session.Answer(Method::kEvictTarget, Evicted());
  const Ran ran = RunForebay(session, {"evict", "imagenet", "--dry-run"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.out, HasSubstr("would free 3.00 KiB in 3 blocks\n"));
  EXPECT_TRUE(session.Asked<proto::EvictTargetRequest>(0).dry_run());
}

TEST(Evict, WhatIsPinnedStaysWithASentence) {
  ScriptedSession session;
  proto::EvictTargetReply reply = Evicted();
  reply.mutable_nodes(0)->set_pinned_blocks(2);
  reply.mutable_nodes(0)->set_pinned_bytes(8192);
  session.Answer(Method::kEvictTarget, reply);
  const Ran ran =
      RunForebay(session, {"evict", "imagenet", "--yes", "--force", "--unused-for", "7d"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.out, HasSubstr("8.00 KiB in 2 blocks stay: they are pinned, `forebay unpin`"));
  const auto asked = session.Asked<proto::EvictTargetRequest>(0);
  EXPECT_EQ(asked.unused_for_hours(), 168u);
  EXPECT_TRUE(asked.force());
}

TEST(Evict, UnusedForIsWholeHours) {
  ScriptedSession session;
  for (const char* time : {"30s", "59m", "-1d", "x", "20000d"}) {
    EXPECT_EQ(RunForebay(session, {"evict", "imagenet", "--yes", "--unused-for", time}).exit, 2)
        << time;
  }
  EXPECT_EQ(session.calls(), 0u);
}

TEST(Evict, ATerminalIsAskedAndToldWhatWouldBeFreed) {
  ScriptedSession session;
  session.Answer(Method::kEvictTarget, Evicted());
  session.Answer(Method::kEvictTarget, Evicted());
  const Ran ran =
      RunForebay(session, {"evict", "imagenet"}, {.err = true, .in = true, .typed = "y\n"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.err, "Free 3.00 KiB of the 4 objects of imagenet? [y/N] ");
}

TEST(Evict, HoweverYesIsWritten) {
  for (const std::string typed : {"Y\n", " y\n", "yes\n", "Yes \n", "YES\r\n"}) {
    ScriptedSession session;
    session.Answer(Method::kEvictTarget, Evicted());
    session.Answer(Method::kEvictTarget, Evicted());
    const Ran ran =
        RunForebay(session, {"evict", "imagenet"}, {.err = true, .in = true, .typed = typed});
    EXPECT_EQ(ran.exit, 0) << typed;
  }
}

TEST(Evict, AnyOtherAnswerFreesNothing) {
  for (const std::string typed : {"", "\n", "n\n", "yes please\n"}) {
    ScriptedSession session;
    session.Answer(Method::kEvictTarget, Evicted());
    const Ran ran =
        RunForebay(session, {"evict", "imagenet"}, {.err = true, .in = true, .typed = typed});
    EXPECT_EQ(ran.exit, 1) << typed;
  }
}

TEST(Unlink, RemovesAndSaysSo) {
  ScriptedSession session;
  session.Answer(Method::kUnlink, proto::UnlinkReply());
  const Ran ran = RunForebay(session, {"unlink", "imagenet/"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "'imagenet' is removed\n");
  EXPECT_EQ(session.Asked<proto::UnlinkRequest>(0).name(), "imagenet");
  EXPECT_FALSE(session.Asked<proto::UnlinkRequest>(0).evict());
  EXPECT_FALSE(session.Asked<proto::UnlinkRequest>(0).force());
}

TEST(Unlink, WhatAJobReadsIsRefusedUnlessForced) {
  ScriptedSession session;
  session.Refuse(Method::kUnlink,
                 Error{Code::kInvalid, "link 'imagenet' is read by the job 'resnet'"});
  const Ran refused = RunForebay(session, {"unlink", "imagenet"});
  EXPECT_EQ(refused.exit, 2) << "as evict's";
  EXPECT_THAT(refused.err, HasSubstr("'resnet'"));
  session.Answer(Method::kUnlink, proto::UnlinkReply());
  EXPECT_EQ(RunForebay(session, {"unlink", "imagenet", "--force"}).exit, 0);
  EXPECT_TRUE(session.Asked<proto::UnlinkRequest>(1).force());
}

TEST(Unlink, EvictAlsoFrees) {
  ScriptedSession session;
  proto::UnlinkReply reply;
  *reply.mutable_evicted() = Evicted("silent").nodes();
  session.Answer(Method::kUnlink, reply);
  const Ran ran = RunForebay(session, {"unlink", "imagenet", "--evict"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.out, HasSubstr("freed 3.00 KiB in 3 blocks\n"));
  EXPECT_TRUE(session.Asked<proto::UnlinkRequest>(0).evict());
}

TEST(Unlink, WhatIsNotThereIsDoneAlready) {
  ScriptedSession session;
  session.Refuse(Method::kUnlink,
                 Error{Code::kNotFound, "no link 'imagnet'; the nearest is 'imagenet'"});
  const Ran ran = RunForebay(session, {"unlink", "imagnet"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "nothing to do: no link 'imagnet'; the nearest is 'imagenet'\n");
}

TEST(Unlink, TakesANameAndNoPath) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"unlink", "imagenet/train"}).exit, 2);
}

}  // namespace
}  // namespace forebay::testing
