#include "common/s3/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/s3/temp_files.h"

namespace forebay {
namespace {

using testing::HasSubstr;

LinkOrigin Of(std::string bucket, std::string endpoint = "", std::string region = "",
              std::string profile = "") {
  LinkOrigin origin;
  origin.bucket = std::move(bucket);
  origin.endpoint = std::move(endpoint);
  origin.region = std::move(region);
  origin.profile = std::move(profile);
  return origin;
}

class CompleteOriginTest : public testing::Test {
 protected:
  LinkOrigin Complete(AwsEnvironment::Variables variables, LinkOrigin partial = {},
                      std::optional<bool> path_style = std::nullopt) {
    if (partial.bucket.empty()) partial.bucket = "data";
    variables.try_emplace("AWS_CONFIG_FILE", files_.Path("config"));
    variables.try_emplace("AWS_SHARED_CREDENTIALS_FILE", files_.Path("credentials"));
    Result<LinkOrigin> origin = CompleteOrigin(std::move(partial), path_style,
                                               AwsEnvironment(std::move(variables)), sources_);
    EXPECT_TRUE(origin) << origin.error().message;
    return origin.value_or(LinkOrigin{});
  }
  std::string Refused(LinkOrigin partial, std::optional<bool> path_style = std::nullopt) {
    const AwsEnvironment environment({{"HOME", files_.Path("")}});
    const Result<LinkOrigin> origin =
        CompleteOrigin(std::move(partial), path_style, environment, sources_);
    EXPECT_FALSE(origin.has_value());
    if (origin) return "";
    EXPECT_EQ(origin.error().code, Code::kInvalid);
    return origin.error().message;
  }

  TempFiles files_;
  RegionSources sources_;  // without any: nobody else knows a region
};

TEST_F(CompleteOriginTest, WithNothingSetItIsAws) {
  const LinkOrigin origin = Complete({});
  EXPECT_EQ(origin.region, "us-east-1");
  EXPECT_EQ(origin.endpoint, "https://s3.us-east-1.amazonaws.com");
  EXPECT_FALSE(origin.path_style);
}

TEST_F(CompleteOriginTest, RegionsComeInOrder) {
  files_.Write("config", "[default]\nregion = of-profile\n");
  EXPECT_EQ(Complete({}).region, "of-profile");
  EXPECT_EQ(Complete({{"AWS_DEFAULT_REGION", "second"}}).region, "second");
  const AwsEnvironment::Variables both = {{"AWS_DEFAULT_REGION", "second"},
                                          {"AWS_REGION", "first"}};
  EXPECT_EQ(Complete(both).region, "first");
  EXPECT_EQ(Complete(both, Of("b", "", "given")).region, "given");
  EXPECT_EQ(Complete({}, Of("b", "", "cn-north-1")).endpoint,
            "https://s3.cn-north-1.amazonaws.com.cn");
}

TEST_F(CompleteOriginTest, EndpointsComeInOrder) {
  files_.Write("config", "[default]\nendpoint_url = http://profile\n");
  EXPECT_EQ(Complete({}).endpoint, "http://profile");
  files_.Write("config",
               "[default]\nendpoint_url = http://profile\nservices = s\n[services s]\n"
               "s3 =\n  endpoint_url = http://service\n");
  EXPECT_EQ(Complete({}).endpoint, "http://service");
  AwsEnvironment::Variables variables = {{"AWS_ENDPOINT_URL", "http://all"}};
  EXPECT_EQ(Complete(variables).endpoint, "http://all");
  variables["AWS_ENDPOINT_URL_S3"] = "http://s3";
  EXPECT_EQ(Complete(variables).endpoint, "http://s3");
  EXPECT_EQ(Complete(variables, Of("b", "HTTPS://Given:443/")).endpoint, "https://given");
}

TEST_F(CompleteOriginTest, TheStyleFollowsEndpointAndBucket) {
  EXPECT_FALSE(Complete({}, Of("plain-bucket")).path_style);
  EXPECT_TRUE(Complete({}, Of("with.dots")).path_style);
  EXPECT_TRUE(Complete({}, Of("Old_Style")).path_style);
  EXPECT_TRUE(Complete({}, Of("b", "http://127.0.0.1:7480")).path_style);
  EXPECT_TRUE(Complete({}, Of("b", "http://localhost:7480")).path_style);
  EXPECT_TRUE(Complete({}, Of("b", "https://minio.lab")).path_style);
  EXPECT_FALSE(Complete({}, Of("b", "https://minio.lab"), false).path_style);
  EXPECT_TRUE(Complete({}, {}, true).path_style);
}

TEST_F(CompleteOriginTest, ConfiguredEndpointsCanBeIgnored) {
  AwsEnvironment::Variables variables = {{"AWS_ENDPOINT_URL_S3", "http://s3"},
                                         {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "TRUE"}};
  EXPECT_EQ(Complete(variables).endpoint, "https://s3.us-east-1.amazonaws.com");
  EXPECT_EQ(Complete(variables, Of("b", "http://given")).endpoint, "http://given");
  files_.Write("config",
               "[default]\nendpoint_url = http://p\n"
               "ignore_configured_endpoint_urls = true\n");
  EXPECT_EQ(Complete({}).endpoint, "https://s3.us-east-1.amazonaws.com");
  EXPECT_EQ(Complete({{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "false"}}).endpoint, "http://p");
}

TEST_F(CompleteOriginTest, DualStackAndFipsChangeAwssOwnEndpointAlone) {
  EXPECT_EQ(Complete({{"AWS_USE_DUALSTACK_ENDPOINT", "true"}}).endpoint,
            "https://s3.dualstack.us-east-1.amazonaws.com");
  EXPECT_EQ(Complete({{"AWS_USE_FIPS_ENDPOINT", "true"}}).endpoint,
            "https://s3-fips.us-east-1.amazonaws.com");
  files_.Write("config", "[default]\nuse_dualstack_endpoint = true\nregion = eu-west-1\n");
  EXPECT_EQ(Complete({}).endpoint, "https://s3.dualstack.eu-west-1.amazonaws.com");
  EXPECT_FALSE(Complete({}).path_style);
  EXPECT_EQ(Complete({}, Of("b", "http://minio")).endpoint, "http://minio");
}

TEST_F(CompleteOriginTest, TheEnvironmentSwitchesOffWhatTheProfileSwitchesOn) {
  files_.Write("config", "[default]\nuse_dualstack_endpoint = true\nuse_fips_endpoint = TRUE\n");
  EXPECT_EQ(Complete({}).endpoint, "https://s3-fips.dualstack.us-east-1.amazonaws.com");
  EXPECT_EQ(Complete({{"AWS_USE_DUALSTACK_ENDPOINT", "false"}}).endpoint,
            "https://s3-fips.us-east-1.amazonaws.com");
  EXPECT_EQ(Complete({{"AWS_USE_FIPS_ENDPOINT", "False"}}).endpoint,
            "https://s3.dualstack.us-east-1.amazonaws.com");
}

TEST_F(CompleteOriginTest, TheProfileMayAskForAStyle) {
  files_.Write("config", "[default]\ns3 =\n  addressing_style = path\n");
  EXPECT_TRUE(Complete({}).path_style);
  EXPECT_FALSE(Complete({}, {}, false).path_style);
  files_.Write("config", "[default]\ns3 =\n  addressing_style = virtual\n");
  EXPECT_FALSE(Complete({}, Of("b", "https://minio.lab")).path_style);
}

TEST_F(CompleteOriginTest, TheInstanceKnowsItsRegionWhenNobodySaysOne) {
  sources_.instance = [] { return std::optional<std::string>("eu-north-1"); };
  EXPECT_EQ(Complete({}).endpoint, "https://s3.eu-north-1.amazonaws.com");
  EXPECT_EQ(Complete({{"AWS_REGION", "us-west-2"}}).region, "us-west-2");
  EXPECT_EQ(Complete({}, Of("b", "http://minio")).region, "us-east-1");
}

TEST_F(CompleteOriginTest, TheBucketIsBelievedWhereItLies) {
  std::vector<std::string> asked;
  sources_.bucket = [&](const LinkOrigin& origin) {
    asked.push_back(origin.endpoint);
    return std::optional<std::string>("ap-south-1");
  };
  EXPECT_EQ(Complete({}).endpoint, "https://s3.ap-south-1.amazonaws.com");
  EXPECT_EQ(Complete({{"AWS_REGION", "us-west-2"}}).region, "ap-south-1");
  EXPECT_EQ(Complete({}, Of("b", "http://minio")).region, "ap-south-1");
  EXPECT_THAT(asked, testing::ElementsAre("https://s3.us-east-1.amazonaws.com",
                                          "https://s3.us-west-2.amazonaws.com", "http://minio"));
  asked.clear();
  EXPECT_EQ(Complete({}, Of("b", "", "us-west-2")).region, "us-west-2");
  EXPECT_EQ(Complete({{"AWS_REGION", "lab"}}, Of("b", "http://minio")).region, "lab");
  EXPECT_TRUE(asked.empty()) << "a given region stands";
}

TEST_F(CompleteOriginTest, TheBucketIsBelievedAtAnyEndpointOfAmazonsToo) {
  std::vector<std::string> asked;
  sources_.bucket = [&](const LinkOrigin& origin) {
    asked.push_back(origin.endpoint);
    return std::optional<std::string>("ap-south-1");
  };
  const std::string endpoint = "https://s3.ap-south-1.amazonaws.com";
  const LinkOrigin origin = Complete({{"AWS_REGION", "us-west-2"}}, Of("b", endpoint));
  EXPECT_EQ(origin.region, "ap-south-1");
  EXPECT_EQ(origin.endpoint, endpoint);
  EXPECT_THAT(asked, testing::ElementsAre(endpoint));
  EXPECT_EQ(Complete({}, Of("b", endpoint, "us-west-2")).region, "us-west-2");
  const LinkOrigin other =
      Complete({{"AWS_REGION", "us-west-2"}}, Of("b", "https://s3.amazonaws.com.lab"));
  EXPECT_EQ(other.region, "us-west-2") << "it only looks like it";
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(CompleteOriginTest, WhatIsNoPlainBucketIsRefused) {
  EXPECT_THAT(Refused(Of("fast--use1-az4--x-s3")), HasSubstr("directory bucket"));
  EXPECT_THAT(Refused(Of("arn:aws:s3:us-west-2:123456789012:accesspoint")), HasSubstr("ARN"));
}

TEST_F(CompleteOriginTest, RefusesWhatCannotWork) {
  EXPECT_THAT(Refused(Of("b", "", "", "nobody")), HasSubstr("no profile 'nobody'"));
  EXPECT_THAT(Refused(Of("b", "", "a/b")), HasSubstr("is no region"));
  EXPECT_THAT(Refused(Of("b", "minio:9000")), HasSubstr("http://"));
  EXPECT_THAT(Refused(Of("b", "http://10.0.0.1"), false), HasSubstr("use path style"));
}

TEST(ParseEndpoint, TakesHostsPortsAddressesAndPaths) {
  const Result<Endpoint> v6 = ParseEndpoint("http://[::1]:7480");
  ASSERT_TRUE(v6) << v6.error().message;
  EXPECT_EQ(v6->authority, "[::1]:7480");
  EXPECT_EQ(v6->host, "::1");
  EXPECT_TRUE(v6->IsLoopback());
  EXPECT_TRUE(v6->IsIpAddress());
  const Result<Endpoint> based = ParseEndpoint("https://Store.example/storage/v1/s3/");
  ASSERT_TRUE(based) << based.error().message;
  EXPECT_EQ(based->authority, "store.example");
  EXPECT_EQ(based->base_path, "/storage/v1/s3");
  EXPECT_FALSE(based->IsLoopback());
  EXPECT_TRUE(ParseEndpoint("https://s3.eu-west-1.amazonaws.com")->IsAmazon());
}

// What AWS's own SDK answers for one region of each partition (botocore 1.43.11: partitions.json
// and the endpoint rules of s3 and sts).
struct PartitionCase {
  const char* region;
  const char* s3;
  const char* s3_dual_stack;
  const char* sts;
  const char* sts_dual_stack;
};
constexpr PartitionCase kPartitions[] = {
    {"eu-west-1", "https://s3.eu-west-1.amazonaws.com",
     "https://s3.dualstack.eu-west-1.amazonaws.com", "https://sts.eu-west-1.amazonaws.com",
     "https://sts.eu-west-1.api.aws"},
    {"cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn",
     "https://s3.dualstack.cn-north-1.amazonaws.com.cn", "https://sts.cn-north-1.amazonaws.com.cn",
     "https://sts.cn-north-1.api.amazonwebservices.com.cn"},
    {"us-gov-west-1", "https://s3.us-gov-west-1.amazonaws.com",
     "https://s3.dualstack.us-gov-west-1.amazonaws.com", "https://sts.us-gov-west-1.amazonaws.com",
     "https://sts.us-gov-west-1.api.aws"},
    {"us-iso-east-1", "https://s3.us-iso-east-1.c2s.ic.gov",
     "https://s3.dualstack.us-iso-east-1.c2s.ic.gov", "https://sts.us-iso-east-1.c2s.ic.gov",
     "https://sts.us-iso-east-1.api.aws.ic.gov"},
    {"us-isob-east-1", "https://s3.us-isob-east-1.sc2s.sgov.gov",
     "https://s3.dualstack.us-isob-east-1.sc2s.sgov.gov",
     "https://sts.us-isob-east-1.sc2s.sgov.gov", "https://sts.us-isob-east-1.api.aws.scloud"},
    {"us-isof-south-1", "https://s3.us-isof-south-1.csp.hci.ic.gov",
     "https://s3.dualstack.us-isof-south-1.csp.hci.ic.gov",
     "https://sts.us-isof-south-1.csp.hci.ic.gov",
     "https://sts.us-isof-south-1.api.aws.hci.ic.gov"},
    {"eu-isoe-west-1", "https://s3.eu-isoe-west-1.cloud.adc-e.uk",
     "https://s3.dualstack.eu-isoe-west-1.cloud.adc-e.uk",
     "https://sts.eu-isoe-west-1.cloud.adc-e.uk",
     "https://sts.eu-isoe-west-1.api.cloud-aws.adc-e.uk"},
    {"eusc-de-east-1", "https://s3.eusc-de-east-1.amazonaws.eu",
     "https://s3.dualstack.eusc-de-east-1.amazonaws.eu", "https://sts.eusc-de-east-1.amazonaws.eu",
     "https://sts.eusc-de-east-1.api.amazonwebservices.eu"},
    // A region that nobody knows yet.
    {"xx-new-1", "https://s3.xx-new-1.amazonaws.com", "https://s3.dualstack.xx-new-1.amazonaws.com",
     "https://sts.xx-new-1.amazonaws.com", "https://sts.xx-new-1.api.aws"},
};

TEST(AwsEndpoint, EachPartitionHasItsDomain) {
  for (const PartitionCase& known : kPartitions) {
    EXPECT_EQ(AwsEndpoint("s3", known.region, {}), known.s3);
    EXPECT_EQ(AwsEndpoint("s3", known.region, {.dual_stack = true}), known.s3_dual_stack);
    EXPECT_EQ(AwsEndpoint("sts", known.region, {}), known.sts);
    EXPECT_EQ(AwsEndpoint("sts", known.region, {.dual_stack = true}), known.sts_dual_stack);
  }
}

TEST(AwsEndpoint, FipsHasNamesOfItsOwnButAtGovCloudsSts) {
  EXPECT_EQ(AwsEndpoint("s3", "us-gov-east-1", {.fips = true}),
            "https://s3-fips.us-gov-east-1.amazonaws.com");
  EXPECT_EQ(AwsEndpoint("s3", "us-iso-east-1", {.dual_stack = true, .fips = true}),
            "https://s3-fips.dualstack.us-iso-east-1.c2s.ic.gov");
  EXPECT_EQ(AwsEndpoint("sts", "us-east-1", {.fips = true}),
            "https://sts-fips.us-east-1.amazonaws.com");
  EXPECT_EQ(AwsEndpoint("sts", "us-east-1", {.dual_stack = true, .fips = true}),
            "https://sts-fips.us-east-1.api.aws");
  EXPECT_EQ(AwsEndpoint("sts", "us-gov-east-1", {.fips = true}),
            "https://sts.us-gov-east-1.amazonaws.com");
  EXPECT_EQ(AwsEndpoint("sts", "us-gov-east-1", {.dual_stack = true, .fips = true}),
            "https://sts-fips.us-gov-east-1.api.aws");
}

TEST(AwsEndpoint, WhatIsInferredIsAmazonsAndWhatOnlyLooksLikeItIsNot) {
  for (const PartitionCase& known : kPartitions) {
    for (const char* url : {known.s3, known.s3_dual_stack, known.sts, known.sts_dual_stack}) {
      const Result<Endpoint> endpoint = ParseEndpoint(url);
      ASSERT_TRUE(endpoint) << endpoint.error().message;
      EXPECT_TRUE(endpoint->IsAmazon()) << url;
      EXPECT_FALSE(ParseEndpoint(std::string(url) + ".example.com")->IsAmazon()) << url;
    }
  }
  for (const char* url :
       {"https://amazonaws.eu", "https://api.aws", "https://s3.notamazonaws.com",
        "https://s3.eu-west-1.amazonaws.com.evil", "https://s3.amazonaws.de", "https://s3.ic.gov",
        "https://s3.aws", "https://s3.adc-e.uk", "https://c2s.ic.gov.example"}) {
    EXPECT_FALSE(ParseEndpoint(url)->IsAmazon()) << url;
  }
}

TEST_F(CompleteOriginTest, BucketsOfEveryPartitionAreInTheHostName) {
  for (const PartitionCase& known : kPartitions) {
    const LinkOrigin origin = Complete({{"AWS_REGION", known.region}});
    EXPECT_EQ(origin.endpoint, known.s3);
    EXPECT_FALSE(origin.path_style) << known.region;
  }
}

TEST(ParseEndpoint, RefusesEverythingElse) {
  for (const char* text : {"", "host", "ftp://host", "http://", "http:///path", "http://user@host",
                           "http://host:0", "http://host:65536", "http://host:x", "http://[::1",
                           "http://[zz]", "http://ho st", "http://host/?q", "http://host/#f",
                           "http://host/a b", "http://-host", "http://host\r\nx: y"}) {
    const Result<Endpoint> parsed = ParseEndpoint(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
  }
}

}  // namespace
}  // namespace forebay
