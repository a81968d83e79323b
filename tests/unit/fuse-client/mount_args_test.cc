#include "fuse-client/mount_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(MountArguments, SourceAndPlaceComeFirst) {
  const auto out = TranslateMountArguments({"imagenet/train", "/mnt", "-o", "ro"});
  ASSERT_TRUE(out);
  EXPECT_THAT(out->arguments, ElementsAre("imagenet/train", "/mnt"));
  EXPECT_THAT(out->warnings, IsEmpty());
}

TEST(MountArguments, AnAddressBeforeTheLinkIsTheCoordinators) {
  const auto out = TranslateMountArguments({"a:7440,[::1]:7441/imagenet/x:y/z", "/mnt"});
  ASSERT_TRUE(out);
  EXPECT_THAT(out->arguments,
              ElementsAre("imagenet/x:y/z", "--coordinator", "a:7440,[::1]:7441", "/mnt"));
}

TEST(MountArguments, OptionsAreFlagsWithUnderscoresOrHyphens) {
  const auto out = TranslateMountArguments(
      {"l", "/mnt", "-o", "ro,_netdev,nofail,allow_other,job_id=j-1,x-systemd.automount", "-o",
       "allow-other,uid=1000,file-mode=0440"});
  ASSERT_TRUE(out);
  EXPECT_THAT(out->arguments, ElementsAre("l", "/mnt", "--allow-other", "--job-id", "j-1",
                                          "--allow-other", "--uid", "1000", "--file-mode", "0440"));
}

TEST(MountArguments, WritableAndDefaultsAreTakenWithOneWarning) {
  const auto out = TranslateMountArguments({"l", "/mnt", "-o", "defaults,rw,noatime,user"});
  ASSERT_TRUE(out);
  EXPECT_THAT(out->warnings, SizeIs(1));
  EXPECT_THAT(out->arguments, ElementsAre("l", "/mnt"));
}

TEST(MountArguments, TheFlagsOfMountItselfAreTaken) {
  const auto out = TranslateMountArguments({"l", "/mnt", "-s", "-nv", "-t", "forebay"});
  ASSERT_TRUE(out);
  EXPECT_FALSE(out->fake);
  EXPECT_THAT(out->arguments, ElementsAre("l", "/mnt"));
  EXPECT_TRUE(TranslateMountArguments({"l", "/mnt", "-f"})->fake);
}

TEST(MountArguments, AnUnknownOptionNamesTheNearest) {
  const auto out = TranslateMountArguments({"l", "/mnt", "-o", "ro,job_di=3"});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::kInvalid);
  EXPECT_THAT(out.error().message, HasSubstr("job_di"));
  EXPECT_THAT(out.error().message, HasSubstr("job_id"));
}

TEST(MountArguments, MissingValuesAreErrors) {
  EXPECT_FALSE(TranslateMountArguments({"l", "/mnt", "-o"}));
  EXPECT_FALSE(TranslateMountArguments({"l", "/mnt", "-o", "uid"}));
}

}  // namespace
}  // namespace forebay
