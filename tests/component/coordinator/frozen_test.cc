// The listing of an immutable link is lost: what comes back is the same one, or nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint32_t kTaskDone = 1;
constexpr std::uint32_t kTaskFailed = 2;

class FrozenTest : public ClusterTest {
 protected:
  void SetUp() override {
    for (int i = 0; i < 20; ++i) store.Put("data/" + std::to_string(100 + i), 10, "etag-0");
    StartCoordinator();
    Freeze("frozen", RefreshPolicy::kImmutable);
    Freeze("other", RefreshPolicy::kOnDemand);
    was_ = GetLink("frozen")->generation();
  }

  void Freeze(const std::string& name, RefreshPolicy refresh) {
    proto::LinkRequest request = LinkRequestFor(name, "data/");
    request.set_refresh(static_cast<std::uint32_t>(refresh));
    const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
    ASSERT_TRUE(linked.has_value()) << linked.error().message;
    ASSERT_EQ(WaitForTask(linked->task_id()).state(), kTaskDone);
  }

  std::filesystem::path FileOf(const std::string& name) {
    const proto::LinkState link = *GetLink(name);
    return dir / state_name / "snapshots" / UuidFromBytes(link.spec().id()).ToString() /
           (std::to_string(link.generation().generation()) + ".fbs");
  }

  /// The coordinator restarts over a file of which one byte in the middle is another one.
  void Damage(const std::string& name) {
    const std::filesystem::path path = FileOf(name);
    StopCoordinator();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.is_open()) << path;
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
    file.seekg(middle);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(middle);
    file.put(byte);
    file.close();
    StartCoordinator();
  }
  /// The same, with files that are gone.
  void LoseAll() {
    StopCoordinator();
    std::filesystem::remove_all(dir / state_name / "snapshots");
    StartCoordinator();
  }
  void ChangeS3() { store.Put("data/105", 10, "etag-1"); }
  void PutBack() { store.Put("data/105", 10, "etag-0"); }

  /// Whether it comes to be so.
  static bool Eventually(const std::function<bool()>& is_so) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(30));
    while (!is_so()) {
      if (deadline.Expired()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  std::vector<proto::Alert> Alerts() {
    const auto stats =
        admin.Ask<proto::StatsReply>(address(), Method::kStats, proto::StatsRequest());
    if (!stats) {
      ADD_FAILURE() << stats.error().message;
      return {};
    }
    return {stats->alerts().begin(), stats->alerts().end()};
  }
  std::vector<proto::TaskState> Tasks() {
    const auto reply =
        admin.Ask<proto::ListTasksReply>(address(), Method::kListTasks, proto::ListTasksRequest());
    if (!reply) return {};
    return {reply->tasks().begin(), reply->tasks().end()};
  }
  std::vector<proto::TaskState> FailedTasks() {
    std::vector<proto::TaskState> tasks = Tasks();
    std::erase_if(tasks, [](const proto::TaskState& task) {
      return task.target() != "frozen" || task.state() != kTaskFailed;
    });
    return tasks;
  }
  Result<proto::RefreshReply> Refresh(const std::string& name) {
    proto::RefreshRequest request;
    request.mutable_target()->set_text(name);
    return admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request);
  }
  Result<RpcReply> ReadListing(const std::string& name) {
    const proto::LinkState link = *GetLink(name);
    proto::ReadSnapshotRequest request;
    request.set_link(link.spec().id());
    request.set_generation(link.generation().generation());
    request.set_length(static_cast<std::uint32_t>(link.generation().snapshot_bytes()));
    return client.Call(address(), Method::kReadSnapshot, request);
  }

  /// The listing was lost and S3 has other objects.
  void ExpectRefused() {
    ASSERT_TRUE(Eventually([&] { return !GetLink("frozen")->error().empty(); }));
    const proto::LinkState link = *GetLink("frozen");
    EXPECT_EQ(link.generation().SerializeAsString(), was_.SerializeAsString())
        << "what mounts hold goes on";
    EXPECT_THAT(link.error(),
                HasSubstr("s3://bucket/data/ does not list what link 'frozen' froze"));
    EXPECT_THAT(link.error(), HasSubstr(was_.listing_digest()));
    EXPECT_THAT(link.error(), HasSubstr("`forebay unlink frozen`"));
    std::int64_t ended = 0;
    for (const proto::TaskState& task : FailedTasks()) {
      EXPECT_EQ(task.error(), link.error());
      ended = std::max(ended, task.ended_unix_s());
    }
    EXPECT_GT(ended, 0);
    const std::vector<proto::Alert> alerts = Alerts();
    ASSERT_EQ(alerts.size(), 1U);
    EXPECT_EQ(alerts[0].name(), "frozen_listing_lost");
    EXPECT_EQ(alerts[0].since_unix_s(), ended);
    EXPECT_THAT(alerts[0].message(), HasSubstr(link.error()));
    EXPECT_THAT(alerts[0].action(), HasSubstr("`forebay refresh frozen`"));
    const auto read = ReadListing("frozen");
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, Code::kNotFound);
    EXPECT_THAT(read.error().message, HasSubstr("the listing of the frozen link 'frozen' is lost"));
  }
  /// It was lost and S3 has the same objects.
  void ExpectSame() {
    ASSERT_TRUE(Eventually(
        [&] { return GetLink("frozen")->generation().generation() > was_.generation(); }));
    const proto::LinkState link = *GetLink("frozen");
    EXPECT_EQ(link.generation().listing_digest(), was_.listing_digest());
    EXPECT_EQ(link.generation().objects(), was_.objects());
    EXPECT_EQ(link.error(), "");
    EXPECT_THAT(Alerts(), IsEmpty());
    EXPECT_TRUE(ReadListing("frozen").has_value());
    const auto refused = Refresh("frozen");
    ASSERT_FALSE(refused.has_value()) << "it is as frozen as before";
    EXPECT_THAT(refused.error().message, HasSubstr("immutable"));
  }

  proto::GenerationInfo was_;
};

TEST_F(FrozenTest, ADamagedListingOfWhatS3StillHasIsMadeAgain) {
  Damage("frozen");
  ExpectSame();
}

TEST_F(FrozenTest, ADamagedListingOfWhatHasChangedIsNotReplaced) {
  ChangeS3();
  Damage("frozen");
  ExpectRefused();
}

TEST_F(FrozenTest, ALostListingOfWhatHasChangedIsNotReplacedNorAtTheNextStart) {
  ChangeS3();
  LoseAll();
  ExpectRefused();
  StopCoordinator();
  StartCoordinator();
  ASSERT_TRUE(Eventually([&] { return FailedTasks().size() == 2; }));
  ExpectRefused();
}

TEST_F(FrozenTest, ANewAGoneAndAnEmptiedPrefixAreOtherListings) {
  store.Put("data/new", 1);
  LoseAll();
  ExpectRefused();
  store.Erase("data/new");
  for (int i = 0; i < 20; ++i) store.Erase("data/" + std::to_string(100 + i));
  const auto again = Refresh("frozen");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  const proto::TaskState task = WaitForTask(again->task_id());
  EXPECT_EQ(task.state(), kTaskFailed);
  EXPECT_THAT(task.error(), HasSubstr("now 0 objects of 0 bytes"));
  ASSERT_TRUE(GetLink("frozen").has_value()) << "it is not removed";
  EXPECT_EQ(GetLink("frozen")->generation().SerializeAsString(), was_.SerializeAsString());
}

TEST_F(FrozenTest, AnS3ThatRefusesLeavesTheLink) {
  store.SetListFault([](const ListRequest&) -> std::optional<Error> {
    return Error{Code::kDenied, "S3 refuses"};
  });
  LoseAll();
  ASSERT_TRUE(Eventually([&] { return GetLink("frozen")->error() == "S3 refuses"; }));
  EXPECT_EQ(GetLink("frozen")->generation().SerializeAsString(), was_.SerializeAsString());
  store.SetListFault(nullptr);
  const auto again = Refresh("frozen");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(WaitForTask(again->task_id()).state(), kTaskDone);
  EXPECT_EQ(GetLink("frozen")->generation().listing_digest(), was_.listing_digest());
}

TEST_F(FrozenTest, WhatIsPutBackInS3IsShownAgainWhenAsked) {
  ChangeS3();
  Damage("frozen");
  ExpectRefused();
  PutBack();
  const auto again = Refresh("frozen");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(again->started());
  const proto::TaskState task = WaitForTask(again->task_id());
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  ExpectSame();
}

TEST_F(FrozenTest, ALinkThatIsMadeAgainIsLookedForAgain) {
  const std::filesystem::path file = FileOf("frozen");
  std::filesystem::copy_file(file, dir / "saved");
  ChangeS3();
  LoseAll();
  ExpectRefused();
  proto::LinkRequest request = LinkRequestFor("frozen", "data/");
  request.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kImmutable));
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::copy_file(dir / "saved", file);
  const auto again = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_NE(again->task_id(), "");
  const proto::TaskState task = WaitForTask(again->task_id());
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  EXPECT_EQ(task.total(), was_.objects());
  EXPECT_EQ(task.bytes(), was_.bytes());
  EXPECT_THAT(Alerts(), IsEmpty());
}

TEST_F(FrozenTest, TheFileItselfIsTakenBack) {
  const std::filesystem::path file = FileOf("frozen");
  std::filesystem::copy_file(file, dir / "saved");
  ChangeS3();
  LoseAll();
  ExpectRefused();
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::copy_file(dir / "saved", file);
  const auto again = Refresh("frozen");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(WaitForTask(again->task_id()).state(), kTaskDone);
  EXPECT_EQ(GetLink("frozen")->generation().SerializeAsString(), was_.SerializeAsString());
  EXPECT_EQ(GetLink("frozen")->error(), "");
  EXPECT_THAT(Alerts(), IsEmpty());
  EXPECT_TRUE(ReadListing("frozen").has_value());
}

TEST_F(FrozenTest, ARelistingThatIsInterruptedGoesOnAndCannotBeCancelled) {
  StopCoordinator();
  std::filesystem::remove_all(dir / state_name / "snapshots");
  store.HangAfter(0);
  StartCoordinator();
  ASSERT_TRUE(store.WaitUntilHanging());
  const auto running = [&](const proto::TaskState& task) {
    return task.target() == "frozen" && task.ended_unix_s() == 0;
  };
  std::vector<proto::TaskState> tasks = Tasks();
  const auto found = std::ranges::find_if(tasks, running);
  ASSERT_NE(found, tasks.end());
  const std::string task = found->id();
  EXPECT_EQ(GetLink("frozen")->generation().SerializeAsString(), was_.SerializeAsString());
  proto::ChangeTaskRequest cancel;
  cancel.set_id(task);
  const auto refused = admin.Ask<proto::ChangeTaskReply>(address(), Method::kCancelTask, cancel);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  ChangeS3();
  StopCoordinator();
  StartCoordinator();
  EXPECT_EQ(WaitForTask(task).state(), kTaskFailed);
  ExpectRefused();
}

TEST_F(FrozenTest, ARestoredClusterShowsTheSameOrNothing) {
  const std::string bytes = Backup();
  for (const bool changed : {true, false}) {
    StopCoordinator();
    changed ? ChangeS3() : PutBack();
    state_name = changed ? "changed" : "unchanged";
    StartCoordinator();
    const auto restored = Restore(bytes);
    ASSERT_TRUE(restored.has_value()) << restored.error().message;
    StopCoordinator();
    StartCoordinator();
    if (changed) {
      ExpectRefused();
    } else {
      ExpectSame();
    }
  }
}

TEST_F(FrozenTest, ALinkThatMayBeRefreshedShowsWhatS3HasNow) {
  ChangeS3();
  const proto::GenerationInfo was = GetLink("other")->generation();
  Damage("other");
  ASSERT_TRUE(
      Eventually([&] { return GetLink("other")->generation().generation() > was.generation(); }));
  EXPECT_NE(GetLink("other")->generation().listing_digest(), was.listing_digest());
  EXPECT_EQ(GetLink("other")->error(), "");
  EXPECT_EQ(GetLink("frozen")->generation().SerializeAsString(), was_.SerializeAsString());
  EXPECT_THAT(Alerts(), IsEmpty());
}

}  // namespace
}  // namespace forebay
