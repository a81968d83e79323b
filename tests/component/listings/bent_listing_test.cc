// Listings of an S3 that plays games with its pages, and a GET that brings another version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/units.h"
#include "coordinator/name_lister.h"
#include "coordinator/range_lister.h"
#include "tests/component/s3/s3_fixture.h"
#include "tests/fakes/s3_script.h"

namespace forebay {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class KeySink final : public RangeSink {
 public:
  Status Begin(const ListedRange&) override { return {}; }
  Status Drop(std::uint32_t) override { return {}; }
  Status SetEnd(std::uint32_t, const std::string&) override { return {}; }
  Status Pass(std::uint32_t, const std::string&) override { return {}; }
  Status Finish(std::uint32_t, const std::optional<std::string>&) override { return {}; }
  Status Add(std::uint32_t, std::span<const ListedObject> objects) override {
    for (const ListedObject& object : objects) {
      keys.push_back(object.key);
      if (object.etag.empty()) unreadable.push_back(object.key);
    }
    return {};
  }
  std::vector<std::string> keys;
  std::vector<std::string> unreadable;
};

class BentListingTest : public S3ClientTest {
 protected:
  BentListingTest() {
    for (int i = 0; i < 20; ++i) {
      keys_.push_back("p/" + std::to_string(100 + i));
      server_.Put("data", keys_.back(), "x");
    }
    server_.SetHandler([this](const auto& seen) { return script_.AnswerTo(seen); });
  }

  /// `do` of S3Script, for so many LISTs behind the first `skip`.
  void Bend(const std::string& what, int times, int skip = 0) {
    ASSERT_TRUE(script_.Set(R"({"rules": [{"do": ")" + what + R"(", "op": "LIST", "times": )" +
                            std::to_string(times) + R"(, "skip": )" + std::to_string(skip) +
                            "}]}"));
  }

  Status ListRange(KeySink& sink, S3Wait wait = {}) {
    RangeLister::Job job;
    job.origin = Origin();
    job.prefix = "p/";
    RangeListerOptions options;
    options.page_keys = 7;
    options.ranges = 1;
    options.wait = std::move(wait);
    const auto lister = RangeLister::Create(Client(), std::move(job), std::move(options), sink, {},
                                            [](std::uint64_t, std::uint64_t) {});
    return fakes::RunTask(lister->Run());
  }

  fakes::S3Script script_{server_};
  std::vector<std::string> keys_;
};

TEST_F(BentListingTest, AnEmptyPageHidesNoKeyBehindIt) {
  Bend("empty_page", 1);
  KeySink sink;
  const Status listed = ListRange(sink);
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(sink.keys, keys_);
  EXPECT_THAT(script_.Counts(), HasSubstr(R"("made":1)"));
  EXPECT_EQ(Retries(RetryReason::kBadAnswer), 0U) << "it is a good answer";
}

TEST_F(BentListingTest, AnEmptyPageMakesNoNameMissing) {
  Bend("empty_page", 1);
  NameLister::Job job{.origin = Origin(), .prefix = "p/", .keys = keys_};
  KeySink sink;
  const auto lister = NameLister::Create(Client(), std::move(job), {}, sink, {},
                                         [](std::uint64_t, std::uint64_t) {});
  const Status listed = fakes::RunTask(lister->Run());
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(sink.keys, keys_);
  EXPECT_THAT(script_.Counts(), HasSubstr(R"("made":1)"));
  EXPECT_EQ(Retries(RetryReason::kBadAnswer), 0U);
}

TEST_F(BentListingTest, AnObjectThatIsListedWronglyIsHiddenAloneOnceThatIsSure) {
  for (const int times : {1, 1000}) {
    std::atomic<int> left = times;
    server_.SetHandler([&](const auto& seen) -> std::optional<fakes::S3Answer> {
      fakes::S3Answer answer = server_.Truth(seen);
      const std::size_t key = answer.body.find("p/105");
      if (key == std::string::npos || --left < 0) return std::nullopt;
      const std::size_t size = answer.body.find("<Size>", key);
      answer.body.replace(size, 7, "<Size>-");
      return answer;
    });
    KeySink sink;
    const Status listed = ListRange(sink);
    ASSERT_TRUE(listed) << listed.error().message;
    EXPECT_EQ(sink.keys, keys_);
    EXPECT_EQ(sink.unreadable,
              times == 1 ? std::vector<std::string>{} : std::vector<std::string>{"p/105"});
  }
}

TEST_F(BentListingTest, ATruncatedPageWithoutATokenIsAskedForAgain) {
  Bend("no_token", 2, 1);
  KeySink sink;
  const Status listed = ListRange(sink);
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(sink.keys, keys_);
  EXPECT_THAT(script_.Counts(), HasSubstr(R"("made":2)"));
}

TEST_F(BentListingTest, APageThatNamesItselfAsTheNextOneIsNeverTheEnd) {
  Bend("repeat_page", 1000, 1);
  KeySink sink;
  const Status listed = ListRange(sink);
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::kCorrupt);
  EXPECT_THAT(listed.error().message, HasSubstr("its next page is the page itself"));
}

TEST_F(BentListingTest, AnOutageIsWaitedForAndTheListingGoesOnWhereItWas) {
  ASSERT_TRUE(script_.Set(R"({"rules": [{"do": "hang_up", "op": "LIST", "skip": 1}]})"));
  std::vector<std::string> said;
  S3Wait wait;
  wait.patience = kForever;
  wait.say_after = std::chrono::milliseconds(50);
  wait.say = [&](const Error* why) {
    said.push_back(why == nullptr ? "goes on" : why->message);
    // S3 is back; counts begin anew.
    if (said.size() == 3) ASSERT_TRUE(script_.Set("{}"));
  };
  KeySink sink;
  const Status listed = ListRange(sink, wait);
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(sink.keys, keys_);
  ASSERT_GE(said.size(), 4U) << "a slow machine waits and says more";
  EXPECT_THAT(said[0], HasSubstr("LIST of s3://data/p/"));
  EXPECT_EQ(said.back(), "goes on");
  // A request may be on its way when S3 comes back: it is counted then, and is not answered.
  EXPECT_THAT(script_.Counts(),
              AnyOf(HasSubstr(R"("requests":{"LIST":2})"), HasSubstr(R"("requests":{"LIST":3})")))
      << "of three pages the first came before the outage";
}

TEST_F(BentListingTest, PatienceThatIsOverEndsTheListingWithWhatS3Said) {
  ASSERT_TRUE(script_.Set(R"({"rules": [{"do": "status", "status": 500, "op": "LIST"}]})"));
  S3Wait wait;
  wait.patience = std::chrono::seconds(1);
  wait.say_after = std::chrono::milliseconds(20);
  bool goes_on = false;
  wait.say = [&](const Error* why) { goes_on = why == nullptr; };
  KeySink sink;
  const Status listed = ListRange(sink, wait);
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::kUnavailable);
  EXPECT_THAT(listed.error().message, HasSubstr("S3 answered 500"));
  EXPECT_TRUE(goes_on) << "nobody waits any more";
}

TEST_F(BentListingTest, AnAnswerWithTheTagOfAnotherVersionLeavesNoByte) {
  const GetRequest request = Stored("object", "0123456789", 2, 5);
  ASSERT_TRUE(script_.Set(R"({"rules": [{"do": "wrong_etag", "op": "GET", "times": 1}]})"));
  TextSink sink;
  EXPECT_EQ(Get(request, sink).error().code, Code::kStale);
  EXPECT_EQ(sink.attempts, 0);
  EXPECT_THAT(script_.Counts(), HasSubstr(R"("made":1)"));
}

}  // namespace
}  // namespace forebay
