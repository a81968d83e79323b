#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/component/coordinator/cluster_fixture.h"

// Mounts ask for links, and an administrator for mounts.
namespace forebay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class MountsTest : public ClusterTest {
 protected:
  MountsTest() {
    store.Put("p/a", 1);
    StartCoordinator();
    MakeLink("imagenet", "p/");
  }

  /// As a mount does every two seconds.
  Result<proto::GetLinksReply> AskAsMount(const std::string& name, const std::string& mountpoint) {
    proto::GetLinksRequest request;
    request.set_name(name);
    request.mutable_mount()->set_incarnation(7);
    request.mutable_mount()->set_host("gpu-1");
    request.mutable_mount()->set_mountpoint(mountpoint);
    request.mutable_mount()->set_source(name);
    return mount.Ask<proto::GetLinksReply>(address(), Method::kGetLinks, request);
  }
  Result<proto::ListMountsReply> List(const std::string& link = "") {
    proto::ListMountsRequest request;
    request.set_link(link);
    return admin.Ask<proto::ListMountsReply>(address(), Method::kListMounts, request);
  }

  Caller mount{proto::ROLE_CLIENT, "m1", secret, {}, 0, "forebay-mount 9.9"};
};

TEST_F(MountsTest, AMountIsListedFromItsFirstQuestionOnThatSaysWhereItIs) {
  ASSERT_TRUE(AskAsMount("imagenet", "").has_value());
  EXPECT_THAT(List()->mounts(), SizeIs(0)) << "it is not mounted yet";
  ASSERT_TRUE(AskAsMount("imagenet", "/mnt").has_value());
  for (const char* link : {"", "imagenet"}) {
    const Result<proto::ListMountsReply> reply = List(link);
    ASSERT_TRUE(reply.has_value()) << reply.error().message;
    ASSERT_THAT(reply->mounts(), SizeIs(1)) << link;
    EXPECT_EQ(reply->mounts(0).mountpoint(), "/mnt");
    EXPECT_EQ(reply->mounts(0).version(), "9.9");
    EXPECT_EQ(reply->mounts(0).client(), "m1");
    EXPECT_LT(reply->mounts(0).heard_ms(), 20'000u);
  }
}

TEST_F(MountsTest, ALinkThatNobodyHasIsNamedAndOneThatIsStillMountedIsNot) {
  ASSERT_TRUE(AskAsMount("imagenet", "/mnt").has_value());
  const Result<proto::ListMountsReply> wrong = List("imagenets");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code, Code::kNotFound);
  EXPECT_THAT(wrong.error().message, HasSubstr("imagenet"));
  proto::UnlinkRequest unlink;
  unlink.set_name("imagenet");
  ASSERT_TRUE(admin.Ask<proto::UnlinkReply>(address(), Method::kUnlink, unlink).has_value());
  EXPECT_EQ(AskAsMount("imagenet", "/mnt").error().code, Code::kNotFound);
  const Result<proto::ListMountsReply> left = List("imagenet");
  ASSERT_TRUE(left.has_value()) << left.error().message;
  EXPECT_THAT(left->mounts(), SizeIs(1)) << "it has been removed, and is mounted still";
}

TEST_F(MountsTest, ACoordinatorThatBeginsAnewSaysForHowLongItHasListened) {
  ASSERT_TRUE(AskAsMount("imagenet", "/mnt").has_value());
  const TimePoint began = Clock::now();
  StopCoordinator();
  StartCoordinator();
  const Result<proto::ListMountsReply> after = List();
  const auto most =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began).count();
  EXPECT_LE(after->listening_ms(), static_cast<std::uint64_t>(most));
  EXPECT_THAT(after->mounts(), SizeIs(0));
  ASSERT_TRUE(AskAsMount("imagenet", "/mnt").has_value());
  EXPECT_THAT(List()->mounts(), SizeIs(1));
}

}  // namespace
}  // namespace forebay
