// S3 is away while a link is listed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "common/base/units.h"
#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

constexpr std::uint32_t kTaskRunning = 0;
constexpr std::uint32_t kTaskDone = 1;
constexpr std::uint32_t kTaskFailed = 2;

class OutageTest : public ClusterTest {
 protected:
  OutageTest() {
    for (int i = 0; i < 500; ++i) store.Put("data/" + std::to_string(1000 + i), 10);
    listing_wait.patience = kForever;
    listing_wait.say_after = std::chrono::milliseconds(50);
    store.SetListFault([this](const ListRequest& request) -> std::optional<Error> {
      if (pages_ >= up_for_) return Error{Code::kUnavailable, "no route to S3"};
      // Looks for a place to cut at, or for the prefix, ask for one key.
      if (request.max_keys > 1) ++pages_;
      return std::nullopt;
    });
    StartCoordinator();
  }

  /// S3 answers until it has answered so many pages more.
  void UpFor(int pages) {
    pages_ = 0;
    up_for_ = pages;
  }

  std::string Link(const std::string& name) {
    const auto linked =
        admin.Ask<proto::LinkReply>(address(), Method::kLink, LinkRequestFor(name, "data/"));
    EXPECT_TRUE(linked.has_value()) << linked.error().message;
    return linked ? linked->task_id() : "";
  }
  proto::TaskState Task(const std::string& id) {
    proto::GetTaskRequest request;
    request.set_id(id);
    return admin.Ask<proto::TaskState>(address(), Method::kGetTask, request).value();
  }
  /// What the task shows once it waits, or not any more.
  std::string WaitUntilItWaits(const std::string& id) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (Task(id).waiting().empty() && !deadline.Expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return Task(id).waiting();
  }

  static constexpr int kAlways = 1'000'000;
  std::atomic<int> pages_{0};
  std::atomic<int> up_for_{kAlways};
};

TEST_F(OutageTest, ANewLinkWaitsSaysWhyAndGoesOnWhereItWas) {
  MakeLink("healthy", "data/");
  const int needed = pages_;

  UpFor(needed * 2 / 3);
  const std::string task = Link("data");
  EXPECT_EQ(WaitUntilItWaits(task), "no route to S3");
  EXPECT_EQ(Task(task).state(), kTaskRunning);
  EXPECT_GT(Task(task).done(), 0U);
  EXPECT_TRUE(GetLink("data").has_value()) << "the link stays, and what was listed";

  // Also over a restart in the middle of it.
  StopCoordinator();
  StartCoordinator();
  EXPECT_EQ(WaitUntilItWaits(task), "no route to S3");
  EXPECT_GT(Task(task).done(), 0U) << "what was listed before is not listed again";
  UpFor(kAlways);
  const proto::TaskState done = WaitForTask(task);
  EXPECT_EQ(done.state(), kTaskDone) << done.error();
  EXPECT_EQ(done.waiting(), "");
  EXPECT_EQ(GetLink("data")->generation().objects(), 500U);
  EXPECT_LT(pages_, needed * 3 / 4) << "of the pages that were there before few come again";
}

TEST_F(OutageTest, UnlinkEndsAListingThatWaits) {
  UpFor(10);
  const std::string task = Link("data");
  EXPECT_EQ(WaitUntilItWaits(task), "no route to S3");
  proto::UnlinkRequest request;
  request.set_name("data");
  const auto unlinked = admin.Ask<proto::UnlinkReply>(address(), Method::kUnlink, request);
  ASSERT_TRUE(unlinked.has_value()) << unlinked.error().message;
  EXPECT_NE(WaitForTask(task).state(), kTaskRunning);
  EXPECT_EQ(GetLink("data").error().code, Code::kNotFound);
  // It asks nothing more: the next link is listed alone.
  UpFor(kAlways);
  MakeLink("other", "data/");
  EXPECT_EQ(GetLink("other")->generation().objects(), 500U);
}

TEST_F(OutageTest, AfterItsPatienceItFailsWithWhatS3Said) {
  StopCoordinator();
  listing_wait.patience = std::chrono::seconds(1);
  StartCoordinator();
  UpFor(10);
  const proto::TaskState task = WaitForTask(Link("data"));
  EXPECT_EQ(task.state(), kTaskFailed);
  EXPECT_EQ(task.error(), "no route to S3");
  EXPECT_EQ(GetLink("data").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace forebay
