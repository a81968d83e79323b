// A link that shows what its objects' metadata says: a HEAD for each, once.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/snapshot/snapshot.h"
#include "common/wire/messages.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

constexpr std::uint32_t kTaskDone = 1;
constexpr std::uint32_t kTaskFailed = 2;

class PosixTest : public ClusterTest {
 protected:
  PosixTest() { StartCoordinator(); }

  void Put(int first, int end) {
    for (int i = first; i < end; ++i) {
      const std::string key = "data/" + std::to_string(i);
      store.Put(key, 10);
      store.SetPosix(key, {.uid = static_cast<std::uint32_t>(i)});
    }
  }

  std::string Link() {
    proto::LinkRequest request = LinkRequestFor("data", "data/");
    request.set_posix_metadata(true);
    const auto linked = admin.Ask<proto::LinkReply>(address(), Method::kLink, request);
    EXPECT_TRUE(linked.has_value()) << linked.error().message;
    return linked ? linked->task_id() : "";
  }

  proto::TaskState Refresh(const std::string& target = "data") {
    proto::RefreshRequest request;
    request.mutable_target()->set_text(target);
    const auto begun = admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request);
    EXPECT_TRUE(begun.has_value());
    return WaitForTask(begun->task_id());
  }

  std::shared_ptr<const Snapshot> Current() {
    const proto::LinkState link = *GetLink("data");
    const std::filesystem::path file = dir / "state" / "snapshots" /
                                       UuidFromBytes(link.spec().id()).ToString() /
                                       (std::to_string(link.generation().generation()) + ".fbs");
    return Snapshot::Open(file).value();
  }
  std::optional<std::uint32_t> OwnerOf(const std::string& path) {
    const auto snapshot = Current();
    const auto row = snapshot->Resolve(path);
    const auto posix = row ? snapshot->PosixOf(*row) : std::nullopt;
    return posix ? posix->uid : std::nullopt;
  }
};

TEST_F(PosixTest, EachObjectIsAskedAboutOnceAndAgainOnlyWhenItChanged) {
  Put(0, 300);
  ASSERT_EQ(WaitForTask(Link()).state(), kTaskDone);
  EXPECT_EQ(store.heads(), 300u);
  for (const int i : {0, 7, 299}) EXPECT_EQ(OwnerOf(std::to_string(i)), static_cast<unsigned>(i));

  EXPECT_EQ(Refresh().state(), kTaskDone);
  EXPECT_EQ(store.heads(), 300u);
  EXPECT_EQ(GetLink("data")->generation().generation(), 1u);

  // Metadata is replaced by a copy of the object onto itself: its ETag stays, its time does not.
  store.SetPosix("data/7", {.mode = 0600, .uid = 4711});
  Put(300, 310);
  EXPECT_EQ(Refresh().state(), kTaskDone);
  EXPECT_EQ(store.heads(), 311u);
  EXPECT_EQ(OwnerOf("7"), 4711u);
  EXPECT_EQ(OwnerOf("8"), 8u);
  EXPECT_EQ(OwnerOf("305"), 305u);

  store.SetPosix("data/8", {.uid = 4712});
  EXPECT_EQ(Refresh("data/8").state(), kTaskDone);
  EXPECT_EQ(store.heads(), 312u);
  EXPECT_EQ(OwnerOf("8"), 4712u);
  EXPECT_EQ(OwnerOf("9"), 9u) << "a refresh of a part carries the rest over";
}

TEST_F(PosixTest, WhatWasAskedBeforeAnInterruptionIsNotAskedAgain) {
  constexpr int kObjects = 12'000;
  Put(0, kObjects);
  store.HangAfterHeads(11'000);
  const std::string task = Link();
  ASSERT_TRUE(store.WaitUntilHanging());
  EXPECT_FALSE(GetLink("data")->has_generation());
  StopCoordinator();
  EXPECT_EQ(store.heads(), 11'000u);

  StartCoordinator();
  EXPECT_EQ(WaitForTask(task).state(), kTaskDone);
  EXPECT_EQ(store.heads(), 11'000u + 2'000u) << "two of three batches of 5,000 were on disk";
  EXPECT_EQ(OwnerOf("0"), 0u);
  EXPECT_EQ(OwnerOf("11999"), 11'999u);
}

TEST_F(PosixTest, ARefusedHeadLinksNothingAndSaysWhy) {
  Put(0, 10);
  store.FailHeads(Error{Code::kDenied, "S3 refused HEAD (403)"});
  const proto::TaskState task = WaitForTask(Link());
  EXPECT_EQ(task.state(), kTaskFailed);
  EXPECT_NE(task.error().find("metadata: S3 refused HEAD"), std::string::npos) << task.error();
  EXPECT_EQ(GetLink("data").error().code, Code::kNotFound);
}

TEST_F(PosixTest, OtherLinksAskNothing) {
  Put(0, 10);
  MakeLink("data", "data/");
  EXPECT_EQ(store.heads(), 0u);
  EXPECT_EQ(OwnerOf("3"), std::nullopt);
}

}  // namespace
}  // namespace forebay
