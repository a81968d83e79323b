#include "common/wire/messages.h"

#include <gtest/gtest.h>

#include "common/model/limits.h"
#include "common/wire/address.h"
#include "common/wire/rpc.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

TEST(Messages, WhoMayReadASetMayReadItsPartsAndNoOtherLink) {
  PeerIdentity peer{.role = proto::ROLE_CLIENT, .id = "m", .program = "p"};
  EXPECT_TRUE(MayRead(peer, "clip.images", "clip")) << "no terms, no bounds";
  peer.terms.links = {"clip"};
  EXPECT_TRUE(MayRead(peer, "clip.images", "clip"));
  EXPECT_TRUE(MayRead(peer, "clip", ""));
  EXPECT_FALSE(MayRead(peer, "clip.images", "")) << "a link that only has such a name";
  EXPECT_FALSE(MayRead(peer, "other.images", "other"));
  peer.terms.links = {"clip.images"};
  EXPECT_TRUE(MayRead(peer, "clip.images", "clip"));
  EXPECT_FALSE(MayRead(peer, "clip.labels", "clip"));
}

TEST(Messages, LinksNodesAndBlocksComeBackAsTheyWere) {
  LinkSpec link;
  link.id = Uuid::Random();
  link.name = "data";
  link.origin = {"bucket", "pre\xFF/", "http://127.0.0.1:7480", "eu-central-1", "team", true,
                 true,     false,      "123456789012"};
  link.domain = Uuid::Random();
  link.block_bytes = 1 << 20;
  link.replicas = 2;
  link.refresh = RefreshPolicy::kImmutable;
  link.quota_bytes = 5;
  link.priority = LinkPriority::kLow;
  link.background_fill = false;
  link.includes = {"*.jpg", "\xff*"};
  link.excludes = {"/tmp/"};
  link.manifest = {.location = "s3://b/m", .behind_prefix = true, .skip_bad = true};
  link.posix_metadata = true;
  link.sharing_domain = "team";
  link.set = "all";
  link.pins = {"", "train/", "a.bin"};
  link.pins_version = 9;
  const Result<LinkSpec> back = FromProto(ToProto(link));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, link);

  const NodeInfo node{"n1", "h:1", "/run/x.sock", "host", "zone", 1ULL << 40, NodeState::kDraining};
  const Result<NodeInfo> node_back = FromProto(ToProto(node));
  ASSERT_TRUE(node_back.has_value());
  EXPECT_EQ(*node_back, node);

  const BlockId block{{1, 2}, 4ULL << 40, 4 << 20};
  EXPECT_EQ(FromProto(ToProto(block)), block);
}

TEST(Messages, NonsenseIsInvalid) {
  proto::LinkSpec link = ToProto(LinkSpec{});
  EXPECT_EQ(FromProto(link).error().code, Code::kInvalid);
  proto::NodeInfo node;
  node.set_state(9);
  EXPECT_EQ(FromProto(node).error().code, Code::kInvalid);
  EXPECT_TRUE(UuidFromBytes("short").IsZero());
}

TEST(ParseMessage, RefusesWhatIsNotTheMessage) {
  proto::StatsRequest request;
  EXPECT_FALSE(ParseMessage("\xFF\xFF\xFF", request).has_value());
  EXPECT_TRUE(ParseMessage("", request).has_value());
}

TEST(ParseMessage, CountsRepeatedFieldsBeforeItBuildsThem) {
  proto::CheckBlocksRequest request;
  for (int i = 0; i < kMaxRepeatedFields; ++i) request.add_blocks();
  proto::CheckBlocksRequest parsed;
  EXPECT_TRUE(ParseMessage(request.SerializeAsString(), parsed).has_value());
  EXPECT_EQ(parsed.blocks_size(), kMaxRepeatedFields);
  request.add_blocks();
  parsed.Clear();
  EXPECT_EQ(ParseMessage(request.SerializeAsString(), parsed).error().code, Code::kInvalid);
  EXPECT_EQ(parsed.blocks_size(), 0);

  // A megabyte of empty messages, and one of fields that this version does not know.
  std::string bomb;
  while (bomb.size() < kMaxControlFrameBytes) bomb.append("\x0A\x00", 2);
  EXPECT_FALSE(ParseMessage(bomb, parsed).has_value());
  EXPECT_EQ(parsed.blocks_size(), 0);
  std::string strange;
  while (strange.size() < kMaxControlFrameBytes) strange.append("\xF8\x7F\x01", 3);
  EXPECT_FALSE(ParseMessage(strange, parsed).has_value());
}

// Groups nest in any message, whatever its own fields are.
TEST(ParseMessage, BoundsTheNesting) {
  const auto nested = [](int depth) {
    proto::StatsRequest request;
    return ParseMessage(std::string(static_cast<std::size_t>(depth), '\x7B') +
                            std::string(static_cast<std::size_t>(depth), '\x7C'),
                        request);
  };
  EXPECT_TRUE(nested(kMaxMessageNesting).has_value());
  EXPECT_EQ(nested(kMaxMessageNesting + 1).error().code, Code::kInvalid);
  EXPECT_FALSE(nested(4000).has_value());
  EXPECT_FALSE(nested(500'000).has_value());
}

TEST(ErrorDetail, CarriesBytesThatAreNoText) {
  proto::ErrorDetail detail;
  detail.set_message("object 'pre\xFF\x80/x' is gone");
  proto::ErrorDetail back;
  ASSERT_TRUE(ParseMessage(detail.SerializeAsString(), back).has_value());
  EXPECT_EQ(back.message(), detail.message());
}

TEST(ListenEndpoint, TakesThisMachineAlone) {
  for (const char* good :
       {"127.0.0.1:0", "127.1.2.3:80", "[::1]:7441", "localhost:1", "unix:/tmp/x.sock"}) {
    EXPECT_TRUE(ListenEndpoint(good, Reach::kThisMachine).has_value()) << good;
  }
  for (const char* bad :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1", "127.0.0.1", ":1", "unix:"}) {
    const Result<StreamEndpoint> endpoint = ListenEndpoint(bad, Reach::kThisMachine);
    ASSERT_FALSE(endpoint.has_value()) << bad;
    EXPECT_EQ(endpoint.error().code, Code::kInvalid) << bad;
  }
  EXPECT_EQ(DescribeEndpoint(*ListenEndpoint("127.0.0.1:7441", Reach::kThisMachine)),
            "127.0.0.1:7441");
  EXPECT_EQ(DescribeEndpoint(*ListenEndpoint("[::1]:7441", Reach::kThisMachine)), "[::1]:7441");
  EXPECT_EQ(DescribeEndpoint(*ListenEndpoint("unix:/tmp/x.sock", Reach::kThisMachine)),
            "unix:/tmp/x.sock");
}

TEST(ListenEndpoint, TakesOtherMachinesWhereThatWasAccepted) {
  for (const char* good : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.0.0.1:1"})
    EXPECT_TRUE(ListenEndpoint(good, Reach::kEveryone).has_value()) << good;
  EXPECT_FALSE(ListenEndpoint("example.org:1", Reach::kEveryone).has_value()) << "a name";
}

}  // namespace
}  // namespace forebay
