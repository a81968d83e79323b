// A mount whose link is taken away while it is in use.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "tests/component/fuse-client/mount_fixture.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RemovedLinkTest : public MountTest {
 protected:
  std::string PathOf(int file) const {
    return mnt_ + "/train/d" + std::to_string(file % 3) + "/f" + std::to_string(file) + ".jpg";
  }
  bool IsRemoved() const {
    const boost::json::value config = boost::json::parse(ReadAll(mnt_ + "/.forebay/config"));
    return config.at("link_removed").as_bool();
  }
  bool Becomes(bool removed) const {
    const Deadline deadline = Deadline::After(seconds(20));
    while (IsRemoved() != removed && !deadline.Expired())
      std::this_thread::sleep_for(milliseconds(10));
    return IsRemoved() == removed;
  }
  /// The mount has asked the coordinator so often since.
  bool LooksAgain(int times = 2) const {
    const Deadline deadline = Deadline::After(seconds(20));
    const std::uint64_t wanted = coordinator_->link_calls() + static_cast<std::uint64_t>(times);
    while (coordinator_->link_calls() < wanted && !deadline.Expired())
      std::this_thread::sleep_for(milliseconds(10));
    return coordinator_->link_calls() >= wanted;
  }
  /// The errno of reading a file's first byte; 0 = it was read.
  static int ErrnoOfRead(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    char byte = 0;
    const int number = ::read(fd, &byte, 1) < 0 ? errno : 0;
    ::close(fd);
    return number;
  }
  std::string Errors() const { return ReadAll(mnt_ + "/.forebay/errors"); }
  /// As nodes do that know of no such link, each after a while: it may be a new one.
  void NodesForget() {
    for (const auto& node : nodes_) {
      node->OnRead([](proto::ReadBlockRequest) -> FakeNode::Answer {
        return {Fail(Code::kNotFound, "link 16f4 is not known to this node")};
      });
    }
  }
};

TEST_F(RemovedLinkTest, ReadsEndAtOnceWithOneSentenceAndWhatIsInMemoryIsReadOn) {
  ASSERT_TRUE(Mount());
  EXPECT_EQ(ReadAll(PathOf(0)).size(), kSmallBytes);
  NodesForget();
  coordinator_->SetLink({}, "");
  ASSERT_TRUE(Becomes(true));
  const std::uint64_t asked = ReadsAtNodes();
  const TimePoint began = Clock::now();
  for (int file = 1; file < 50; ++file) ASSERT_EQ(ErrnoOfRead(PathOf(file)), ESTALE);
  EXPECT_LT(Clock::now() - began, seconds(2));
  EXPECT_EQ(ReadsAtNodes(), asked);
  EXPECT_EQ(ReadAll(PathOf(0)), Expected("train/d0/f0.jpg", 0, kSmallBytes));
  EXPECT_EQ(Walk().size(), kSmallFiles + 2U) << "names are the listing's";
  const std::string errors = Errors();
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  EXPECT_NE(errors.find(" ESTALE \".\" "), std::string::npos) << errors;
  EXPECT_NE(errors.find(": the link \"sample\" was removed"), std::string::npos) << errors;
  EXPECT_NE(errors.find("unmount it, or link it again"), std::string::npos) << errors;

  // A coordinator that got its backup back has the very link again.
  for (const auto& node : nodes_) node->OnRead(nullptr);
  coordinator_->SetLink(link_->State(), ReadWholeFile(dir_ / "built.fbs").value());
  ASSERT_TRUE(Becomes(false));
  EXPECT_EQ(ReadAll(PathOf(60)).size(), kSmallBytes);
}

TEST_F(RemovedLinkTest, ALinkThatWasMadeAnewIsAnotherOneAndTheSentenceSaysSo) {
  ASSERT_TRUE(Mount());
  SampleLink other("sample", {{"train/d0/f0.jpg", 7}}, kBlockBytes);
  other.BuildSnapshot(dir_ / "other.fbs", 5);
  coordinator_->SetLink(other.State(), ReadWholeFile(dir_ / "other.fbs").value());
  ASSERT_TRUE(Becomes(true));
  EXPECT_EQ(ErrnoOfRead(PathOf(0)), ESTALE);
  EXPECT_EQ(Walk().size(), kSmallFiles + 2U);
  EXPECT_NE(Errors().find("made anew"), std::string::npos) << Errors();
  Unmount();
  ASSERT_TRUE(Mount());
  EXPECT_EQ(ReadAll(PathOf(0)), Expected("train/d0/f0.jpg", 0, 7));
  EXPECT_FALSE(IsRemoved());
}

TEST_F(RemovedLinkTest, WhoWouldNotKnowTakesNothingAway) {
  coordinator_->SetFence({7, Uuid::Random()}, 3);
  ASSERT_TRUE(Mount());
  ASSERT_TRUE(LooksAgain());
  coordinator_->SetFence({6, Uuid::Random()}, 3);
  coordinator_->SetLink({}, "");
  ASSERT_TRUE(LooksAgain(4));
  EXPECT_FALSE(IsRemoved()) << "an old copy of the state";
  SampleLink earlier("sample", {{"train/d0/f0.jpg", 7}}, kBlockBytes);
  earlier.BuildSnapshot(dir_ / "earlier.fbs", 5);
  coordinator_->SetLink(earlier.State(), ReadWholeFile(dir_ / "earlier.fbs").value());
  ASSERT_TRUE(LooksAgain(2));
  EXPECT_FALSE(IsRemoved()) << "the same, which names an earlier link";
  coordinator_->SetLink({}, "");
  coordinator_->SetFence({8, Uuid::Random()}, 0);
  ASSERT_TRUE(LooksAgain(4));
  EXPECT_FALSE(IsRemoved()) << "an empty state";
  EXPECT_EQ(ReadAll(PathOf(0)).size(), kSmallBytes);
  coordinator_->Stop();
  EXPECT_EQ(ReadAll(PathOf(1)).size(), kSmallBytes);
  EXPECT_FALSE(IsRemoved());
}

}  // namespace
}  // namespace forebay
