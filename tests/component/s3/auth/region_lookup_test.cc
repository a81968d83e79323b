#include "common/s3/auth/region_lookup.h"

#include "tests/component/s3/auth/auth_fixture.h"

namespace forebay {
namespace {

class RegionLookup : public AuthTest {
 protected:
  LinkOrigin Data() {
    LinkOrigin origin;
    origin.bucket = "data";
    origin.endpoint = server_.endpoint();
    return origin;
  }
  void Answers(int status, const std::string& region) {
    server_.SetHandler([=](const Seen&) {
      Answer answer = Of(status);
      if (!region.empty()) answer.headers = {{"x-amz-bucket-region", region}};
      return answer;
    });
  }
};

TEST_F(RegionLookup, AnyAnswerOfTheBucketMaySayWhereItIs) {
  for (const int status : {200, 301, 400, 403}) {
    Answers(status, "eu-west-1");
    EXPECT_EQ(BucketRegion(Data(), "", {}), "eu-west-1") << status;
  }
  const Seen seen = server_.requests().at(0);
  EXPECT_EQ(seen.method, "HEAD");
  EXPECT_EQ(seen.target, "/data");
  EXPECT_EQ(seen.Header("authorization"), "");
}

TEST_F(RegionLookup, WhatIsNoRegionIsNotBelieved) {
  Answers(200, "");
  EXPECT_EQ(BucketRegion(Data(), "", {}), std::nullopt);
  Answers(200, "a/b.evil.example");
  EXPECT_EQ(BucketRegion(Data(), "", {}), std::nullopt);
  LinkOrigin nowhere = Data();
  nowhere.endpoint = "http://127.0.0.1:1";
  EXPECT_EQ(BucketRegion(nowhere, "", {}), std::nullopt);
}

TEST_F(RegionLookup, ALinkTakesTheBucketsRegionWhereNobodySaysOne) {
  Answers(403, "eu-west-1");
  const AwsEnvironment environment(variables_);
  const Result<LinkOrigin> origin =
      CompleteOrigin(Data(), std::nullopt, environment, NetworkRegionSources(environment, ""));
  ASSERT_TRUE(origin) << origin.error().message;
  EXPECT_EQ(origin->region, "eu-west-1");
  EXPECT_EQ(origin->endpoint, server_.endpoint());
}

}  // namespace
}  // namespace forebay
