#include "coordinator/link_options.h"

#include <gtest/gtest.h>

#include "common/model/limits.h"

namespace forebay {
namespace {

proto::LinkRequest Request() {
  proto::LinkRequest request;
  request.set_bucket("bucket");
  request.set_prefix("data/train/");
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kOnDemand));
  return request;
}

TEST(LinkOptions, FillsInTheDefaults) {
  const Result<LinkOptions> options = ValidateLinkRequest(Request());
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->spec.name, "train");
  EXPECT_EQ(options->spec.block_bytes, kDefaultBlockBytes);
  EXPECT_EQ(options->spec.replicas, 1u);
  EXPECT_EQ(options->spec.refresh, RefreshPolicy::kOnDemand);
  EXPECT_TRUE(options->spec.origin.sign);
  EXPECT_EQ(options->path_style, std::nullopt);
  EXPECT_TRUE(options->spec.background_fill);
  proto::LinkRequest only_what_is_read = Request();
  only_what_is_read.set_no_background_fill(true);
  EXPECT_FALSE(ValidateLinkRequest(only_what_is_read)->spec.background_fill);
}

TEST(LinkOptions, RefusesWhatCannotBe) {
  const auto refused = [](auto change) {
    proto::LinkRequest request = Request();
    change(request);
    const Result<LinkOptions> options = ValidateLinkRequest(request);
    return !options && options.error().code == Code::kInvalid && !options.error().message.empty();
  };
  EXPECT_TRUE(refused([](auto& r) { r.set_bucket("no such name"); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_name("a/b"); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_block_bytes(kMinBlockBytes - kCellBytes); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_block_bytes(kMaxBlockBytes + kCellBytes); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_block_bytes(kMinBlockBytes + 1); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_refresh(9); }));
  EXPECT_TRUE(refused([](auto& r) { r.set_path_style(3); }));
  EXPECT_TRUE(refused([](auto& r) { r.add_includes("[a"); }));
  EXPECT_TRUE(refused([](auto& r) { r.add_excludes(""); }));
}

TEST(LinkOptions, AQuotaBelowABlockIsAUnitThatWasForgotten) {
  EXPECT_TRUE(CheckLinkQuota(0, kDefaultBlockBytes));
  EXPECT_TRUE(CheckLinkQuota(kDefaultBlockBytes, kDefaultBlockBytes));
  const Status refused = CheckLinkQuota(10, kDefaultBlockBytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_TRUE(refused.error().message.starts_with(
      "a quota of 10 B is less than one block of the link, 4.00 MiB"))
      << refused.error().message;
  proto::LinkRequest request = Request();
  request.set_quota_bytes(10);
  EXPECT_FALSE(ValidateLinkRequest(request).has_value());
}

TEST(LinkOptions, KeepsTheGlobs) {
  proto::LinkRequest request = Request();
  request.add_includes("*.jpg");
  request.add_includes("*.png");
  request.add_excludes("/tmp/");
  const Result<LinkOptions> options = ValidateLinkRequest(request);
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->spec.includes, (std::vector<std::string>{"*.jpg", "*.png"}));
  EXPECT_EQ(options->spec.excludes, (std::vector<std::string>{"/tmp/"}));
}

TEST(LinkOptions, AManifestSaysWhereUnlessAPrefixIsGiven) {
  proto::LinkRequest request = Request();
  request.set_manifest("s3://lists/train.manifest");
  request.set_skip_bad(true);
  Result<LinkOptions> options = ValidateLinkRequest(request);
  ASSERT_TRUE(options.has_value());
  EXPECT_TRUE(options->spec.manifest.behind_prefix);
  EXPECT_TRUE(options->spec.manifest.skip_bad);
  EXPECT_EQ(options->spec.origin.bucket, "bucket");
  request.clear_bucket();
  request.clear_prefix();
  request.set_name("train");
  options = ValidateLinkRequest(request);
  ASSERT_TRUE(options.has_value());
  EXPECT_FALSE(options->spec.manifest.behind_prefix);
  EXPECT_EQ(options->spec.origin.bucket, "lists") << "until it has been read";
  EXPECT_EQ(options->spec.origin.prefix, "");
  for (const char* bad : {"lists/train", "s3://lists", "s3://lists/folder/"}) {
    request.set_manifest(bad);
    EXPECT_FALSE(ValidateLinkRequest(request).has_value()) << bad;
  }
}

TEST(LinkOptions, AsksForPosixMetadataOnlyWhereItIsWanted) {
  EXPECT_FALSE(ValidateLinkRequest(Request())->spec.posix_metadata);
  proto::LinkRequest request = Request();
  request.set_posix_metadata(true);
  EXPECT_TRUE(ValidateLinkRequest(request)->spec.posix_metadata);
}

TEST(LinkOptions, ASharingDomainIsNamedLikeALink) {
  EXPECT_EQ(ValidateLinkRequest(Request())->spec.sharing_domain, "");
  proto::LinkRequest request = Request();
  request.set_sharing_domain("team-a");
  EXPECT_EQ(ValidateLinkRequest(request)->spec.sharing_domain, "team-a");
  request.set_sharing_domain("team a");
  const auto refused = ValidateLinkRequest(request);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("the sharing domain"), std::string::npos);
}

TEST(LinkOptions, LinksOfOneDomainNameTheirBlocksAlike) {
  LinkSpec one;
  LinkSpec other;
  one.domain = SharingDomain("team-a");
  other.domain = SharingDomain("team-a");
  EXPECT_EQ(VersionOf(one, "k", "e", 7), VersionOf(other, "k", "e", 7));
  other.domain = SharingDomain("team-b");
  EXPECT_NE(VersionOf(one, "k", "e", 7), VersionOf(other, "k", "e", 7));
  EXPECT_FALSE(one.domain.IsZero());
}

TEST(LinkOptions, ALinkHasAsManyCopiesAsThereAreOwnersAtMost) {
  proto::LinkRequest request = Request();
  for (std::uint32_t copies = 1; copies <= kMostReplicas; ++copies) {
    request.set_replicas(copies);
    const auto options = ValidateLinkRequest(request);
    ASSERT_TRUE(options.has_value()) << copies;
    EXPECT_EQ(options->spec.replicas, copies);
  }
}

TEST(LinkOptions, RefusesRatherThanIgnoresWhatThisVersionDoesNotDo) {
  proto::LinkRequest request = Request();
  request.set_replicas(kMostReplicas + 1);
  EXPECT_FALSE(ValidateLinkRequest(request).has_value());
  request = Request();
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kPeriodic));
  EXPECT_FALSE(ValidateLinkRequest(request).has_value());
}

}  // namespace
}  // namespace forebay
