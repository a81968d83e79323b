#include "cachenode/old_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "cachenode/origin.h"
#include "common/s3/version_search.h"
#include "tests/fakes/run_task.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/scripted_object_store.h"

namespace forebay {
namespace {

using fakes::GetScript;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kBlock = 256 * 1024;
constexpr std::uint64_t kSize = 3 * kBlock;

/// What came of it.
class CountingSink final : public BodySink {
 public:
  void OnAttempt() override { bytes = 0; }
  void OnData(ByteView data) override { bytes += data.size(); }
  std::uint64_t bytes = 0;
};

/// An object that was overwritten or deleted after its link was made: GETs without a version id are
/// refused, those of a version bring its bytes.
class OldVersionsTest : public testing::Test {
 protected:
  OldVersionsTest() {
    link_.id = Uuid::Random();
    link_.origin.bucket = "bucket";
    link_.refresh = RefreshPolicy::kImmutable;
    s3_.OnGet([this](const GetRequest& request) {
      GetScript script;
      if (request.version.empty()) script.error = now_;
      if (request.version == gone_) script.error = Error{Code::kNotFound, "404 NoSuchVersion"};
      if (!request.version.empty() && refused_) script.error = *refused_;
      return script;
    });
    s3_.OnVersions([](const VersionsRequest& request) -> Result<VersionPage> {
      VersionPage page;
      if (request.continuation.empty()) {
        page.versions = {{"new", kSize, "other"}, {"short", kSize - 1, Etag()}};
        page.next = "short";
      } else {
        page.versions = {{"right", kSize, Etag()}, {"same", kSize, Etag()}};
      }
      return page;
    });
  }
  static std::string Etag() { return fakes::SampleLink::EtagOf("k"); }

  Origin::Question QuestionFor(std::uint64_t block) const {
    ObjectRef object;
    object.key = "k";
    object.etag = Etag();
    object.size = kSize;
    const ObjectVersion version = VersionOf(link_, "k", Etag(), kSize);
    const BlockId id = BlockAt(version, kSize, kBlock, block * kBlock);
    return {std::make_shared<const LinkSpec>(link_), object, id, {0, id.length}};
  }
  Status Get(std::uint64_t block = 0) {
    return fakes::RunTask(origin_.Get(QuestionFor(block), sink_, count_, {},
                                      Deadline::After(std::chrono::seconds(20))));
  }
  void ExpectStale(const std::string& why) {
    const Status got = Get();
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code, Code::kStale) << got.error().message;
    EXPECT_THAT(got.error().message, AllOf(HasSubstr(now_.message), HasSubstr(why)));
  }
  void AnswerVersions(Error error) {
    s3_.OnVersions([error](const VersionsRequest&) -> Result<VersionPage> { return Fail(error); });
  }

  LinkSpec link_;
  fakes::ScriptedObjectStore s3_;
  ChangedObjects changed_;
  int reports_ = 0;
  Origin origin_{s3_, changed_, [this] { ++reports_; }};
  CountingSink sink_;
  std::shared_ptr<LinkCount> count_ = std::make_shared<LinkCount>();
  Error now_{Code::kStale, "412: the object has changed"};
  std::string gone_ = "none";
  std::optional<Error> refused_;
};

TEST_F(OldVersionsTest, WhatWasOverwrittenIsReadAsItWas) {
  ASSERT_TRUE(Get());
  EXPECT_EQ(sink_.bytes, kBlock);
  EXPECT_EQ(s3_.last()->version, "right") << "the first of ETag and size, on the second page";
  EXPECT_EQ(s3_.last()->etag, Etag());
  EXPECT_EQ(s3_.version_lists(), 2u);
  EXPECT_EQ(s3_.gets(), 2u);
  EXPECT_EQ(reports_, 0) << "nothing is stale";
}

TEST_F(OldVersionsTest, WhatWasDeletedIsReadAsItWas) {
  now_ = Error{Code::kNotFound, "404 NoSuchKey"};
  ASSERT_TRUE(Get());
  EXPECT_EQ(s3_.last()->version, "right");
}

TEST_F(OldVersionsTest, FurtherBlocksCostOneGetEach) {
  ASSERT_TRUE(Get(0));
  ASSERT_TRUE(Get(1));
  ASSERT_TRUE(Get(2));
  EXPECT_EQ(s3_.version_lists(), 2u);
  EXPECT_EQ(s3_.gets(), 4u);
}

TEST_F(OldVersionsTest, BlocksThatAreMissingTogetherAskOnce) {
  asio::io_context context(1);
  std::vector<CountingSink> sinks(3);
  std::vector<std::future<Status>> gets;
  for (std::uint64_t block = 0; block < sinks.size(); ++block) {
    gets.push_back(asio::co_spawn(context,
                                  origin_.Get(QuestionFor(block), sinks[block], count_, {},
                                              Deadline::After(std::chrono::seconds(20))),
                                  asio::use_future));
  }
  context.run();
  for (std::future<Status>& get : gets) EXPECT_TRUE(get.get().has_value());
  EXPECT_EQ(s3_.version_lists(), 2u);
}

TEST_F(OldVersionsTest, OtherLinksAskForNoVersions) {
  link_.refresh = RefreshPolicy::kOnDemand;
  ExpectStale("");
  EXPECT_EQ(s3_.version_lists(), 0u);
  EXPECT_EQ(reports_, 1);
}

TEST_F(OldVersionsTest, WithoutOneTheReaderHearsWhyAndS3IsNotAskedAgainAtOnce) {
  s3_.OnVersions({});
  ExpectStale("keeps no version of it with ETag " + Etag());
  ExpectStale("while versioning is on");
  EXPECT_EQ(s3_.version_lists(), 1u);
  EXPECT_EQ(reports_, 1);
}

TEST_F(OldVersionsTest, EndlessPagesAreNotFollowedForEver) {
  int page = 0;
  s3_.OnVersions([&](const VersionsRequest&) -> Result<VersionPage> {
    return VersionPage{.versions = {}, .next = std::to_string(++page)};
  });
  ExpectStale("newest pages of versions");
  EXPECT_EQ(page, kMostHistoryPages);
}

TEST_F(OldVersionsTest, AMissingRightIsNoOtherErrorThanStale) {
  AnswerVersions(Error{Code::kDenied, "403: allow s3:ListBucketVersions"});
  ExpectStale("s3:ListBucketVersions");
}

TEST_F(OldVersionsTest, AVersionThatMayNotBeReadNamesItsRight) {
  refused_ = Error{Code::kDenied, "403: allow s3:GetObjectVersion"};
  for (int read = 0; read < 2; ++read) {
    const Status got = Get();
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code, Code::kStale) << "also once its id is known";
    EXPECT_THAT(got.error().message,
                AllOf(HasSubstr("the object has changed"), HasSubstr("s3:GetObjectVersion")));
  }
  EXPECT_EQ(s3_.version_lists(), 2u);
}

TEST_F(OldVersionsTest, AnS3ThatIsAwayHasNotSaidThatItIsGone) {
  AnswerVersions(Error{Code::kUnavailable, "nobody answers"});
  const Status away = Get();
  ASSERT_FALSE(away.has_value());
  EXPECT_EQ(away.error().code, Code::kUnavailable);
  EXPECT_EQ(reports_, 0);
  AnswerVersions(Error{Code::kOverloaded, "slow down"});
  EXPECT_EQ(Get().error().code, Code::kOverloaded) << "it was asked again";
}

TEST_F(OldVersionsTest, AVersionThatIsRemovedLaterIsLookedForAnew) {
  ASSERT_TRUE(Get(0));
  gone_ = "right";
  const Status got = Get(1);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, Code::kStale);
  gone_ = "none";
  EXPECT_TRUE(Get(1));
  EXPECT_EQ(s3_.version_lists(), 4u);
}

TEST(OldVersions, RemembersSoManyAndNoMore) {
  fakes::ScriptedObjectStore s3;
  s3.OnVersions([](const VersionsRequest&) -> Result<VersionPage> {
    return VersionPage{.versions = {{"v", 1, "e"}}, .next = {}};
  });
  OldVersions versions(s3);
  const auto object = [](std::size_t i) {
    return OldVersions::Object{.link = Uuid(), .key = std::to_string(i), .etag = "e"};
  };
  for (std::size_t i = 0; i <= OldVersions::kMost; ++i) {
    OldVersions::Question question;
    question.object = object(i);
    question.size = 1;
    ASSERT_TRUE(fakes::RunTask(
        versions.Find(std::move(question), Deadline::After(std::chrono::seconds(20)))));
  }
  EXPECT_EQ(versions.Known(object(0)), "") << "the oldest gave way";
  EXPECT_EQ(versions.Known(object(1)), "v");
  EXPECT_EQ(versions.Known(object(OldVersions::kMost)), "v");
}

}  // namespace
}  // namespace forebay
