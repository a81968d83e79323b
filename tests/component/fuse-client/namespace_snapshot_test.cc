#include "fuse-client/namespace_snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "common/base/files.h"
#include "tests/component/fuse-client/client_fixture.h"
#include "tests/fakes/fake_coordinator.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::FakeCoordinator;
using fakes::SampleLink;
using std::chrono::milliseconds;
using std::chrono::seconds;

class NamespaceTest : public ClientFixture {
 protected:
  NamespaceTest() {
    std::map<std::string, std::uint64_t> keys;
    for (int i = 0; i < 20'000; ++i)
      keys["d" + std::to_string(i % 7) + "/" + std::to_string(i)] = 1;
    link_ = std::make_unique<SampleLink>("imagenet", std::move(keys));
    coordinator_ = std::make_unique<FakeCoordinator>(kTestSecret);
    Publish(1);
  }

  void Publish(std::uint64_t generation) {
    link_->BuildSnapshot(dir_ / "built.fbs", generation);
    coordinator_->SetLink(link_->State(), ReadWholeFile(dir_ / "built.fbs").value());
  }

  Result<MountedNamespace> Obtain(const std::string& link = "imagenet",
                                  Duration patience = seconds(20)) {
    NamespaceOptions options;
    options.state_dir = dir_ / "state";
    options.coordinators = {coordinator_->address()};
    options.call_timeout = seconds(2);
    options.retry_pause = milliseconds(10);
    NamespaceSource source(Parts(), options);
    return Run(source.Obtain(link, Deadline::After(patience)));
  }

  SnapshotFetcher::Parts Parts() {
    return {.pool = *pool_, .offload = offload_, .counts = counts_};
  }

  std::vector<std::string> FilesWith(const std::string& ending) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "state")) {
      if (entry.path().string().ends_with(ending)) found.push_back(entry.path().string());
    }
    return found;
  }

  fakes::TempDir dir_;
  Offload offload_{1, 16};
  SnapshotCounts counts_;
  std::unique_ptr<SampleLink> link_;
  std::unique_ptr<FakeCoordinator> coordinator_;
};

// What decides whether a mount follows.
TEST(IsLater, ALinkGoesForwardAlone) {
  proto::LinkState shown;
  shown.mutable_spec()->set_id("0123456789abcdef");
  shown.mutable_generation()->set_generation(7);
  proto::LinkState offered = shown;
  EXPECT_FALSE(IsLater(offered, shown));
  offered.mutable_generation()->set_generation(6);
  EXPECT_FALSE(IsLater(offered, shown)) << "of a coordinator with an old copy of its state";
  offered.mutable_generation()->set_generation(8);
  EXPECT_TRUE(IsLater(offered, shown));
  offered.mutable_generation()->set_generation(1'767'409'436);
  EXPECT_TRUE(IsLater(offered, shown)) << "of one whose state was restored";
  offered.mutable_spec()->set_id("another link    ");
  EXPECT_FALSE(IsLater(offered, shown)) << "of the same name";
  offered = shown;
  offered.clear_generation();
  EXPECT_FALSE(IsLater(offered, shown)) << "not listed yet";
}

TEST_F(NamespaceTest, TheSnapshotIsFetchedOnceAndKept) {
  const auto first = Obtain();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->snapshot->totals().objects, 20'000u);
  EXPECT_EQ(first->cluster, coordinator_->cluster());
  EXPECT_FALSE(first->from_disk);
  const std::uint64_t calls = coordinator_->snapshot_calls();
  EXPECT_GE(calls, 1u);
  ASSERT_TRUE(Obtain());
  EXPECT_EQ(coordinator_->snapshot_calls(), calls);
  EXPECT_TRUE(FilesWith(".tmp").empty());
}

TEST_F(NamespaceTest, ACorruptTransferIsFetchedAgain) {
  std::atomic<int> pieces{0};
  coordinator_->OnPiece([&](std::string& piece, std::uint64_t) {
    if (++pieces == 1) piece[piece.size() / 2] = static_cast<char>(piece[piece.size() / 2] ^ 1);
  });
  const auto found = Obtain();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->snapshot->VerifyAll());
  EXPECT_GT(pieces, 1);
}

TEST_F(NamespaceTest, AShortPieceIsContinuedAndAnEmptyOneRefused) {
  coordinator_->OnPiece(
      [](std::string& piece, std::uint64_t) { piece.resize((piece.size() + 1) / 2); });
  ASSERT_TRUE(Obtain());
  std::filesystem::remove_all(dir_ / "state");
  coordinator_->OnPiece([](std::string& piece, std::uint64_t) { piece.clear(); });
  const auto refused = Obtain();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_TRUE(FilesWith(".fbs").empty());
  EXPECT_TRUE(FilesWith(".tmp").empty());
}

TEST_F(NamespaceTest, WithoutACoordinatorTheLastGenerationIsMountedFromDisk) {
  ASSERT_TRUE(Obtain());
  coordinator_->Stop();
  const auto found = Obtain();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->from_disk);
  EXPECT_EQ(found->snapshot->totals().objects, 20'000u);
  EXPECT_EQ(found->cluster, coordinator_->cluster());
}

TEST_F(NamespaceTest, WithoutACoordinatorADamagedCopyIsNotMounted) {
  ASSERT_TRUE(Obtain());
  coordinator_->Stop();
  {
    std::fstream file(FilesWith(".fbs").at(0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file.put('\xff');
  }
  const auto found = Obtain("imagenet", milliseconds(100));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kUnavailable);
}

TEST_F(NamespaceTest, ADamagedCopyIsReplacedByTheCoordinators) {
  ASSERT_TRUE(Obtain());
  {
    std::fstream file(FilesWith(".fbs").at(0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file.put('\xff');
  }
  const auto found = Obtain();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->snapshot->VerifyAll());
}

TEST_F(NamespaceTest, ANewGenerationReplacesTheOldFile) {
  const auto first = Obtain();
  ASSERT_TRUE(first);
  Publish(2);
  const auto second = Obtain();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->snapshot->id().generation, 2u);
  EXPECT_EQ(FilesWith(".fbs").size(), 1u);
  // The mount that still shows the old one goes on.
  EXPECT_TRUE(first->snapshot->VerifyAll());
}

TEST_F(NamespaceTest, AnUnknownLinkIsAnErrorWithTheNearestName) {
  const auto found = Obtain("imagenett");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_NE(found.error().message.find("did you mean imagenet?"), std::string::npos);
}

TEST_F(NamespaceTest, ALinkThatIsGoneIsNotMountedFromDisk) {
  ASSERT_TRUE(Obtain());
  proto::LinkState other = link_->State();
  other.mutable_spec()->set_name("other");
  coordinator_->SetLink(other, "");
  const auto found = Obtain();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
}

TEST_F(NamespaceTest, TheFirstListingIsWaitedFor) {
  proto::LinkState listing = link_->State();
  listing.clear_generation();
  listing.set_state(0);
  coordinator_->SetLink(listing, "");
  const auto early = Obtain("imagenet", milliseconds(100));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kUnavailable);
  std::thread publisher([this] {
    EXPECT_TRUE(Eventually([this] { return coordinator_->link_calls() > 15; }));
    Publish(1);
  });
  const auto found = Obtain();
  publisher.join();
  ASSERT_TRUE(found) << found.error().message;
}

TEST_F(NamespaceTest, AFailedListingTellsWhy) {
  proto::LinkState failed = link_->State();
  failed.clear_generation();
  failed.set_state(2);
  failed.set_error("no such bucket");
  coordinator_->SetLink(failed, "");
  const auto found = Obtain();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kInvalid);
  EXPECT_NE(found.error().message.find("no such bucket"), std::string::npos);
}

TEST_F(NamespaceTest, FilesOfAnotherClusterAreNotUsed) {
  ASSERT_TRUE(Obtain());
  const std::string file = FilesWith("/coordinators").at(0);
  ASSERT_TRUE(WriteFileAtomically(file, "other-host:7440\n"));
  coordinator_->Stop();
  EXPECT_EQ(Obtain("imagenet", milliseconds(100)).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
