#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

proto::LinkReply Started(const std::string& task = "t-1") {
  proto::LinkReply reply;
  reply.set_name("train");
  reply.set_task_id(task);
  return reply;
}

TEST(Link, WaitsForTheListingAndSaysHowToMount) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.AnswerTask(0, 10, 0);
  session.AnswerTask(1, 20, 20);
  const Ran ran = RunForebay(session, {"link", "s3://bkt/data/train/"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "link 'train': 20 objects, 20.0 KiB; mount it with `forebay-mount train DIR`\n");
  EXPECT_EQ(ran.err, "");
  const auto request = session.Asked<proto::LinkRequest>(0);
  EXPECT_EQ(request.name(), "train");
  EXPECT_EQ(request.bucket(), "bkt");
  EXPECT_EQ(request.prefix(), "data/train/");
  EXPECT_EQ(request.refresh(), 1u);
  EXPECT_EQ(session.Asked<proto::GetTaskRequest>(1).id(), "t-1");
}

TEST(Link, SaysHowManyKeysAreHiddenAndHowToSeeWhy) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  proto::TaskState done;
  done.set_state(1);
  done.set_done(1);
  done.set_total(1);
  done.set_hidden_keys(8);
  session.Answer(Method::kGetTask, done);
  EXPECT_EQ(RunForebay(session, {"link", "s3://bkt/data/train/"}).out,
            "link 'train': 1 object, 0 B; mount it with `forebay-mount train DIR`\n"
            "8 keys cannot be shown as files: `forebay ls train --hidden` says why\n");
}

TEST(Link, SendsEachOption) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started(""));
  const Ran ran = RunForebay(session, {"link",
                                       "s3://bkt/x",
                                       "--as",
                                       "n",
                                       "--refresh",
                                       "10m",
                                       "--block-size",
                                       "1MiB",
                                       "--replicas",
                                       "2",
                                       "--quota",
                                       "1GiB",
                                       "--priority",
                                       "high",
                                       "--endpoint-url",
                                       "http://s3:9000",
                                       "--region",
                                       "eu-central-1",
                                       "--profile",
                                       "p",
                                       "--force-path-style",
                                       "--requester-pays",
                                       "--no-background-fill",
                                       "--expected-bucket-owner",
                                       "123456789012",
                                       "--no-sign-request"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  const auto request = session.Asked<proto::LinkRequest>(0);
  EXPECT_EQ(request.name(), "n");
  EXPECT_EQ(request.refresh(), 2u);
  EXPECT_EQ(request.refresh_seconds(), 600u);
  EXPECT_EQ(request.block_bytes(), 1u << 20);
  EXPECT_EQ(request.replicas(), 2u);
  EXPECT_EQ(request.quota_bytes(), 1u << 30);
  EXPECT_EQ(request.priority(), 1);
  EXPECT_EQ(request.endpoint(), "http://s3:9000");
  EXPECT_EQ(request.region(), "eu-central-1");
  EXPECT_EQ(request.profile(), "p");
  EXPECT_EQ(request.path_style(), 1u);
  EXPECT_TRUE(request.requester_pays());
  EXPECT_TRUE(request.no_background_fill());
  EXPECT_TRUE(request.no_sign());
  EXPECT_EQ(request.expected_owner(), "123456789012");
}

TEST(Link, ASnapshotIsNeverListedAgain) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started(""));
  EXPECT_EQ(RunForebay(session, {"link", "s3://bkt/x", "--snapshot"}).exit, 0);
  EXPECT_EQ(session.Asked<proto::LinkRequest>(0).refresh(), 0U);
  session.Answer(Method::kLink, Started(""));
  EXPECT_EQ(
      RunForebay(session, {"link", "s3://bkt/x", "--snapshot", "--refresh", "immutable"}).exit, 0);
  const Ran both = RunForebay(session, {"link", "s3://bkt/x", "--snapshot", "--refresh", "10m"});
  EXPECT_EQ(both.exit, 2);
  EXPECT_THAT(both.err, HasSubstr("leave --refresh out"));
}

TEST(Link, GlobsMayBeGivenSeveralTimes) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started(""));
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train", "--include", "*.jpg",
                                       "--include=*.png", "--exclude", "/tmp/"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  const auto request = session.Asked<proto::LinkRequest>(0);
  ASSERT_EQ(request.includes_size(), 2);
  EXPECT_EQ(request.includes(0), "*.jpg");
  EXPECT_EQ(request.includes(1), "*.png");
  ASSERT_EQ(request.excludes_size(), 1);
  EXPECT_EQ(request.excludes(0), "/tmp/");
}

TEST(Link, AManifestIsLinkedUnderANameOrBelowAPrefix) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started(""));
  Ran ran = RunForebay(session, {"link", "train", "--manifest", "s3://lists/m.json", "--skip-bad"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("of s3://lists/m.json is there already"));
  auto request = session.Asked<proto::LinkRequest>(0);
  EXPECT_EQ(request.name(), "train");
  EXPECT_EQ(request.bucket(), "");
  EXPECT_EQ(request.manifest(), "s3://lists/m.json");
  EXPECT_TRUE(request.skip_bad());
  session.Answer(Method::kLink, Started(""));
  EXPECT_FALSE(request.posix_metadata());
  EXPECT_EQ(request.sharing_domain(), "");
  ran = RunForebay(session, {"link", "s3://bkt/p", "--manifest", "s3://lists/m.txt",
                             "--posix-metadata", "--sharing-domain", "team"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  request = session.Asked<proto::LinkRequest>(1);
  EXPECT_TRUE(request.posix_metadata());
  EXPECT_EQ(request.sharing_domain(), "team");
  EXPECT_EQ(request.name(), "p");
  EXPECT_EQ(request.bucket(), "bkt");
}

TEST(Link, WhatMakesNoSenseOfAManifestIsAUsageError) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"link", "s3://bkt/p", "--skip-bad"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"link", "a", "--as", "b", "--manifest", "s3://lists/m"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"link", "a", "--manifest", "lists/m"}).exit, 2);
}

TEST(Link, AGlobThatCannotBeIsAUsageError) {
  ScriptedSession session;
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train", "--include", "a[b"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_THAT(ran.err, HasSubstr("glob 'a[b': a '[' is not closed"));
}

TEST(Link, AnOwnerThatIsNoAccountIsRefused) {
  ScriptedSession session;
  const Ran ran = RunForebay(session, {"link", "s3://bkt/x", "--expected-bucket-owner", "me"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_THAT(ran.err, HasSubstr("\"me\" is no account of twelve digits"));
}

TEST(Link, RepeatedIsDoneAlready) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started(""));
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "link 'train' of s3://bkt/train is there already: nothing to do\n");
}

TEST(Link, OtherOptionsForATakenNameAreUsageErrors) {
  ScriptedSession session;
  session.Refuse(Method::kLink, Error{Code::kInvalid, "link 'train' exists with other options"});
  proto::GetLinksReply links;
  links.add_links()->mutable_spec()->set_name("train");
  session.Answer(Method::kGetLinks, links);
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_EQ(ran.err, "forebay: link 'train' exists with other options\n");
}

TEST(Link, WhatS3RefusesIsAFailure) {
  ScriptedSession session;
  session.Refuse(Method::kLink, Error{Code::kInvalid, "no objects under s3://bkt/train/"});
  session.Refuse(Method::kGetLinks, Error{Code::kNotFound, "no link 'train'"});
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.err, "forebay: no objects under s3://bkt/train/\n");
}

TEST(Link, WhatIsWrongOnItsFaceReachesNoCoordinator) {
  const std::vector<std::vector<std::string>> wrong = {
      {"link", "bucket"},
      {"link", "s3://bkt/x", "--as", "a/b"},
      {"link", "s3://bkt/x", "--block-size", "5"},
      {"link", "s3://bkt/x", "--block-size", "big"},
      {"link", "s3://bkt/x", "--refresh", "sometimes"},
      {"link", "s3://bkt/x", "--replicas", "0"},
      {"link", "s3://bkt/x", "--wait", "--detach"},
      {"link", "s3://bkt/x", "--region", ""},
      {"link"},
  };
  for (const auto& words : wrong) {
    ScriptedSession session;
    const Ran ran = RunForebay(session, words);
    EXPECT_EQ(ran.exit, 2) << words.back();
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

TEST(Link, DetachPrintsTheTask) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train", "--detach"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "t-1\n");
}

TEST(Link, CtrlCLeavesTheListingRunningAndSaysHowToComeBack) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.AnswerTask(0, 10, 0);
  session.InterruptAtPause(1);
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 130);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err,
            "link 'train' goes on as task t-1: `forebay task wait t-1` comes back to it, "
            "`forebay task cancel t-1` ends it\n");
}

TEST(Link, TimeoutIsExitFourAndTheListingGoesOn) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.AnswerTask(0, 10, 0);
  session.AnswerTask(0, 20, 0);
  session.TimeOutAtPause(2);
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train", "--timeout", "1s"});
  EXPECT_EQ(ran.exit, 4);
  EXPECT_THAT(ran.err,
              HasSubstr("link 'train' is not done within --timeout and goes on as task t-1; "
                        "`forebay task wait t-1`"));
}

TEST(Link, AFailedListingIsExitOneWithItsReason) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.AnswerTask(2, 10, 0, "S3 answered 503");
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("link 'train': S3 answered 503"));
}

TEST(Link, ACancelledListingIsExitOne) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.AnswerTask(3, 10, 0);
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("link 'train': task t-1 was cancelled"));
}

TEST(Link, TheWaitOutlivesACoordinatorThatRestarts) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.AnswerTask(0, 10, 0);
  for (int i = 0; i < 5; ++i) {
    session.Refuse(Method::kGetTask, Error{Code::kUnavailable, "no coordinator answers"});
  }
  session.AnswerTask(1, 20, 20);
  EXPECT_EQ(RunForebay(session, {"link", "s3://bkt/train"}).exit, 0);
}

TEST(Link, TheWaitEndsWhenTheCoordinatorStaysAway) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  // Polls after 0, 50, 150, 350, 750 ms and then each 500 ms: the 124th is the first after 60 s.
  for (int i = 0; i < 124; ++i) {
    session.Refuse(Method::kGetTask, Error{Code::kUnavailable, "no coordinator answers"});
  }
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_GE(session.waited(), std::chrono::seconds(60));
  EXPECT_LT(session.waited(), std::chrono::seconds(61));
}

TEST(Link, OtherFailuresOfAPollEndTheWaitAtOnce) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.Refuse(Method::kGetTask, Error{Code::kNotFound, "no task 't-1'"});
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("no task 't-1'"));
}

TEST(Link, ATerminalSeesABarThatIsTakenAway) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started());
  session.AnswerTask(0, 10, 40);
  session.AnswerTask(1, 40, 40);
  const Ran ran = RunForebay(session, {"link", "s3://bkt/train"}, {.err = true});
  EXPECT_THAT(ran.err, HasSubstr("\rlisting train: [####"));
  EXPECT_TRUE(ran.err.ends_with("\r\x1b[J")) << ran.err;
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
}

TEST(Link, SeveralSourcesMakeASet) {
  ScriptedSession session;
  session.Answer(Method::kLink, Started("t-1+t-2"));
  session.AnswerTask(1, 20, 20);
  const Ran ran = RunForebay(session, {"link", "s3://pics/images", "text=s3://text/labels/", "--as",
                                       "clip", "--quota", "1GiB"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("set 'train': 20 objects"));
  const auto request = session.Asked<proto::LinkRequest>(0);
  EXPECT_EQ(request.name(), "clip");
  EXPECT_EQ(request.bucket(), "");
  EXPECT_EQ(request.quota_bytes(), 1u << 30);
  ASSERT_EQ(request.parts_size(), 2);
  EXPECT_EQ(request.parts(0).name(), "images");
  EXPECT_EQ(request.parts(0).bucket(), "pics");
  EXPECT_EQ(request.parts(1).name(), "text");
  EXPECT_EQ(request.parts(1).prefix(), "labels/");
  EXPECT_EQ(session.Asked<proto::GetTaskRequest>(1).id(), "t-1+t-2");
}

TEST(Link, AWrongSetIsAUsageErrorAndAsksNobody) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"s3://pics/x", "s3://text/y"}, "2 sources make a set, which needs a name: give --as NAME"},
      {{"s3://pics/x", "s3://text/x", "--as", "n"}, "would both be 'x'"},
      {{"s3://pics/x", "y=s3://pics/x/", "--as", "n"}, "s3://pics/x is given twice"},
      {{"s3://pics/x", "data", "--as", "n"}, "data"},
      {{"s3://pics/x", "s3://text/y", "--as", "n", "--manifest", "s3://pics/m"},
       "--manifest names the objects of one link"},
  };
  for (const auto& [words, message] : wrong) {
    ScriptedSession session;
    std::vector<std::string> all = {"link"};
    all.insert(all.end(), words.begin(), words.end());
    const Ran ran = RunForebay(session, all);
    EXPECT_EQ(ran.exit, 2);
    EXPECT_THAT(ran.err, HasSubstr(message));
    EXPECT_EQ(session.calls(), 0u);
  }
}

TEST(Link, ASetOfATakenNameIsAUsageError) {
  ScriptedSession session;
  session.Refuse(Method::kLink, Error{Code::kInvalid, "set 'clip' exists"});
  proto::GetLinksReply links;
  links.add_links()->mutable_spec()->set_name("clip.images");
  links.mutable_links(0)->mutable_spec()->set_set("clip");
  session.Answer(Method::kGetLinks, links);
  EXPECT_EQ(RunForebay(session, {"link", "s3://pics/x", "s3://text/y", "--as", "clip"}).exit, 2);
}

}  // namespace
}  // namespace forebay::testing
