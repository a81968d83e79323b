// The coordinator's side of preloads and tasks, over real connections to made-up nodes.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/model/limits.h"
#include "tests/component/coordinator/filling_cluster.h"

namespace forebay {
namespace {

constexpr std::uint64_t kObjects = 1000;

class PreloadTest : public FillingCluster {
 protected:
  PreloadTest() {
    for (std::uint64_t i = 0; i < kObjects; ++i) {
      store.Put("data/train/" + std::to_string(10'000 + i), 100 + i);
      bytes_ += 100 + i;
    }
    StartCoordinator();
    MakeLink("data", "data/");
    StartNodes();
  }

  static proto::PreloadRequest Of(const std::string& target) {
    proto::PreloadRequest request;
    request.mutable_target()->set_text(target);
    return request;
  }
  Result<proto::PreloadReply> Ask(const proto::PreloadRequest& request) {
    return admin.Ask<proto::PreloadReply>(address(), Method::kPreload, request);
  }
  std::string Start(const proto::PreloadRequest& request) {
    const auto reply = Ask(request);
    EXPECT_TRUE(reply.has_value()) << reply.error().message;
    return reply ? reply->task_id() : "";
  }
  proto::TaskState Run(const proto::PreloadRequest& request) { return WaitForTask(Start(request)); }
  std::string Upload(const std::string& text) {
    proto::UploadNamesRequest request;
    request.set_data(text);
    return admin.Ask<proto::UploadNamesReply>(address(), Method::kUploadNames, request)->upload();
  }
  std::size_t ListFiles() const {
    std::error_code none;
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir / "state/preload", none))
      files += entry.is_regular_file() ? 1 : 0;
    return files;
  }
  std::uint64_t bytes_ = 0;
};

TEST_F(PreloadTest, EachBlockIsAskedForOnceAndCountedToTheUnit) {
  const proto::TaskState task = Run(Of("data"));
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.kind(), "preload");
  EXPECT_EQ(task.total(), kObjects);
  EXPECT_EQ(task.done(), kObjects);
  EXPECT_EQ(task.bytes(), bytes_);
  EXPECT_EQ(task.total_bytes(), bytes_);
  EXPECT_EQ(task.fetched_blocks(), kObjects);
  EXPECT_EQ(task.fetched_bytes(), bytes_);
  EXPECT_EQ(Fills(), kObjects);
  EXPECT_EQ(Kept(), kObjects);
  const proto::TaskState again = Run(Of("s3://bucket/data/"));
  EXPECT_EQ(again.done(), kObjects);
  EXPECT_EQ(again.fetched_blocks(), 0u);
}

TEST_F(PreloadTest, ADryRunBeginsNothing) {
  ASSERT_EQ(Run(Of("data/train/10000")).state(), kDone);
  proto::PreloadRequest request = Of("data");
  request.set_dry_run(true);
  const auto reply = Ask(request);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->task_id(), "");
  EXPECT_EQ(reply->objects(), kObjects);
  EXPECT_EQ(reply->blocks(), kObjects);
  EXPECT_EQ(reply->cached_blocks(), 1u);
  EXPECT_EQ(reply->capacity_bytes(), 3ULL << 30);
  EXPECT_EQ(Fills(), 1u);
}

TEST_F(PreloadTest, ALookAtTheRoomBeginsNothingAndCountsWhatIsCachedOnlyWhereThatDecides) {
  proto::LinkRequest small = LinkRequestFor("small", "data/");
  small.set_block_bytes(kMinBlockBytes);
  const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, small);
  ASSERT_TRUE(linked.has_value());
  ASSERT_EQ(WaitForTask(linked->task_id()).state(), kDone);
  ASSERT_EQ(Run(Of("small/train/10000")).state(), kDone);
  proto::PreloadRequest request = Of("small");
  request.set_room_only(true);
  auto look = Ask(request);
  ASSERT_TRUE(look.has_value()) << look.error().message;
  EXPECT_EQ(look->task_id(), "");
  EXPECT_EQ(look->cached_blocks(), 0u) << "it fits in any case";
  EXPECT_GE(look->needed_bytes(), kObjects * 4096);
  EXPECT_GT(look->room_bytes(), 2ULL << 30);
  proto::SetQuotaRequest quota;
  quota.set_name("small");
  quota.set_quota_bytes(10'000);
  EXPECT_FALSE(admin.Call(address(), Method::kSetQuota, quota).has_value()) << "less than a block";
  quota.set_quota_bytes(kMinBlockBytes);
  ASSERT_TRUE(admin.Call(address(), Method::kSetQuota, quota).has_value());
  look = Ask(request);
  ASSERT_TRUE(look.has_value()) << look.error().message;
  EXPECT_TRUE(look->quota_bound());
  EXPECT_EQ(look->cached_blocks(), 1u);
  EXPECT_EQ(look->room_bytes(), kMinBlockBytes);
  EXPECT_GT(look->needed_bytes(), look->room_bytes());
  EXPECT_EQ(Fills(), 1u);
}

TEST_F(PreloadTest, WhatANodeThatDiesDidNotAnswerGoesToTheNextOwner) {
  Close();
  const std::string id = Start(Of("data"));
  WaitForFills();
  Open();
  KillNode(1);
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.done(), kObjects);
  EXPECT_EQ(Kept(), kObjects);
}

TEST_F(PreloadTest, NoNodeAtAllIsAFailureAfterPatienceAndNeverDone) {
  RestartCoordinator([&] { preload_patience = std::chrono::seconds(1); });
  for (std::size_t i = 0; i < nodes_.size(); ++i) KillNode(i);
  const proto::TaskState task = Run(Of("data"));
  EXPECT_EQ(task.state(), kFailed);
  EXPECT_EQ(task.failed(), kObjects);
  EXPECT_EQ(task.done(), 0u);
}

TEST_F(PreloadTest, WhatFailsIsReportedTheOthersGoOnAndARetryFetchesIt) {
  for (const auto& node : nodes_) {
    FakeNode* const self = node.get();
    self->OnFill([self](const proto::FillObject& object, const BlockId& block) {
      if (object.key() == "data/train/10007")
        return Outcome(FillOutcome::kFailed, Code::kStale, "S3 answered 412");
      return self->Keep(block);
    });
  }
  const std::string id = Start(Of("data"));
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kFailed);
  EXPECT_EQ(task.failed(), 1u);
  EXPECT_EQ(task.done(), kObjects - 1);
  EXPECT_EQ(task.error(),
            "1 of 1000 objects could not be fetched, the first of them 'data/train/10007': S3 "
            "answered 412");
  const proto::TaskState shown = Get(id);
  ASSERT_EQ(shown.failures_size(), 1);
  EXPECT_EQ(shown.failures(0).key(), "data/train/10007");
  EXPECT_EQ(shown.failures(0).reason(), "S3 answered 412");

  RestartCoordinator();
  EXPECT_EQ(Get(id).failures_size(), 1) << "the report survives";
  OnFill(nullptr);
  const auto retried = Change(Method::kRetryTask, id);
  ASSERT_TRUE(retried.has_value()) << retried.error().message;
  const proto::TaskState good = WaitForTask(id);
  EXPECT_EQ(good.state(), kDone) << good.error();
  EXPECT_EQ(good.done(), kObjects);
  EXPECT_EQ(good.fetched_blocks(), 1u);
  EXPECT_EQ(Get(id).failures_size(), 0);
  EXPECT_EQ(Change(Method::kRetryTask, id).error().code, Code::kInvalid) << "it did not fail";
}

TEST_F(PreloadTest, S3ThatDoesNotAnswerIsAskedAgain) {
  std::atomic<int> refusals{300};
  for (const auto& node : nodes_) {
    FakeNode* const self = node.get();
    self->OnFill([self, &refusals](const proto::FillObject&, const BlockId& block) {
      if (--refusals >= 0) return Outcome(FillOutcome::kFailed, Code::kTimeout, "503");
      return self->Keep(block);
    });
  }
  const proto::TaskState task = Run(Of("data"));
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.done(), kObjects);
  OnFill(nullptr);
}

TEST_F(PreloadTest, WhatFindsNoRoomIsNotCalledKept) {
  for (const auto& node : nodes_) {
    FakeNode* const self = node.get();
    self->OnFill([self](const proto::FillObject& object, const BlockId& block) {
      if (object.size() >= 600) return Outcome(FillOutcome::kNoRoom);
      return self->Keep(block);
    });
  }
  const proto::TaskState task = Run(Of("data"));
  EXPECT_EQ(task.state(), kDone);
  EXPECT_EQ(task.done(), 500u);
  EXPECT_EQ(task.not_kept(), 500u);
  EXPECT_EQ(task.bytes() + task.not_kept_bytes(), bytes_);
}

TEST_F(PreloadTest, GoesOnAfterACoordinatorsEndWithWhatWasNotAnswered) {
  // What is done is counted as far as all before it is done, too: so the first ones come.
  for (const auto& node : nodes_) {
    FakeNode* const self = node.get();
    self->OnFill([self](const proto::FillObject& object, const BlockId& block) {
      if (object.key() >= "data/train/10400")
        return Outcome(FillOutcome::kFailed, Code::kTimeout, "S3 is slow");
      return self->Keep(block);
    });
  }
  const std::string id = Start(Of("data"));
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (Get(id).done() == 0 && !deadline.Expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  RestartCoordinator();
  OnFill(nullptr);
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.done(), kObjects);
  EXPECT_EQ(task.bytes(), bytes_);
  EXPECT_EQ(task.total(), kObjects);
  EXPECT_EQ(Kept(), kObjects);
}

TEST_F(PreloadTest, TheSamePreloadIsJoinedAndAnotherIsNot) {
  Close();
  proto::PreloadRequest listed = Of("data/train");
  listed.set_names_upload(Upload("10001\n10002\n"));
  const std::string id = Start(Of("data"));
  const std::string other = Start(listed);
  EXPECT_NE(other, id);
  const auto joined = Ask(Of("s3://bucket/data"));
  ASSERT_TRUE(joined.has_value());
  EXPECT_TRUE(joined->joined());
  EXPECT_EQ(joined->task_id(), id);
  listed.set_names_upload(Upload("10001\n10002\n"));
  EXPECT_EQ(Ask(listed)->task_id(), other) << "the same list, uploaded again";
  listed.set_names_upload(Upload("10001\n10003\n"));
  EXPECT_FALSE(Ask(listed)->joined());
  proto::PreloadRequest verify = Of("data");
  verify.set_verify(true);
  EXPECT_FALSE(Ask(verify)->joined());
  Open();
  EXPECT_EQ(WaitForTask(id).state(), kDone);
  EXPECT_EQ(WaitForTask(other).total(), 2u);
  proto::ListTasksReply tasks =
      *admin.Ask<proto::ListTasksReply>(address(), Method::kListTasks, proto::ListTasksRequest());
  ASSERT_EQ(tasks.tasks_size(), 5) << "the listing and four preloads";
  for (const proto::TaskState& task : tasks.tasks()) (void)WaitForTask(task.id());
}

TEST_F(PreloadTest, WhatWasOverwrittenBehindAFrozenLinkIsNotComparedAndHasNotFailed) {
  proto::LinkRequest request = LinkRequestFor("frozen", "data/");
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kImmutable));
  const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  ASSERT_TRUE(linked.has_value()) << linked.error().message;
  ASSERT_EQ(WaitForTask(linked->task_id()).state(), kDone);
  store.Put("data/train/10001", 101, "new");
  store.Erase("data/train/10002");
  proto::PreloadRequest verify = Of("frozen");
  verify.set_verify(true);
  const proto::TaskState task = Run(verify);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.failed(), 0U);
  EXPECT_EQ(task.done(), kObjects);
  EXPECT_EQ(task.verification().without_checksum(), kObjects) << "this store says none";
}

TEST_F(PreloadTest, AVerificationHasSixtyFourHeadsUnderWayAndNoMore) {
  ASSERT_EQ(Run(Of("data")).state(), kDone);
  store.HangAfterHeads(0);
  proto::PreloadRequest verify = Of("data");
  verify.set_verify(true);
  const std::string id = Start(verify);
  EXPECT_TRUE(store.WaitUntilHeadsHang(64));
  store.Interrupt();  // these fail, and all others are answered
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(store.most_heads_hanging(), 64u);
  EXPECT_EQ(task.failed(), 64u);
  EXPECT_EQ(task.verification().without_checksum(), kObjects - 64);
}

TEST_F(PreloadTest, AListIsPartOfItsTaskAndGoesWithIt) {
  Close();
  proto::PreloadRequest request = Of("data/train");
  request.set_names_upload(Upload("10005\n10006\n10007\n"));
  request.set_order_upload(Upload("10007\n"));
  const std::string id = Start(request);
  WaitForFills();
  EXPECT_EQ(ListFiles(), 2u);
  Open();
  RestartCoordinator();
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kDone) << task.error();
  EXPECT_EQ(task.total(), 3u);
  EXPECT_EQ(Kept(), 3u);
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while (ListFiles() > 0 && !deadline.Expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(ListFiles(), 0u);
}

TEST_F(PreloadTest, UnknownNamesStartNothing) {
  proto::PreloadRequest request = Of("data/train");
  request.set_names_upload(Upload("10005\nnope\n"));
  const auto reply = Ask(request);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().message,
            "1 of the 2 names in the list are not in 'train': 'nope'; nothing was started");
  EXPECT_EQ(ListFiles(), 0u);
  EXPECT_EQ(Fills(), 0u);
}

TEST_F(PreloadTest, EndsWhenEnoughIsCached) {
  ASSERT_EQ(Run(Of("data/train/10999")).state(), kDone);
  proto::PreloadRequest request = Of("data");
  request.set_until_ratio(0.5);
  const proto::TaskState task = Run(request);
  EXPECT_EQ(task.state(), kDone) << task.error();
  std::uint64_t kept = 0;
  for (const auto& node : nodes_) {
    for (const BlockId& block : node->kept()) kept += block.length;
  }
  EXPECT_GE(kept, bytes_ / 2);
  EXPECT_LT(kept, bytes_ / 2 + 2200) << "no more than the last piece";
  EXPECT_EQ(task.fetched_bytes() + 1099, kept);
  // Also what was there before: a run that finds enough comes to none of it.
  EXPECT_EQ(task.bytes(), kept);
  const proto::TaskState again = Run(request);
  EXPECT_EQ(again.fetched_bytes(), 0u);
  EXPECT_EQ(again.bytes(), kept);
  EXPECT_GT(again.done(), 0u);
}

TEST_F(PreloadTest, ACancelledPreloadIsOverAlsoAfterARestart) {
  Close();
  const std::string id = Start(Of("data"));
  WaitForFills();
  const auto cancelled = Change(Method::kCancelTask, id);
  ASSERT_TRUE(cancelled.has_value()) << cancelled.error().message;
  EXPECT_TRUE(cancelled->changed());
  EXPECT_EQ(cancelled->task().state(), kCancelled);
  Open();
  RestartCoordinator();
  EXPECT_EQ(Get(id).state(), kCancelled);
  const auto again = Change(Method::kCancelTask, id);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->changed());
  EXPECT_EQ(Change(Method::kRetryTask, id).error().code, Code::kInvalid);
  const proto::TaskState done = Run(Of("data"));
  EXPECT_EQ(Change(Method::kCancelTask, done.id()).error().code, Code::kInvalid);
  EXPECT_EQ(Change(Method::kCancelTask, "t-none").error().code, Code::kNotFound);
}

TEST_F(PreloadTest, AnUnlinkEndsItsPreloads) {
  Close();
  const std::string id = Start(Of("data"));
  WaitForFills();
  proto::UnlinkRequest unlink;
  unlink.set_name("data");
  ASSERT_TRUE(admin.Call(address(), Method::kUnlink, unlink).has_value());
  const proto::TaskState task = WaitForTask(id);
  EXPECT_EQ(task.state(), kCancelled);
  EXPECT_EQ(task.error(), "the link was removed");
  Open();
}

TEST_F(PreloadTest, WhatCannotBeginSaysWhy) {
  EXPECT_EQ(Ask(Of("nope")).error().code, Code::kNotFound);
  EXPECT_EQ(Ask(Of("data/none")).error().code, Code::kNotFound);
  EXPECT_EQ(Ask(Of("")).error().code, Code::kInvalid);
  proto::PreloadRequest request = Of("data");
  request.set_until_ratio(1.5);
  EXPECT_EQ(Ask(request).error().code, Code::kInvalid);
  request = Of("data");
  request.set_names_upload("../../state");
  EXPECT_EQ(Ask(request).error().code, Code::kNotFound);
  EXPECT_EQ(Fills(), 0u);
}

TEST_F(PreloadTest, ACancelledFirstListingRemovesTheLinkThatNeverWas) {
  store.HangAfter(5);
  const auto linked =
      admin.Ask<proto::LinkReply>(address(), Method::kLink, LinkRequestFor("slow", "data/train/"));
  ASSERT_TRUE(linked.has_value()) << linked.error().message;
  ASSERT_TRUE(store.WaitUntilHanging());
  const auto cancelled = Change(Method::kCancelTask, linked->task_id());
  ASSERT_TRUE(cancelled.has_value()) << cancelled.error().message;
  EXPECT_EQ(Get(linked->task_id()).state(), kCancelled);
  EXPECT_EQ(GetLink("slow").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace forebay
