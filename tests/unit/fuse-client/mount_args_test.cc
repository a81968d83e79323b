#include "fuse-client/mount_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/config_option.h"
#include "common/config/log_config.h"
#include "common/config/mount_config.h"

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

TEST(MountArguments, SloppyLetsUnknownOptionsPass) {
  const auto out = TranslateMountArguments({"l", "/mnt", "-s", "-o", "ro,vers=4.2,uid=7"});
  ASSERT_TRUE(out);
  EXPECT_THAT(out->arguments, ElementsAre("l", "/mnt", "--uid", "7"));
}

TEST(MountArguments, AnAddressAloneMountsEveryLink) {
  EXPECT_THAT(TranslateMountArguments({"[::1]:7440/", "/mnt"})->arguments,
              ElementsAre("/", "--coordinator", "[::1]:7440", "/mnt"));
  EXPECT_THAT(TranslateMountArguments({"/", "/mnt"})->arguments, ElementsAre("/", "/mnt"));
}

TEST(MountArguments, TheSourceIsKeptAsGivenForTheMountTable) {
  EXPECT_EQ(TranslateMountArguments({"a:7440,b:7440/l/x", "/mnt"})->source, "a:7440,b:7440/l/x");
}

TEST(MountArguments, TheSeedAndTheEpochOfAShardNeedNoQuotes) {
  const auto out = TranslateMountArguments({"l", "/mnt", "-o", "shard=0/4,seed=7,ro,epoch=2"});
  ASSERT_TRUE(out);
  EXPECT_THAT(out->arguments, ElementsAre("l", "/mnt", "--shard", "0/4,seed=7,epoch=2"));
  EXPECT_EQ(TranslateMountArguments({"l", "/mnt", "-o", "shard=\"0/4,seed=7\""})->arguments.back(),
            "0/4,seed=7");
  EXPECT_THAT(TranslateMountArguments({"l", "/mnt", "-o", "seed=7"}).error().message,
              HasSubstr("there is no shard="));
}

TEST(MountArguments, AQuotedValueMayHoldCommas) {
  const auto out = TranslateMountArguments({"l", "/mnt", "-o", "ro,coordinator=\"a:1,b:2\",uid=7"});
  ASSERT_TRUE(out);
  EXPECT_THAT(out->arguments, ElementsAre("l", "/mnt", "--coordinator", "a:1,b:2", "--uid", "7"));
}

// The table of options is the program's own, so that a new option needs no second place.
TEST(MountArguments, EveryOptionOfTheProgramIsKnownByItsName) {
  MountConfig mount;
  LogConfig log;
  std::size_t options = 0;
  for (const ConfigSection& section : {MountSection(mount), LogSection(log)}) {
    for (const ConfigOption& option : section.options) {
      if (option.positional) continue;
      ++options;
      for (const char separator : {'-', '_'}) {
        std::string word = option.flag.substr(2);
        std::ranges::replace(word, '-', separator);
        if (!option.value.is_switch) word += "=7";
        const auto out = TranslateMountArguments({"l", "/mnt", "-o", word});
        ASSERT_TRUE(out) << word << ": " << out.error().message;
        EXPECT_EQ(out->arguments.at(2), option.flag);
      }
    }
  }
  EXPECT_GT(options, 10u);
}

TEST(MountArguments, ASwitchTakesNoValue) {
  EXPECT_FALSE(TranslateMountArguments({"l", "/mnt", "-o", "allow_other=yes"}));
}

TEST(MountArguments, MissingValuesAreErrors) {
  EXPECT_FALSE(TranslateMountArguments({"l", "/mnt", "-o"}));
  EXPECT_FALSE(TranslateMountArguments({"l", "/mnt", "-o", "uid"}));
}

}  // namespace
}  // namespace forebay
