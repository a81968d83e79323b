#include "fuse-client/namespace_snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "common/base/files.h"
#include "fuse-client/error_log.h"
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
    if (!first_.empty()) options.coordinators.insert(options.coordinators.begin(), first_);
    options.call_timeout = seconds(2);
    options.retry_pause = milliseconds(10);
    NamespaceSource source(Parts(), options);
    return Run(source.Obtain(link, Deadline::After(patience)));
  }

  Result<KnownLinks> Links(bool wait = false, const std::string& name = "") {
    NamespaceOptions options;
    options.state_dir = dir_ / "state";
    options.coordinators = {coordinator_->address()};
    NamespaceSource source(Parts(), options);
    return wait ? Run(source.WaitForLinks(name, Deadline::After(seconds(20))))
                : Run(source.Links(name));
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
  std::string first_;  // a coordinator to be asked before the other one
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
  // Nothing is mounted yet, and a coordinator that lists mounts is told so.
  EXPECT_TRUE(coordinator_->last_link_request().has_mount());
  EXPECT_EQ(coordinator_->last_link_request().mount().mountpoint(), "");
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

// A link that is removed and made anew under its name does not leave the listings of the ones
// before.
TEST_F(NamespaceTest, WithoutACoordinatorWhatWasMountedLastIsMounted) {
  Uuid last;
  for (int i = 0; i < 8; ++i) {
    link_ =
        std::make_unique<SampleLink>("imagenet", std::map<std::string, std::uint64_t>{{"a", 1}});
    last = link_->id();
    Publish(1);
    ASSERT_TRUE(Obtain());
    EXPECT_EQ(FilesWith(".fbs").size(), 1u);
  }
  coordinator_->Stop();
  const auto found = Obtain();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->snapshot->id().link, last);
}

// A mount of the one before goes on, and writes what it says in .forebay/errors there.
TEST_F(NamespaceTest, TheErrorsOfAnEarlierLinkStayForAMonth) {
  const auto first = Obtain();
  ASSERT_TRUE(first);
  const std::string folder = FolderOf(*first);
  const std::string errors = ErrorFileOf(folder, "/mnt");
  ASSERT_TRUE(WriteFileAtomically(errors, "a line\n"));
  link_ = std::make_unique<SampleLink>("imagenet", std::map<std::string, std::uint64_t>{{"a", 1}});
  Publish(1);
  ASSERT_TRUE(Obtain());
  EXPECT_EQ(FilesWith(".fbs").size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder + "/link.pb"));
  EXPECT_EQ(ReadWholeFile(errors).value_or(""), "a line\n");
  std::filesystem::last_write_time(
      errors, std::filesystem::file_time_type::clock::now() - std::chrono::hours(31 * 24));
  ASSERT_TRUE(Obtain());
  EXPECT_FALSE(std::filesystem::exists(folder));
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

// They would fill the disk, one listing for each process that ends too early.
TEST_F(NamespaceTest, WhatACutTransferLeavesIsRemovedAndNoTransferThatGoesOn) {
  ASSERT_TRUE(Obtain());
  const std::string listing = FilesWith(".fbs").at(0);
  const std::string left = listing + ".1.0.tmp";
  const std::string goes_on = listing + ".2.0.tmp";
  for (const std::string& file : {left, goes_on}) ASSERT_TRUE(WriteFileAtomically(file, "part"));
  std::filesystem::last_write_time(
      left, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  Publish(2);
  ASSERT_TRUE(Obtain());
  EXPECT_EQ(FilesWith(".tmp"), std::vector<std::string>{goes_on});
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

TEST_F(NamespaceTest, AnEmptyCoordinatorTakesNothingAway) {
  ASSERT_TRUE(Obtain());
  // Its state was lost, and the backup is not there yet.
  coordinator_->SetLink({}, "");
  coordinator_->SetFence({2, Uuid::Random()}, 0);
  const auto found = Obtain();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->from_disk);
  const auto looked = Links();
  ASSERT_FALSE(looked);
  EXPECT_EQ(looked.error().code, Code::kUnavailable);
  EXPECT_NE(looked.error().message.find("forebay restore"), std::string::npos)
      << looked.error().message;
  const auto waited = Links(/*wait=*/true);
  ASSERT_TRUE(waited) << waited.error().message;
  EXPECT_TRUE(waited->from_disk);
  EXPECT_EQ(waited->links.size(), 1u);
  // All of its links were taken away.
  coordinator_->SetFence({3, Uuid::Random()}, 7);
  ASSERT_TRUE(Links());
  EXPECT_EQ(Links()->links.size(), 0u);
  EXPECT_EQ(Obtain().error().code, Code::kNotFound);
}

TEST_F(NamespaceTest, AnEmptyCoordinatorHasNoLinksWhereNoneWasMounted) {
  coordinator_->SetLink({}, "");
  coordinator_->SetFence({1, Uuid::Random()}, 0);
  const auto looked = Links(/*wait=*/true);
  ASSERT_TRUE(looked) << looked.error().message;
  EXPECT_TRUE(looked->links.empty());
  EXPECT_EQ(Obtain().error().code, Code::kNotFound);
}

TEST_F(NamespaceTest, AnOldCopyTakesNothingAway) {
  coordinator_->SetFence({7, Uuid::Random()}, 9);
  ASSERT_TRUE(Obtain());
  coordinator_->SetLink({}, "");
  coordinator_->SetFence({5, Uuid::Random()}, 4);
  const auto found = Obtain();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->from_disk);
  EXPECT_EQ(Links(false, "imagenet").error().code, Code::kUnavailable);
}

TEST_F(NamespaceTest, AnOldCopyThatNamesAnEarlierLinkRemovesNoListing) {
  coordinator_->SetFence({7, Uuid::Random()}, 9);
  ASSERT_TRUE(Obtain());
  link_ = std::make_unique<SampleLink>("imagenet", std::map<std::string, std::uint64_t>{{"a", 1}});
  Publish(1);
  coordinator_->SetFence({5, Uuid::Random()}, 4);
  ASSERT_TRUE(Obtain());
  EXPECT_EQ(FilesWith(".fbs").size(), 2u);
}

TEST_F(NamespaceTest, OneThatRefusesToBeAskedIsPassedOver) {
  const FakeCoordinator stranger(std::string(32, 'x'));
  first_ = stranger.address();
  const auto found = Obtain();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->from_disk);
  // The other one may be back soon, and meanwhile there is what is on disk.
  coordinator_->Stop();
  const auto kept = Obtain();
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_TRUE(kept->from_disk);
}

KnownLinks Said(const Fence& fence, std::uint64_t version) {
  KnownLinks said;
  said.fence = fence;
  said.links_version = version;
  return said;
}

// What the mount of all links takes down.
TEST(TellsWhatHasGone, OnlyWhoWouldKnow) {
  const Fence shown{7, Uuid::Random()};
  EXPECT_TRUE(TellsWhatHasGone(shown, Said(shown, 9))) << "the last link was taken away";
  EXPECT_FALSE(TellsWhatHasGone(shown, Said(shown, 0))) << "its state is empty";
  const Fence later{8, Uuid::Random()};
  EXPECT_TRUE(TellsWhatHasGone(shown, Said(later, 9))) << "it was started again";
  EXPECT_FALSE(TellsWhatHasGone(shown, Said(later, 0))) << "empty, and started often";
  EXPECT_FALSE(TellsWhatHasGone(shown, Said({7, Uuid::Random()}, 9))) << "of a copy of the state";
  EXPECT_FALSE(TellsWhatHasGone(shown, Said({6, Uuid::Random()}, 9))) << "an old copy";
  const auto with = [](Fence fence, std::uint64_t links) {
    fence.state = StateVersion{.links = links, .ring = 1};
    return fence;
  };
  const Fence heard = HeardFrom(Said(with(shown, 5), 9));
  EXPECT_TRUE(TellsWhatHasGone(heard, Said(with(later, 9), 9)));
  EXPECT_FALSE(TellsWhatHasGone(heard, Said(with(later, 8), 12))) << "a copy of the last run";
  KnownLinks said = Said(shown, 9);
  said.from_disk = true;
  EXPECT_FALSE(TellsWhatHasGone(shown, said));
  // A release that does not say who it is.
  said = KnownLinks();
  EXPECT_FALSE(TellsWhatHasGone(shown, said));
  said.links.emplace_back();
  EXPECT_TRUE(TellsWhatHasGone(shown, said));
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

TEST_F(NamespaceTest, WhoWaitsIsToldAtOnceWhatForAndHowLong) {
  NamespaceOptions options;
  options.state_dir = dir_ / "state";
  options.coordinators = {coordinator_->address()};
  options.retry_pause = milliseconds(10);
  options.message_every = milliseconds(20);
  std::vector<std::string> told;
  options.tell_waiting = [&](const std::string& sentence) { told.push_back(sentence); };
  NamespaceSource source(Parts(), options);
  EXPECT_TRUE(Run(source.WaitForLinks("imagenet", Deadline::After(seconds(20)))));
  EXPECT_TRUE(told.empty()) << "nothing was waited for";
  coordinator_->Stop();
  std::filesystem::remove_all(dir_ / "state");
  EXPECT_FALSE(Run(source.WaitForLinks("imagenet", Deadline::After(milliseconds(200)))));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find(coordinator_->address() + ": nobody answers"), std::string::npos)
      << told[0];
  EXPECT_TRUE(told[0].ends_with("; waiting for 1 s at most")) << told[0];
}

TEST_F(NamespaceTest, WhatACoordinatorHasLostIsMountedFromDisk) {
  ASSERT_TRUE(Obtain());
  proto::LinkState lost = link_->State();
  lost.clear_generation();
  lost.set_state(0);
  lost.set_error("access denied");
  coordinator_->SetLink(lost, "");
  const auto found = Obtain("imagenet", milliseconds(100));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->from_disk);
  EXPECT_EQ(found->snapshot->id().generation, 1u);
  lost.mutable_spec()->set_id("another link    ");
  coordinator_->SetLink(lost, "");
  EXPECT_FALSE(Obtain("imagenet", milliseconds(100))) << "of another link of that name";
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
