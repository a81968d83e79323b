#include "coordinator/mount_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/model/limits.h"

namespace forebay {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

PeerIdentity Peer(std::string id = "gpu-1", std::string address = "10.0.0.1:1") {
  PeerIdentity peer;
  peer.role = proto::ROLE_CLIENT;
  peer.id = std::move(id);
  peer.program = "forebay-mount 0.1.0";
  peer.address = std::move(address);
  return peer;
}

proto::GetLinksRequest Says(std::uint64_t incarnation, std::string mountpoint = "/mnt",
                            std::string source = "imagenet") {
  proto::GetLinksRequest request;
  proto::MountSelf& self = *request.mutable_mount();
  self.set_incarnation(incarnation);
  self.set_host("gpu-1.example");
  self.set_mountpoint(std::move(mountpoint));
  self.set_source(std::move(source));
  return request;
}

class MountBookTest : public ::testing::Test {
 protected:
  using Wanted = std::vector<MountBook::Wanted>;
  using Links = std::optional<Wanted>;

  std::vector<proto::MountState> List(const Links& links = std::nullopt) const {
    std::vector<proto::MountState> all;
    std::string after;
    do {
      proto::ListMountsReply page;
      book_.List(links, after, now_, page);
      for (proto::MountState& mount : *page.mutable_mounts()) all.push_back(std::move(mount));
      after = page.next();
    } while (!after.empty());
    return all;
  }
  std::vector<std::string> Mountpoints(const Links& links = std::nullopt) const {
    std::vector<std::string> found;
    for (const proto::MountState& mount : List(links)) found.push_back(mount.mountpoint());
    return found;
  }
  static Links Of(std::string link, std::string set = "") {
    return Wanted{{.link = std::move(link), .set = std::move(set)}};
  }

  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  MountBook book_;
};

TEST_F(MountBookTest, AMountIsThereWithWhatItSaysAndWhoItIs) {
  book_.Note(Says(7), Peer(), now_);
  now_ += std::chrono::milliseconds(1500);
  const std::vector<proto::MountState> mounts = List();
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].host(), "gpu-1.example");
  EXPECT_EQ(mounts[0].mountpoint(), "/mnt");
  EXPECT_EQ(mounts[0].source(), "imagenet");
  EXPECT_EQ(mounts[0].client(), "gpu-1");
  EXPECT_EQ(mounts[0].address(), "10.0.0.1:1");
  EXPECT_EQ(mounts[0].version(), "0.1.0");
  EXPECT_EQ(mounts[0].heard_ms(), 1500u);
}

TEST_F(MountBookTest, OneThatIsGoneIsShownForAMinuteAndThenForgotten) {
  book_.Note(Says(7), Peer(), now_);
  now_ += MountBook::kShownFor;
  EXPECT_THAT(List(), SizeIs(1));
  now_ += seconds(1);
  EXPECT_THAT(List(), IsEmpty());
  book_.Note(Says(8), Peer(), now_);
  EXPECT_EQ(book_.size(), 1u) << "it takes no room either";
}

TEST_F(MountBookTest, ItsNextProcessAndAnotherConnectionAreTheSameMount) {
  book_.Note(Says(7), Peer("gpu-1", "10.0.0.1:1"), now_);
  PeerIdentity next = Peer("gpu-1", "10.0.0.1:2");
  next.program = "forebay-mount 0.2.0";
  book_.Note(Says(7), next, now_);
  const std::vector<proto::MountState> mounts = List();
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].version(), "0.2.0");
  EXPECT_EQ(mounts[0].address(), "10.0.0.1:2");
}

TEST_F(MountBookTest, NobodySpeaksForAnotherMember) {
  book_.Note(Says(7, "/mnt/a"), Peer("gpu-1"), now_);
  book_.Note(Says(7, "/mnt/b"), Peer("gpu-2"), now_);
  EXPECT_THAT(Mountpoints(), UnorderedElementsAre("/mnt/a", "/mnt/b"));
}

TEST_F(MountBookTest, OnlyMountsThatAreMountedCount) {
  book_.Note(Says(7, ""), Peer(), now_);
  PeerIdentity admin = Peer("alice");
  admin.role = proto::ROLE_ADMIN;
  admin.program = "forebay 0.1.0";
  book_.Note(proto::GetLinksRequest(), admin, now_);
  PeerIdentity standby = Peer("coordinator");
  standby.role = proto::ROLE_COORDINATOR;
  book_.Note(Says(7), standby, now_);
  EXPECT_THAT(List(), IsEmpty());
}

// A mount of the release before.
TEST_F(MountBookTest, OneThatSaysNothingOfItselfIsShownByItsConnection) {
  proto::GetLinksRequest request;
  request.set_name("imagenet");
  book_.Note(request, Peer("gpu-1", "10.0.0.1:1"), now_);
  book_.Note(request, Peer("gpu-1", "10.0.0.1:2"), now_);
  request.set_name("");
  book_.Note(request, Peer("gpu-1", "10.0.0.1:2"), now_);
  book_.Note(request, Peer("gpu-2", "10.0.0.2:1"), now_);
  const std::vector<proto::MountState> mounts = List();
  ASSERT_THAT(mounts, SizeIs(3));
  EXPECT_EQ(mounts[0].host(), "");
  EXPECT_EQ(mounts[0].mountpoint(), "");
  EXPECT_EQ(mounts[1].source(), "imagenet") << "once it asks for all of them";
  EXPECT_EQ(mounts[1].version(), "0.1.0");
  EXPECT_EQ(mounts[2].source(), "");
  EXPECT_THAT(List(Of("imagenet")), SizeIs(3)) << "the last one may show it";
  EXPECT_THAT(List(Of("clip")), SizeIs(1));
}

TEST_F(MountBookTest, ThoseOfALinkAreItsOwnItsSetsAndThoseOfAll) {
  std::uint64_t incarnation = 1;
  for (const char* source : {"imagenet", "imagenet/train/x", "imagenet2", "clip", "clip/images",
                             "clip/images/a/b", "clip/labels", "clip.images", "clip.images/a", "/"})
    book_.Note(Says(incarnation++, source, source), Peer(), now_);
  EXPECT_THAT(Mountpoints(Of("imagenet")), ElementsAre("imagenet", "imagenet/train/x", "/"));
  EXPECT_THAT(
      Mountpoints(Of("clip.images", "clip")),
      ElementsAre("clip", "clip/images", "clip/images/a/b", "clip.images", "clip.images/a", "/"));
  const Wanted set = {{.link = "clip.images", .set = "clip"},
                      {.link = "clip.labels", .set = "clip"}};
  EXPECT_THAT(Mountpoints(set), SizeIs(7));
  EXPECT_THAT(Mountpoints(), SizeIs(10));
}

TEST_F(MountBookTest, OfALinkThatWasRemovedOnlyThoseThatNamedItAreLeft) {
  book_.Note(Says(1, "/a", "gone/sub"), Peer(), now_);
  book_.Note(Says(2, "/b", "/"), Peer(), now_);
  book_.Note(proto::GetLinksRequest(), Peer(), now_);
  EXPECT_THAT(Mountpoints(Wanted{{.link = "gone", .exists = false}}), ElementsAre("/a"));
}

TEST_F(MountBookTest, AMountOfAllShowsWhatItsCertificateIsGoodFor) {
  PeerIdentity peer = Peer();
  peer.terms.links = std::vector<std::string>{"imagenet", "clip"};
  book_.Note(Says(1, "/all", "/"), peer, now_);
  EXPECT_THAT(Mountpoints(Of("imagenet")), ElementsAre("/all"));
  EXPECT_THAT(Mountpoints(Of("clip.images", "clip")), ElementsAre("/all"));
  EXPECT_THAT(Mountpoints(Of("secret")), IsEmpty());
  peer.terms.links.reset();
  book_.Note(Says(1, "/all", "/"), peer, now_);
  EXPECT_THAT(Mountpoints(Of("secret")), ElementsAre("/all"));
}

TEST_F(MountBookTest, AllThatThereMayBeComeInPagesThatFitIntoAnAnswer) {
  for (std::uint64_t i = 0; i < MountBook::kMaxMounts; ++i)
    book_.Note(Says(i, "/mnt/" + std::to_string(i)), Peer("gpu-" + std::to_string(i % 100)), now_);
  std::set<std::string> found;
  std::string after;
  do {
    proto::ListMountsReply page;
    book_.List(std::nullopt, after, now_, page);
    EXPECT_LE(page.mounts_size(), MountBook::kMaxRows);
    EXPECT_LT(page.ByteSizeLong(), kMaxControlFrameBytes);
    for (const proto::MountState& mount : page.mounts()) {
      EXPECT_TRUE(found.insert(mount.mountpoint()).second) << "twice: " << mount.mountpoint();
    }
    after = page.next();
  } while (!after.empty());
  EXPECT_EQ(found.size(), MountBook::kMaxMounts);
}

TEST_F(MountBookTest, WhatIsSaidAtGreatLengthIsCutAndFitsAllTheSame) {
  const std::string longest(1 << 14, 'x');
  constexpr std::size_t kMany = MountBook::kMaxRows;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    proto::GetLinksRequest request = Says(i, longest, longest);
    request.mutable_mount()->set_host(longest);
    PeerIdentity peer = Peer(longest);
    peer.program += longest;
    book_.Note(request, peer, now_);
  }
  proto::ListMountsReply page;
  book_.List(std::nullopt, "", now_, page);
  EXPECT_LT(page.ByteSizeLong(), kMaxControlFrameBytes);
  EXPECT_NE(page.next(), "");
  EXPECT_THAT(List(), SizeIs(kMany));
}

TEST_F(MountBookTest, WhereMoreComeThoseLeaveThatHaveNotAskedForLongest) {
  for (std::uint64_t i = 0; i <= MountBook::kMaxMounts; ++i) {
    now_ += std::chrono::microseconds(1);
    book_.Note(Says(i, "/" + std::to_string(i)), Peer(), now_);
    // The first one asks again.
    if (i == 1) book_.Note(Says(0, "/0"), Peer(), now_ + std::chrono::microseconds(1));
  }
  EXPECT_EQ(book_.size(), MountBook::kMaxMounts);
  const std::vector<std::string> left = Mountpoints();
  EXPECT_EQ(std::ranges::count(left, "/0"), 1);
  EXPECT_EQ(std::ranges::count(left, "/1"), 0);
}

TEST_F(MountBookTest, ACursorThatIsNoneIsSurvived) {
  book_.Note(Says(7), Peer(), now_);
  for (const std::string& after :
       {std::string("a"), std::string(8, '\xff'), std::string(5000, 'z')}) {
    proto::ListMountsReply page;
    book_.List(std::nullopt, after, now_, page);
    EXPECT_LE(page.mounts_size(), 1);
  }
}

}  // namespace
}  // namespace forebay
