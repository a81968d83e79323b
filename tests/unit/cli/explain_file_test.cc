#include "cli/explain_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "common/model/block_loss.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kNow = 1'767'323'045;

/// A file of `blocks` blocks whose owners are n1 and then n2; nothing is cached, nothing was read.
proto::ExplainReply File(int blocks) {
  proto::ExplainReply file;
  file.set_link("imagenet");
  file.set_path("train/a.jpg");
  file.set_bucket("bucket");
  file.set_key("imagenet/train/a.jpg");
  file.set_generation(3);
  file.set_listed_unix_s(kNow - 7200);
  file.set_size(static_cast<std::uint64_t>(blocks) * 4096);
  file.set_etag("abc");
  file.set_blocks(static_cast<std::uint64_t>(blocks));
  file.mutable_now()->set_etag("abc");
  for (int i = 0; i < blocks; ++i) {
    proto::ExplainedBlock& block = *file.add_described();
    block.set_offset(static_cast<std::uint64_t>(i) * 4096);
    block.set_length(4096);
    block.add_owners("n1");
    block.add_owners("n2");
    proto::BlockAtNode& owner = *block.add_nodes();
    owner.set_node_id("n1");
    owner.set_since_unix_s(kNow - 3600);
  }
  return file;
}

proto::BlockAtNode& Owner(proto::ExplainReply& file, int block) {
  return *file.mutable_described(block)->mutable_nodes(0);
}

void Lose(proto::BlockAtNode& node, BlockLoss loss, std::int64_t ago) {
  node.set_lost_unix_s(kNow - ago);
  node.set_loss(static_cast<std::uint32_t>(loss));
}

std::string Short(const proto::ExplainReply& file) { return SumUp(file, kNow); }

std::string Printed(const proto::ExplainReply& file, OutputFormat format = OutputFormat::kTable) {
  std::ostringstream out, err;
  std::istringstream in;
  PrintExplainedFile({.out = out, .err = err, .in = in, .format = format}, file, kNow);
  return out.str();
}

TEST(ExplainFile, SaysWhatAReadCostsAndWhatToDo) {
  EXPECT_EQ(Short(File(0)), "it is empty: a read costs nothing");
  proto::ExplainReply file = File(2);
  EXPECT_EQ(Short(file),
            "8.00 KiB of it is not cached, nothing has read it since 1 h 0 min ago: reading all of "
            "it costs 2 GETs; `forebay preload imagenet/train/a.jpg` caches it now");
  Owner(file, 0).set_cached(true);
  Owner(file, 0).set_read_unix_s(kNow - 60);
  EXPECT_EQ(Short(file),
            "4.00 KiB of it is not cached: reading all of it costs 1 GET; `forebay preload "
            "imagenet/train/a.jpg` caches it now");
  proto::BlockAtNode& other = *file.mutable_described(1)->add_nodes();
  other.set_node_id("n2");
  other.set_cached(true);
  EXPECT_THAT(Short(file), HasSubstr("in part not where readers ask first"));
  Owner(file, 1).set_cached(true);
  EXPECT_EQ(Short(file), "all of it is cached where readers ask first: a read costs no GET");
}

TEST(ExplainFile, TheNewestLossIsTheReasonAndItsRemedyIsNamed) {
  proto::ExplainReply file = File(2);
  Lose(Owner(file, 0), BlockLoss::kAsked, 120);
  Lose(Owner(file, 1), BlockLoss::kReplaced, 60);
  EXPECT_THAT(Short(file), HasSubstr("last 1 min 0 s ago, evicted: the cache was full"));
  EXPECT_THAT(Short(file), HasSubstr("`forebay pin imagenet/train/a.jpg`"));
  Owner(file, 1).set_cached(true);
  EXPECT_THAT(Short(file), HasSubstr("somebody asked for it")) << "what is back is not lost";
  EXPECT_THAT(Short(file), HasSubstr("`forebay preload imagenet/train/a.jpg`"));
  Lose(Owner(file, 0), BlockLoss::kNoRoom, 30);
  EXPECT_THAT(Short(file), HasSubstr("not kept: the cache is full"));
}

TEST(ExplainFile, WhatIsUnknownIsNotCalledAbsent) {
  proto::ExplainReply file = File(1);
  file.mutable_described(0)->clear_nodes();
  proto::UnknownNode& silent = *file.add_silent();
  silent.set_node_id("n1");
  silent.set_reason("it does not answer");
  EXPECT_THAT(Short(file), HasSubstr("what a silent node holds is not known"));
  const std::string text = Printed(file);
  EXPECT_THAT(text, HasSubstr("not known   n1 (it does not answer)\n"));
  EXPECT_THAT(text, HasSubstr("last read   not known\n"));
  EXPECT_THAT(text, Not(HasSubstr("not read since")));
}

TEST(ExplainFile, AnotherVersionInS3IsTheReasonBeforeAllOthers) {
  proto::ExplainReply file = File(1);
  Lose(Owner(file, 0), BlockLoss::kReplaced, 60);
  EXPECT_THAT(Printed(file), HasSubstr("in S3 now   the same object\n"));
  file.mutable_now()->set_state(1);
  file.mutable_now()->set_etag("def");
  file.mutable_now()->set_size(1024);
  EXPECT_THAT(Short(file), HasSubstr("ESTALE: run `forebay refresh imagenet/train/a.jpg`"));
  EXPECT_THAT(Printed(file), HasSubstr("in S3 now   replaced: 1.00 KiB, ETag def, modified "));
  file.mutable_now()->set_state(2);
  EXPECT_THAT(Printed(file),
              HasSubstr("in S3 now   gone; run `forebay refresh imagenet/train/a.jpg`\n"));
  file.set_immutable(true);
  EXPECT_THAT(Short(file), HasSubstr("S3 has it no more: reads"));
  EXPECT_THAT(Short(file), HasSubstr("get the listed version where the bucket keeps its versions"));
  EXPECT_THAT(Short(file), HasSubstr("unlink it and link it again"));
  file.set_archived(true);
  EXPECT_THAT(Short(file), HasSubstr("archived: reads of what is not cached fail until it is"));
  EXPECT_THAT(Short(file), Not(HasSubstr("refresh"))) << "no listing says that it was restored";
}

TEST(ExplainFile, AnS3ThatDoesNotAnswerIsSaidAndIsNoReason) {
  proto::ExplainReply file = File(1);
  file.mutable_now()->set_state(3);
  file.mutable_now()->set_message("Connection refused");
  EXPECT_THAT(Printed(file), HasSubstr("in S3 now   not known: Connection refused\n"));
  EXPECT_THAT(Short(file), HasSubstr("costs 1 GET"));
  ScriptedSession session;
  session.Answer(Method::kExplain, file);
  EXPECT_EQ(RunForebay(session, {"explain", "imagenet/train/a.jpg"}).exit, 3);
}

TEST(ExplainFile, WhatS3ThrottlesIsSaidToWait) {
  proto::ExplainReply file = File(2);
  file.set_s3_requests_per_s(12.4);
  EXPECT_THAT(Short(file),
              HasSubstr("costs 2 GETs, which wait: S3 throttles, and the cluster keeps "
                        "to 12 requests/s; `forebay preload"));
  for (int i = 0; i < 2; ++i) Owner(file, i).set_cached(true);
  EXPECT_THAT(Short(file), Not(HasSubstr("throttles"))) << "a cached read never notices";
}

TEST(ExplainFile, BlocksOfWhichTheSameIsSaidShareALine) {
  proto::ExplainReply file = File(5);
  for (int i = 0; i < 4; ++i) Owner(file, i).set_cached(true);
  proto::BlockAtNode& lost = Owner(file, 4);
  lost.set_read_unix_s(kNow - 120);
  lost.set_job("slurm-7");
  Lose(lost, BlockLoss::kOverQuota, 60);
  proto::EarlierOwner& earlier = *file.mutable_described(4)->add_earlier();
  earlier.set_node_id("n3");
  earlier.set_left_unix_s(kNow - 600);
  proto::ExplainedPin& pin = *file.add_pins();
  pin.set_target("imagenet/train");
  pin.set_job("slurm-8");
  EXPECT_EQ(
      Printed(file),
      "imagenet/train/a.jpg\n"
      "  object      s3://bucket/imagenet/train/a.jpg, 20.0 KiB, ETag abc\n"
      "  listed      2 h 0 min ago, in generation 3\n"
      "  in S3 now   the same object\n"
      "  pinned      by the pin of imagenet/train until job slurm-8 ends\n"
      "  priority    normal\n"
      "  cached      16.0 KiB of 20.0 KiB: bytes 0-16383\n"
      "  last read   2 min 0 s ago by job slurm-7, at n1\n"
      "  in short    4.00 KiB of it is not cached, last 1 min 0 s ago, evicted: its link's "
      "quota left no room for it: reading all of it costs 1 GET; `forebay pin "
      "imagenet/train/a.jpg` "
      "keeps what is read from now on\n"
      "\n"
      "BLOCKS  BYTES        OWNERS  EARLIER OWNERS           CACHED AT  LAST READ             "
      "    WHY NOT CACHED\n"
      "0-3     0-16383      n1, n2                           n1         -\n"
      "4       16384-20479  n1, n2  n3 until 10 min 0 s ago  no         2 min 0 s ago by "
      "slurm-7  1 min 0 s ago, evicted: its link's quota left no room for it\n");
}

TEST(ExplainFile, OnlyTheFirstLinesOfALargeFileAreShownUnlessWide) {
  proto::ExplainReply file = File(40);
  for (int i = 0; i < 40; i += 2) Owner(file, i).set_cached(true);
  file.set_blocks(1000);
  const std::string text = Printed(file);
  EXPECT_THAT(text, HasSubstr("of the first 160 KiB: bytes 0-4095, 8192-12287, 16384-20479, "
                              "24576-28671, 16 more ranges; `forebay check "));
  EXPECT_THAT(text, HasSubstr("\n… and 24 more blocks: `-o wide` shows them\n"));
  EXPECT_THAT(Printed(file, OutputFormat::kWide), Not(HasSubstr("more blocks")));
  EXPECT_THAT(Printed(file, OutputFormat::kWide), HasSubstr("\n39      "));
}

TEST(ExplainFile, NamesCannotCommandATerminal) {
  proto::ExplainReply file = File(1);
  file.set_path("a\x1b[2J");
  file.set_key("k\x1b[2J");
  Owner(file, 0).set_read_unix_s(kNow - 1);
  Owner(file, 0).set_job("j\x1b[2J");
  EXPECT_THAT(Printed(file), Not(HasSubstr("\x1b")));
}

TEST(ExplainFile, NeedsAFileOrAJobAndNotBoth) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"explain"}).exit, 2);
  EXPECT_EQ(RunForebay(session, {"explain", "imagenet/a", "--job", "7"}).exit, 2);
  EXPECT_EQ(session.calls(), 0u);
  session.Refuse(Method::kExplain, Failure(Error{Code::kInvalid, "'imagenet' is a folder"}));
  const Ran folder = RunForebay(session, {"explain", "imagenet"});
  EXPECT_EQ(folder.exit, 2);
  EXPECT_THAT(folder.err, HasSubstr("'imagenet' is a folder"));
  session.Answer(Method::kExplain, File(1));
  EXPECT_EQ(RunForebay(session, {"explain", "imagenet/train/a.jpg"}).exit, 0);
  EXPECT_EQ(session.Asked<proto::ExplainRequest>(1).target().text(), "imagenet/train/a.jpg");
}

}  // namespace
}  // namespace forebay::testing
