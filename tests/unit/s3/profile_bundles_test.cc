#include "common/s3/profile_bundles.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/fakes/run_task.h"

namespace forebay {
namespace {

using fakes::RunTask;
using namespace std::chrono_literals;

// Files that a test rewrites: what is found is "/PROFILE-VERSION.pem".
class ProfileBundlesTest : public testing::Test {
 protected:
  ProfileBundles::Look Look() {
    return [this](const std::string& profile) {
      ++looks_;
      while (hangs_ && !ends_) std::this_thread::yield();
      return "/" + profile + "-" + std::to_string(version_) + ".pem";
    };
  }
  std::string Of(ProfileBundles& bundles, const std::string& profile) {
    const Result<std::string> found = RunTask(bundles.Of(profile, soon_));
    return found ? *found : found.error().message;
  }

  std::atomic<int> looks_{0};
  std::atomic<int> version_{1};
  std::atomic<bool> hangs_{false};
  std::atomic<bool> ends_{false};
  const Deadline soon_ = Deadline::After(20s);
};

TEST_F(ProfileBundlesTest, EachProfileIsLookedAtOnceUntilItIsOld) {
  ProfileBundles bundles(Look(), 1h);
  bundles.Start();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Of(bundles, "a"), "/a-1.pem");
  EXPECT_EQ(Of(bundles, "b"), "/b-1.pem");
  EXPECT_EQ(looks_, 2);
}

TEST_F(ProfileBundlesTest, AChangedFileIsSeenBehindTheCallersBack) {
  ProfileBundles bundles(Look(), 0s);
  bundles.Start();
  EXPECT_EQ(Of(bundles, "a"), "/a-1.pem");
  version_ = 2;
  while (Of(bundles, "a") != "/a-2.pem" && !soon_.Expired()) std::this_thread::yield();
  EXPECT_EQ(Of(bundles, "a"), "/a-2.pem");
}

TEST_F(ProfileBundlesTest, AfterARefusalTheNextCallSeesWhatWasCorrected) {
  ProfileBundles bundles(Look(), 1h);
  bundles.Start();
  EXPECT_EQ(Of(bundles, "a"), "/a-1.pem");
  version_ = 2;
  bundles.Forget("a");
  EXPECT_EQ(Of(bundles, "a"), "/a-2.pem");
}

TEST_F(ProfileBundlesTest, WithoutAProfileOrALookTheProgramsOwnIsTakenAtOnce) {
  ProfileBundles bundles(Look(), 0s);
  bundles.Start();
  EXPECT_EQ(Of(bundles, ""), "");
  EXPECT_EQ(looks_, 0);
  ProfileBundles none(nullptr, 0s);
  none.Start();
  EXPECT_EQ(Of(none, "a"), "");
}

TEST_F(ProfileBundlesTest, FilesThatHangAreWaitedForUntilTheDeadline) {
  hangs_ = true;
  ProfileBundles bundles(Look(), 1h);
  bundles.Start();
  const Result<std::string> found = RunTask(bundles.Of("a", Deadline::After(50ms)));
  ends_ = true;
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, Code::kUnavailable);
}

TEST_F(ProfileBundlesTest, AStoppedOneAnswers) {
  ProfileBundles bundles(Look(), 1h);
  bundles.Start();
  bundles.Stop();
  const Result<std::string> found = RunTask(bundles.Of("a", soon_));
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
