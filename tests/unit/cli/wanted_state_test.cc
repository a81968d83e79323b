// export, apply.
#include "cli/wanted_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/model/limits.h"
#include "common/model/link.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A link with every option that a link can have.
proto::LinkSpec RichLink() {
  proto::LinkSpec spec;
  spec.set_name("rich");
  proto::LinkOrigin& origin = *spec.mutable_origin();
  origin.set_bucket("bucket");
  origin.set_prefix("a b/p/");
  origin.set_endpoint("https://s3.example.com:9000");
  origin.set_region("eu-west-1");
  origin.set_profile("team");
  origin.set_path_style(true);
  origin.set_requester_pays(true);
  origin.set_no_sign(false);
  origin.set_expected_owner("123456789012");
  spec.mutable_manifest()->set_location("s3://bucket/list.txt");
  spec.mutable_manifest()->set_behind_prefix(true);
  spec.mutable_manifest()->set_skip_bad(true);
  spec.add_includes("*.jpg");
  spec.add_includes("/train/**");
  spec.add_excludes("*.tmp");
  spec.set_block_bytes(1 << 20);
  spec.set_replicas(2);
  spec.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kPeriodic));
  spec.set_refresh_seconds(600);
  spec.set_quota_bytes((1 << 30) + 4096);
  spec.set_priority(static_cast<std::int32_t>(LinkPriority::kHigh));
  spec.set_posix_metadata(true);
  spec.set_sharing_domain("team");
  spec.set_no_background_fill(true);
  return spec;
}

proto::GetLinksReply LinksOf(const std::vector<proto::LinkSpec>& specs) {
  proto::GetLinksReply links;
  for (const proto::LinkSpec& spec : specs) *links.add_links()->mutable_spec() = spec;
  return links;
}

std::string Exported(const std::vector<proto::LinkSpec>& specs) {
  ScriptedSession session;
  session.Answer(Method::kGetLinks, LinksOf(specs));
  session.Answer(Method::kListPins, proto::ListPinsReply());
  const Ran ran = RunForebay(session, {"export"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  return ran.out;
}

TEST(Export, EveryOptionOfALinkComesBackAsTheSameRequest) {
  const Result<WantedState> wanted = ParseWanted(Exported({RichLink()}));
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  ASSERT_EQ(wanted->links.size(), 1u);
  const proto::LinkRequest& link = wanted->links[0];
  const proto::LinkSpec is = RichLink();
  EXPECT_EQ(link.name(), "rich");
  EXPECT_EQ(link.bucket(), "bucket");
  EXPECT_EQ(link.prefix(), "a b/p/");
  EXPECT_EQ(link.endpoint(), is.origin().endpoint());
  EXPECT_EQ(link.region(), is.origin().region());
  EXPECT_EQ(link.profile(), is.origin().profile());
  EXPECT_EQ(link.path_style(), 1u);
  EXPECT_TRUE(link.requester_pays());
  EXPECT_FALSE(link.no_sign());
  EXPECT_EQ(link.expected_owner(), is.origin().expected_owner());
  EXPECT_EQ(link.manifest(), is.manifest().location());
  EXPECT_TRUE(link.skip_bad());
  EXPECT_THAT(link.includes(), ElementsAre("*.jpg", "/train/**"));
  EXPECT_THAT(link.excludes(), ElementsAre("*.tmp"));
  EXPECT_EQ(link.block_bytes(), is.block_bytes());
  EXPECT_EQ(link.replicas(), 2u);
  EXPECT_EQ(link.refresh(), is.refresh());
  EXPECT_EQ(link.refresh_seconds(), 600u);
  EXPECT_EQ(link.quota_bytes(), is.quota_bytes());
  EXPECT_EQ(link.priority(), is.priority());
  EXPECT_TRUE(link.posix_metadata());
  EXPECT_EQ(link.sharing_domain(), "team");
  EXPECT_TRUE(link.no_background_fill());
}

TEST(Export, ABucketInTheHostNameIsSaidAndNotLeftToTheServersOfAnotherCluster) {
  proto::LinkSpec spec = RichLink();
  spec.mutable_origin()->set_path_style(false);
  const Result<WantedState> wanted = ParseWanted(Exported({spec}));
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  EXPECT_EQ(wanted->links[0].path_style(), 2u);
}

TEST(Export, AManifestThatSaysWhereComesBackWithoutASource) {
  proto::LinkSpec spec;
  spec.set_name("m");
  spec.set_block_bytes(kDefaultBlockBytes);
  spec.mutable_origin()->set_bucket("found");
  spec.mutable_manifest()->set_location("s3://bucket/list.txt");
  const Result<WantedState> wanted = ParseWanted(Exported({spec}));
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  EXPECT_EQ(wanted->links[0].name(), "m");
  EXPECT_EQ(wanted->links[0].bucket(), "");
  EXPECT_EQ(wanted->links[0].manifest(), "s3://bucket/list.txt");
}

TEST(Export, WhatJsonCannotHoldIsAnErrorAndNotLeftOut) {
  proto::LinkSpec spec = RichLink();
  spec.mutable_origin()->set_prefix("\xFF/");
  ScriptedSession session;
  session.Answer(Method::kGetLinks, LinksOf({spec}));
  session.Answer(Method::kListPins, proto::ListPinsReply());
  const Ran ran = RunForebay(session, {"export"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("no UTF-8"));
  EXPECT_EQ(ran.out, "");
}

/// The set `clip` of two links that differ in nothing but their sources.
std::vector<proto::LinkSpec> Clip() {
  std::vector<proto::LinkSpec> parts;
  for (const char* part : {"images", "labels"}) {
    proto::LinkSpec& spec = parts.emplace_back();
    spec.set_name(std::string("clip.") + part);
    spec.set_set("clip");
    spec.mutable_origin()->set_bucket(std::string(part) + "-bucket");
    spec.mutable_origin()->set_prefix("p/");
    spec.set_block_bytes(kDefaultBlockBytes);
    spec.set_quota_bytes(1 << 20);
  }
  return parts;
}

TEST(Export, ASetComesBackAsOneLinkRequestWithItsParts) {
  const Result<WantedState> wanted = ParseWanted(Exported(Clip()));
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  ASSERT_EQ(wanted->links.size(), 1u);
  const proto::LinkRequest& set = wanted->links[0];
  EXPECT_EQ(set.name(), "clip");
  EXPECT_EQ(set.quota_bytes(), std::uint64_t{1} << 20);
  ASSERT_EQ(set.parts_size(), 2);
  EXPECT_EQ(set.parts(0).name(), "images");
  EXPECT_EQ(set.parts(0).bucket(), "images-bucket");
  EXPECT_EQ(set.parts(1).name(), "labels");
  EXPECT_EQ(set.parts(1).prefix(), "p/");
}

TEST(Export, ASetWhosePartsDifferIsAnErrorAndNotHalfWritten) {
  std::vector<proto::LinkSpec> parts = Clip();
  parts[1].set_quota_bytes(2 << 20);
  ScriptedSession session;
  session.Answer(Method::kGetLinks, LinksOf(parts));
  session.Answer(Method::kListPins, proto::ListPinsReply());
  const Ran ran = RunForebay(session, {"export"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("the set 'clip' have different options"));
  EXPECT_EQ(ran.out, "");
}

class Apply : public ::testing::Test {
 protected:
  void TearDown() override { std::remove(file_.c_str()); }
  Ran Run(const std::string& text, const std::vector<std::string>& more = {}) {
    std::ofstream(file_) << text;
    std::vector<std::string> words = {"apply", "-f", file_};
    words.insert(words.end(), more.begin(), more.end());
    return RunForebay(session_, words);
  }
  const std::string file_ = ::testing::TempDir() + "forebay-apply-test.json";
  ScriptedSession session_;
};

constexpr const char* kTwoLinks = R"({
  // Comments are fine.
  "links": [{"name": "rich", "source": "s3://bkt/p/", "quota": "2MiB", "priority": "high"},
            {"name": "new", "source": "s3://bkt/n/"}],
  "pins": [{"target": "rich/train/", "until": "2088-01-01T00:00:00Z"},
           {"target": "new", "for-job": "j"}],
})";

void Present(ScriptedSession& session) {
  proto::LinkSpec rich;
  rich.set_name("rich");
  rich.set_quota_bytes(1 << 20);
  proto::LinkSpec other;
  other.set_name("other");
  session.Answer(Method::kGetLinks, LinksOf({rich, other}));
  session.Answer(Method::kLink, proto::LinkReply());
  proto::ListPinsReply pins;
  pins.add_pins()->set_target("rich/train");
  pins.add_pins()->set_target("other/x");
  session.Answer(Method::kListPins, pins);
}

constexpr const char* kDifference =
    "link 'rich': quota 2MiB, was 1MiB\n"
    "link 'rich': priority high, was normal\n"
    "link 'new' of s3://bkt/n/: new\n"
    "pin of rich/train/: until 2088-01-01T00:00:00Z, was for ever\n"
    "pin of new: new, for job j\n"
    "link 'other' is not in the file and stays\n"
    "pin of other/x is not in the file and stays\n";

TEST_F(Apply, ADryRunShowsTheDifferenceAndChangesNothing) {
  Present(session_);
  const Ran ran = Run(kTwoLinks, {"--dry-run"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.out,
            std::string(kDifference) + "5 changes to make; nothing was changed (--dry-run)\n");
  ASSERT_EQ(session_.calls(), 3u);
  const auto compared = session_.Asked<proto::LinkRequest>(1);
  EXPECT_TRUE(compared.dry_run());
  // What has a verb of its own is no reason to refuse.
  EXPECT_EQ(compared.quota_bytes(), std::uint64_t{1} << 20);
  EXPECT_EQ(compared.priority(), 0);
}

TEST_F(Apply, ChangesTheReplicasOfALinkThatIsThere) {
  Present(session_);
  session_.Answer(Method::kSetReplicas, proto::SetReplicasReply());
  const Ran ran = Run(R"({"links": [{"name": "rich", "source": "s3://bkt/p/", "quota": "1MiB",
                                     "replicas": 2}]})");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("link 'rich': 2 replicas, was 1\n"));
  const auto asked = session_.Asked<proto::SetReplicasRequest>(3);
  EXPECT_EQ(asked.name(), "rich");
  EXPECT_EQ(asked.replicas(), 2u);
}

TEST_F(Apply, MakesTheDifferenceAndWaitsForNewLinksBeforeItPins) {
  Present(session_);
  session_.Answer(Method::kSetQuota, proto::SetQuotaReply());
  session_.Answer(Method::kSetPriority, proto::SetPriorityReply());
  proto::LinkReply linked;
  linked.set_name("new");
  linked.set_task_id("t-1");
  session_.Answer(Method::kLink, linked);
  session_.AnswerTask(0, 0, 0);
  session_.AnswerTask(1, 4, 4);
  session_.Answer(Method::kPin, proto::PinReply());
  session_.Answer(Method::kPin, proto::PinReply());
  const Ran ran = Run(kTwoLinks);
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.out, kDifference);
  EXPECT_EQ(session_.Asked<proto::SetQuotaRequest>(3).quota_bytes(), std::uint64_t{2} << 20);
  EXPECT_FALSE(session_.Asked<proto::LinkRequest>(5).dry_run());
  EXPECT_EQ(session_.Asked<proto::PinRequest>(9).job(), "j");
}

TEST_F(Apply, ASetThatIsThereIsComparedAndOneThatIsNotIsMade) {
  const std::string text = Exported(Clip());
  session_.Answer(Method::kGetLinks, LinksOf(Clip()));
  session_.Answer(Method::kLink, proto::LinkReply());
  session_.Answer(Method::kListPins, proto::ListPinsReply());
  const Ran same = Run(text, {"--dry-run"});
  EXPECT_EQ(same.exit, 0) << same.err;
  EXPECT_THAT(same.out, ::testing::Not(HasSubstr("clip")));
  EXPECT_TRUE(session_.Asked<proto::LinkRequest>(1).dry_run());
  EXPECT_EQ(session_.Asked<proto::LinkRequest>(1).parts_size(), 2);
  session_.Answer(Method::kGetLinks, proto::GetLinksReply());
  session_.Answer(Method::kListPins, proto::ListPinsReply());
  EXPECT_THAT(Run(text, {"--dry-run"}).out, HasSubstr("set 'clip' of 2 links: new\n"));
}

TEST_F(Apply, TwiceIsNothingToChange) {
  session_.Answer(Method::kGetLinks, proto::GetLinksReply());
  session_.Answer(Method::kListPins, proto::ListPinsReply());
  const Ran ran = Run("{}");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.out, "nothing to change\n");
}

TEST_F(Apply, OneLinkThatCannotBeChangedLeavesAllAsItIs) {
  proto::LinkSpec rich;
  rich.set_name("rich");
  session_.Answer(Method::kGetLinks, LinksOf({rich}));
  session_.Refuse(Method::kLink,
                  Failure(Error{Code::kInvalid, "link 'rich' exists with other options (source)"}));
  session_.Answer(Method::kListPins, proto::ListPinsReply());
  const Ran ran = Run(kTwoLinks);
  EXPECT_EQ(ran.exit, 2);
  EXPECT_THAT(ran.err, HasSubstr("other options (source)"));
  EXPECT_THAT(ran.err, HasSubstr("nothing was changed"));
}

TEST_F(Apply, ABadFileIsRefusedBeforeAnybodyIsAsked) {
  const std::map<std::string, std::string> bad = {
      {"no json", "no JSON"},
      {"[]", "no JSON object"},
      {R"({"link": []})", "neither links nor pins"},
      {R"({"schema_version": 2})", "schema_version 2"},
      {R"({"links": {}})", "is a list"},
      {R"({"links": [{"source": "s3://bkt/p"}]})", "needs a \"name\""},
      {R"({"links": [{"name": "a", "source": "s3://bkt/p", "quote": "1MiB"}]})",
       "the nearest is \"quota\""},
      {R"({"links": [{"name": "a", "source": "s3://bkt/p", "quota": "much"}]})", "link 'a': quota"},
      {R"({"links": [{"name": "a", "source": "s3://bkt/p", "requester-pays": "yes"}]})",
       "true or false"},
      {R"({"links": [{"name": "a", "source": "s3://bkt/p"}, {"name": "a", "source": "s3://bkt/p"}]})",
       "twice"},
      {R"({"pins": [{"until": "2088-01-01T00:00:00Z"}]})", "needs a \"target\""},
      {R"({"pins": [{"target": "a", "until": "soon"}]})", "is no time"},
      {R"({"pins": [{"target": "a", "ttl": "1d"}]})", "not \"ttl\""}};
  for (const auto& [text, why] : bad) {
    const Ran ran = Run(text);
    EXPECT_EQ(ran.exit, 2) << text;
    EXPECT_THAT(ran.err, HasSubstr(why)) << text;
  }
  EXPECT_EQ(session_.calls(), 0u);
}

}  // namespace
}  // namespace forebay::testing
