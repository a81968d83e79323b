// A part of a link with a manifest is refreshed: only the names that it concerns are looked up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kTaskDone = 1;
constexpr std::uint32_t kTaskFailed = 2;

class ManifestRefreshTest : public ClusterTest {
 protected:
  ManifestRefreshTest() {
    // Of what lies in S3 the manifest names every second object.
    for (int folder = 0; folder < 3; ++folder) {
      for (int i = 0; i < 40; ++i) {
        const std::string key = "data/c" + std::to_string(folder) + "/" + std::to_string(100 + i);
        store.Put(key, 10, "old");
        if (i % 2 == 0) names_.push_back(key);
      }
    }
    store.SetListFault([this](const ListRequest& request) -> std::optional<Error> {
      const std::scoped_lock lock(mutex_);
      asked_.push_back(request);
      return std::nullopt;
    });
    StartCoordinator();
  }

  /// A list, or with `attribute` an augmented manifest.
  void PutManifest(const std::vector<std::string>& names, const std::string& attribute = "") {
    std::string text;
    for (const std::string& name : names) {
      text += attribute.empty() ? "s3://bucket/" + name + "\n"
                                : R"({"source-ref":"s3://bucket/)" + name + R"(","class":")" +
                                      attribute + "\"}\n";
    }
    store.PutText("lists/m", text);
  }
  proto::TaskState Link(bool skip_bad = false, bool posix = false) {
    proto::LinkRequest request = LinkRequestFor("named", "");
    request.clear_bucket();
    request.set_manifest("s3://bucket/lists/m");
    request.set_skip_bad(skip_bad);
    request.set_posix_metadata(posix);
    const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
    EXPECT_TRUE(linked.has_value()) << linked.error().message;
    const proto::TaskState task = linked ? WaitForTask(linked->task_id()) : proto::TaskState();
    Forget();
    return task;
  }
  proto::TaskState Refresh(const std::string& target) {
    proto::RefreshRequest request;
    request.mutable_target()->set_text(target);
    const auto reply = admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request);
    EXPECT_TRUE(reply.has_value()) << reply.error().message;
    return reply ? WaitForTask(reply->task_id()) : proto::TaskState();
  }

  void Forget() {
    const std::scoped_lock lock(mutex_);
    asked_.clear();
    heads_ = store.heads();
  }
  /// The prefixes that S3 was asked for since Forget.
  std::vector<std::string> Asked() {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> prefixes;
    prefixes.reserve(asked_.size());
    for (const ListRequest& request : asked_) prefixes.push_back(request.prefix);
    return prefixes;
  }
  std::vector<ListRequest> Requests() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  std::uint64_t Heads() { return store.heads() - heads_; }

  std::shared_ptr<const Snapshot> Shown() {
    const auto link = GetLink("named");
    if (!link) return nullptr;
    const Uuid id = UuidFromBytes(link->spec().id());
    const auto path = dir / state_name / "snapshots" / id.ToString() /
                      (std::to_string(link->generation().generation()) + ".fbs");
    const auto snapshot = Snapshot::Open(path.string());
    EXPECT_TRUE(snapshot.has_value());
    return snapshot ? *snapshot : nullptr;
  }
  std::string EtagOf(const std::string& path) {
    const auto snapshot = Shown();
    const auto row = snapshot->Resolve(path);
    return row ? snapshot->EtagOf(*row) : "none";
  }
  /// The paths of the sidecar, in its order, with the class of each.
  std::vector<std::string> Lines() {
    const auto snapshot = Shown();
    std::vector<std::string> lines;
    EXPECT_TRUE(snapshot->ForEachLine([&](const SnapshotRow& row, std::string_view json) {
      const std::size_t at = json.find("class") + 8;
      lines.push_back(snapshot->PathOf(row) + " " +
                      std::string(json.substr(at, json.size() - at - 2)));
      return true;
    }));
    return lines;
  }
  /// A second generation that is built meets a folder in the place of its file.
  void BlockBuilds() {
    const Uuid id = UuidFromBytes(GetLink("named")->spec().id());
    const auto file = dir / state_name / "snapshots" / id.ToString() / "2.fbs.tmp";
    std::filesystem::create_directories(file);
  }
  std::uint64_t Generation() { return GetLink("named")->generation().generation(); }

  std::vector<std::string> names_;

 private:
  std::mutex mutex_;
  std::vector<ListRequest> asked_;
  std::uint64_t heads_ = 0;
};

TEST_F(ManifestRefreshTest, OfOneKeyItIsLookedUpAlone) {
  PutManifest(names_);
  ASSERT_EQ(Link().state(), kTaskDone);
  store.Put("data/c1/104", 12, "new");
  store.Put("data/c1/106", 12, "new");
  store.PutText("lists/m", "what nobody reads");
  const proto::TaskState task = Refresh("named/c1/104");
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  EXPECT_THAT(Asked(), ElementsAre("data/c1/104"));
  EXPECT_EQ(Heads(), 0U) << "the manifest is not read";
  EXPECT_EQ(task.changed(), 1U);
  EXPECT_EQ(task.added() + task.removed(), 0U);
  EXPECT_EQ(EtagOf("c1/104"), "new");
  EXPECT_EQ(EtagOf("c1/106"), "old") << "nobody asked for it";
  EXPECT_EQ(GetLink("named")->generation().objects(), names_.size());
  EXPECT_EQ(GetLink("named")->generation().deltas_size(), 1) << "mounts get the difference";
}

TEST_F(ManifestRefreshTest, WhereNothingHasChangedTheGenerationStaysAndNothingIsBuilt) {
  for (const std::string attribute : {"", "cat"}) {
    PutManifest({names_.rbegin(), names_.rend()}, attribute);
    ASSERT_EQ(Link().state(), kTaskDone);
    for (const std::string target : {"named/c1/104", "named/c1", "named"}) {
      BlockBuilds();
      const proto::TaskState task = Refresh(target);
      EXPECT_EQ(task.state(), kTaskDone) << target << ": " << task.error();
    }
    EXPECT_EQ(Generation(), 1U);
    proto::UnlinkRequest request;
    request.set_name("named");
    ASSERT_TRUE(admin.Ask<proto::UnlinkReply>(address(), Method::kUnlink, request).has_value());
  }
}

TEST_F(ManifestRefreshTest, OfAFolderItsNamesAreLookedUp) {
  PutManifest(names_);
  ASSERT_EQ(Link().state(), kTaskDone);
  store.Put("data/c1/104", 12, "new");
  store.Put("data/c1/110", 12, "new");
  store.Put("data/c2/104", 12, "new");
  const proto::TaskState task = Refresh("named/c1");
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  EXPECT_EQ(task.changed(), 2U);
  for (const ListRequest& request : Requests()) {
    EXPECT_GE(std::max(request.start_after, request.prefix), "data/c1/") << "nothing before it";
    EXPECT_LT(std::max(request.start_after, request.prefix), "data/c1/138") << "nor behind it";
  }
  EXPECT_EQ(Heads(), 0U);
  EXPECT_EQ(EtagOf("c2/104"), "old");
  EXPECT_EQ(EtagOf("c1/105"), "none") << "the manifest does not name it";
  EXPECT_EQ(Refresh("named").changed(), 1U) << "a refresh of the whole finds the rest";
}

TEST_F(ManifestRefreshTest, WhatTheManifestHasNamedSinceComesWithTheWhole) {
  PutManifest(names_);
  ASSERT_EQ(Link().state(), kTaskDone);
  names_.push_back("data/c1/101");
  PutManifest(names_);
  EXPECT_EQ(Refresh("named/c1").added(), 0U);
  EXPECT_EQ(Heads(), 0U);
  // A name that the link does not show can only be the manifest's.
  const proto::TaskState task = Refresh("named/c1/101");
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  EXPECT_EQ(task.added(), 1U);
  EXPECT_EQ(Heads(), 1U) << "the manifest";
  EXPECT_EQ(EtagOf("c1/101"), "old");
}

TEST_F(ManifestRefreshTest, AttributesStayWithWhatIsLookedUpAndWithTheRest) {
  std::vector<std::string> turned(names_.rbegin(), names_.rend());
  turned.push_back(names_[3]);
  PutManifest(turned, "cat");
  ASSERT_EQ(Link().state(), kTaskDone);
  const std::vector<std::string> before = Lines();
  ASSERT_EQ(before.size(), turned.size());
  EXPECT_EQ(before.front(), "c2/138 cat");
  EXPECT_EQ(before.back(), "c0/106 cat");
  PutManifest(names_, "dog");
  store.Put("data/c0/106", 12, "new");
  EXPECT_EQ(Refresh("named/c0/106").changed(), 1U);
  EXPECT_EQ(Lines(), before) << "of one version of the manifest";
  ASSERT_EQ(GetLink("named")->generation().deltas_size(), 1) << "mounts get the difference";
  EXPECT_LT(GetLink("named")->generation().deltas(0).bytes(), 136U + 2 * 200);
  store.Put("data/c2/138", 12, "new");
  EXPECT_EQ(Refresh("named/c2").changed(), 1U);
  EXPECT_EQ(Lines(), before);
  EXPECT_EQ(Refresh("named").state(), kTaskDone);
  EXPECT_EQ(Lines().front(), "c0/100 dog");
  EXPECT_EQ(Lines().size(), names_.size());
}

TEST_F(ManifestRefreshTest, ANameThatIsGoneFailsItAndLeavesTheLink) {
  PutManifest(names_);
  ASSERT_EQ(Link().state(), kTaskDone);
  store.Erase("data/c1/104");
  store.Put("data/c1/106", 12, "new");
  for (const std::string target : {"named/c1/104", "named/c1"}) {
    const proto::TaskState task = Refresh(target);
    EXPECT_EQ(task.state(), kTaskFailed);
    EXPECT_THAT(task.error(), HasSubstr("s3://bucket/data/c1/104 is not there: correct it"));
    EXPECT_THAT(task.error(), HasSubstr("--skip-bad"));
  }
  EXPECT_EQ(Generation(), 1U);
  EXPECT_EQ(EtagOf("c1/106"), "old");
}

TEST_F(ManifestRefreshTest, WithSkipBadANameThatIsGoneIsLeftOutAndComesBackWithTheWhole) {
  PutManifest(names_);
  ASSERT_EQ(Link(true).state(), kTaskDone);
  store.Erase("data/c1/104");
  const proto::TaskState task = Refresh("named/c1/104");
  EXPECT_EQ(task.state(), kTaskDone) << task.error();
  EXPECT_EQ(task.removed(), 1U);
  EXPECT_EQ(task.failed(), 1U);
  proto::GetTaskRequest look;
  look.set_id(task.id());
  look.set_with_failures(true);
  const auto report = admin.Ask<proto::TaskState>(address(), Method::kGetTask, look);
  ASSERT_EQ(report->failures_size(), 1);
  EXPECT_EQ(report->failures(0).reason(), "s3://bucket/data/c1/104 is not there: correct it");
  EXPECT_EQ(EtagOf("c1/104"), "none");
  // All of a folder: it goes with its last file.
  for (int i = 0; i < 40; i += 2) store.Erase("data/c2/" + std::to_string(100 + i));
  EXPECT_EQ(Refresh("named/c2").removed(), 20U);
  EXPECT_FALSE(Shown()->Resolve("c2").has_value());
  store.Put("data/c1/104", 10, "again");
  EXPECT_EQ(Refresh("named/c1/104").added(), 1U);
  EXPECT_EQ(EtagOf("c1/104"), "again");
  for (int folder = 0; folder < 2; ++folder) {
    for (int i = 0; i < 40; ++i)
      store.Erase("data/c" + std::to_string(folder) + "/" + std::to_string(100 + i));
  }
  EXPECT_EQ(Refresh("named/c0").removed(), 20U);
  const proto::TaskState last = Refresh("named/c1");
  EXPECT_EQ(last.state(), kTaskFailed);
  EXPECT_THAT(last.error(), HasSubstr("it leaves nothing to link"));
}

TEST_F(ManifestRefreshTest, EverySortOfRefreshComesToWhatANewLinkShows) {
  // A file that a folder hides, a folder that is there by its marker alone, a marker with bytes.
  for (const std::string key : {"data/c0", "data/c0/sub/", "data/c1/deep/x", "data/c1/deep/"}) {
    store.Put(key, key == "data/c1/deep/" ? 5 : 0, "old");
    names_.push_back(key);
  }
  PutManifest(names_);
  ASSERT_EQ(Link().state(), kTaskDone);
  for (const std::string target : {"named/c0", "named/c0/sub", "named/c0/100", "named/c1/deep",
                                   "named/c1/deep/x", "named/c2/138"}) {
    store.Put("data/c0/100", 10, "new" + target);
    store.Put("data/c1/deep/x", 10, "new" + target);
    EXPECT_EQ(Refresh(target).state(), kTaskDone) << target;
    const auto part = Shown();
    EXPECT_EQ(part->totals().hidden_keys, 2U) << target;
    EXPECT_TRUE(part->Resolve("c0/sub").has_value()) << target;
  }
  EXPECT_EQ(Refresh("named").state(), kTaskDone);
  EXPECT_EQ(Refresh("named/c0").changed() + Refresh("named/c1").changed(), 0U);
}

TEST_F(ManifestRefreshTest, WithPosixMetadataOneHeadIsAskedForTheKey) {
  PutManifest(names_);
  store.SetPosix("data/c1/104", {.uid = 7});
  ASSERT_EQ(Link(false, true).state(), kTaskDone);
  store.SetPosix("data/c1/104", {.uid = 8});
  EXPECT_EQ(Refresh("named/c1/104").state(), kTaskDone);
  EXPECT_THAT(Asked(), ElementsAre("data/c1/104"));
  EXPECT_EQ(Heads(), 1U);
  const auto shown = Shown();
  EXPECT_EQ(shown->PosixOf(*shown->Resolve("c1/104"))->uid, 8U);
}

TEST_F(ManifestRefreshTest, ANodeThatFindsAnObjectChangedHasItLookedUpAlone) {
  PutManifest(names_, "cat");
  ASSERT_EQ(Link().state(), kTaskDone);
  FakeNode node("n1", secret);
  ASSERT_TRUE(node.Register(address()).has_value());
  for (const std::string path : {"c1/104", "c2/120"}) {
    store.Put("data/" + path, 12, "new");
    proto::ChangedObject& object = *node.changed.Add();
    object.set_link(GetLink("named")->spec().id());
    object.set_key("data/" + path);
    object.set_etag("old");
  }
  ASSERT_TRUE(node.Heartbeat(address()).has_value());
  const Deadline deadline = Deadline::After(std::chrono::seconds(20));
  while ((EtagOf("c1/104") != "new" || EtagOf("c2/120") != "new") && !deadline.Expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::vector<std::string> asked = Asked();
  std::ranges::sort(asked);
  EXPECT_THAT(asked, ElementsAre("data/c1/104", "data/c2/120")) << "together, or one by one";
  EXPECT_EQ(Heads(), 0U);
  EXPECT_EQ(Lines().size(), names_.size());
}

// The coordinator goes away in the middle of its look-ups.
class ManifestResumeTest : public ManifestRefreshTest {
 protected:
  ManifestResumeTest() {
    // Many that nobody wants between any two that are named.
    for (int i = 0; i < 2'000; ++i) {
      const std::string key = "far/" + std::to_string(10'000 + i);
      store.Put(key, 10, "old");
      if (i % 10 == 0) far_.push_back(key);
    }
    PutManifest(far_);
  }

  std::string Begin() {
    proto::LinkRequest request = LinkRequestFor("named", "");
    request.clear_bucket();
    request.set_manifest("s3://bucket/lists/m");
    request.set_skip_bad(true);
    const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
    EXPECT_TRUE(linked.has_value()) << linked.error().message;
    return linked ? linked->task_id() : "";
  }
  /// Does `begin`, and ends the coordinator behind so many LISTs; the next one finds what S3 has
  /// then.
  void InterruptAfter(std::uint64_t lists, const std::function<void()>& begin) {
    store.HangAfter(lists);  // before: all of them may be over in a moment
    begin();
    EXPECT_TRUE(store.WaitUntilHanging());
    EXPECT_FALSE(GetLink("named")->has_generation()) << "nothing shows before all is there";
    StopCoordinator();
  }
  /// What looking up every name takes.
  std::uint64_t Without() {
    const std::uint64_t before = store.lists();
    EXPECT_EQ(WaitForTask(Begin()).state(), kTaskDone);
    proto::UnlinkRequest request;
    request.set_name("named");
    EXPECT_TRUE(admin.Ask<proto::UnlinkReply>(address(), Method::kUnlink, request).has_value());
    return store.lists() - before;
  }

  /// Four lanes of 50 names; what they may ask again.
  static constexpr std::uint64_t kAgain = 4 * std::uint64_t{8};
  std::vector<std::string> far_;
};

TEST_F(ManifestResumeTest, WhatWasLookedUpIsNotLookedUpAgain) {
  store.Erase(far_[20]);
  store.Erase(far_[21]);
  const std::uint64_t without = Without();
  EXPECT_GE(without, far_.size()) << "far apart";
  const std::uint64_t before = store.lists();
  std::string task;
  InterruptAfter(without * 2 / 3, [&] { task = Begin(); });
  InterruptAfter(without / 10, [&] { StartCoordinator(); });
  StartCoordinator();
  const proto::TaskState done = WaitForTask(task);
  ASSERT_EQ(done.state(), kTaskDone) << done.error();
  EXPECT_EQ(done.done(), far_.size() - 2);
  EXPECT_EQ(done.failed(), 2U) << "also of what was looked up in vain before";
  EXPECT_LE(store.lists() - before, without + 2 * kAgain);
  const auto shown = Shown();
  EXPECT_EQ(shown->totals().objects, far_.size() - 2);
  EXPECT_FALSE(shown->Resolve(far_[20].substr(4)).has_value());
  EXPECT_TRUE(shown->Resolve(far_[22].substr(4)).has_value());
}

TEST_F(ManifestResumeTest, NothingIsLookedUpAgainWhereOnlyMetadataWasLeftToAsk) {
  for (const std::string& key : far_) store.SetPosix(key, {.uid = 7});
  proto::LinkRequest request = LinkRequestFor("named", "");
  request.clear_bucket();
  request.set_manifest("s3://bucket/lists/m");
  request.set_posix_metadata(true);
  store.HangAfterHeads(100);
  const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
  ASSERT_TRUE(linked.has_value()) << linked.error().message;
  ASSERT_TRUE(store.WaitUntilHanging());
  StopCoordinator();
  const std::uint64_t lists = store.lists();
  StartCoordinator();
  const proto::TaskState done = WaitForTask(linked->task_id());
  ASSERT_EQ(done.state(), kTaskDone) << done.error();
  EXPECT_EQ(store.lists(), lists);
  const auto shown = Shown();
  EXPECT_EQ(shown->totals().objects, far_.size());
  EXPECT_EQ(shown->PosixOf(*shown->Resolve(far_[9].substr(4)))->uid, 7U);
}

TEST_F(ManifestResumeTest, AManifestThatNamesOthersByThenIsLookedUpAnew) {
  std::string task;
  InterruptAfter(100, [&] { task = Begin(); });
  far_.erase(far_.begin() + 3, far_.begin() + 60);
  far_.push_back("far/11999");
  PutManifest(far_);
  StartCoordinator();
  const proto::TaskState done = WaitForTask(task);
  ASSERT_EQ(done.state(), kTaskDone) << done.error();
  EXPECT_EQ(Shown()->totals().objects, far_.size());
  EXPECT_TRUE(Shown()->Resolve("11999").has_value());
}

}  // namespace
}  // namespace forebay
