#include "fuse-client/supervisor/holder.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fuse-client/supervisor/holder_store.h"
#include "fuse-client/supervisor/stored_mount.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Store = std::unique_ptr<HolderStore>;
using Strings = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Two ends, closed with it. The one to read from is as /dev/fuse: something to poll.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    read = OwnedFd(ends[0]);
    write = OwnedFd(ends[1]);
  }
  OwnedFd read;
  OwnedFd write;
};

ino_t InodeOf(const OwnedFd& fd) {
  struct stat attributes{};
  EXPECT_EQ(::fstat(fd.get(), &attributes), 0);
  return attributes.st_ino;
}

class HolderTest : public ::testing::Test {
 protected:
  ~HolderTest() override { End(); }

  void Start(HolderOptions options = {}) {
    options.path = path_;
    options.detach = [this](const std::string& mount) {
      detached_.push_back(mount);
      return Status();
    };
    Result<Holder> made = Holder::Listen(std::move(options));
    ASSERT_TRUE(made) << made.error().message;
    stop_.emplace();
    serving_ = std::jthread([this, holder = std::make_unique<Holder>(std::move(*made))] {
      holder->Serve(stop_->read.get());
    });
  }

  /// As SIGTERM does.
  void Tell() const { EXPECT_EQ(::write(stop_->write.get(), "x", 1), 1); }
  void End() {
    if (!serving_.joinable()) return;
    Tell();
    serving_ = {};
  }

  Result<Store> Open(const std::string& mount) const {
    return HolderStore::Open(path_, mount, Duration());
  }
  Store Opened(const std::string& mount) const {
    Result<Store> store = Open(mount);
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }

  fakes::TempDir dir_;
  const std::string path_ = dir_ / "hold/socket";
  std::optional<Pipe> stop_;
  std::jthread serving_;
  Strings detached_;  // once it has ended
};

TEST_F(HolderTest, ASuccessorTakesBackWhatItsPredecessorLeft) {
  Start();
  Pipe one;
  Pipe two;
  {
    const Store first = Opened("/mnt/a");
    EXPECT_TRUE(first->TakeBack().empty());
    ASSERT_TRUE(first->Put("1", one.read.get()));
    ASSERT_TRUE(first->Put("10", two.read.get()));
    ASSERT_TRUE(first->Put("journal", two.write.get()));
    first->Remove("1");
    ASSERT_TRUE(first->Put("2", one.read.get()));
  }
  std::map<std::string, OwnedFd> left = Opened("/mnt/a")->TakeBack();
  ASSERT_EQ(left.size(), 3U);
  EXPECT_EQ(InodeOf(left["2"]), InodeOf(one.read));
  EXPECT_EQ(InodeOf(left["10"]), InodeOf(two.read));
  // As often as it takes.
  EXPECT_EQ(Opened("/mnt/a")->TakeBack().size(), 3U);
}

TEST_F(HolderTest, MountsAreApart) {
  Start();
  const Pipe pipe;
  {
    const Store a = Opened("/mnt/a");
    const Store b = Opened("/mnt/b");
    ASSERT_TRUE(a->Put("1", pipe.read.get()));
    ASSERT_TRUE(b->Put("1", pipe.read.get()));
    ASSERT_TRUE(b->Put("2", pipe.read.get()));
  }
  EXPECT_EQ(Opened("/mnt/a")->TakeBack().size(), 1U);
  EXPECT_EQ(Opened("/mnt/b")->TakeBack().size(), 2U);
  EXPECT_EQ(Opened("/mnt")->TakeBack().size(), 0U);
}

TEST_F(HolderTest, OneThatLivesIsNotReplaced) {
  Start();
  const Pipe pipe;
  Store first = Opened("/mnt/a");
  ASSERT_TRUE(first->Put("1", pipe.read.get()));
  const Result<Store> second = Open("/mnt/a");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kDenied);
  EXPECT_NE(second.error().message.find("is served by another"), std::string::npos);
  EXPECT_TRUE(first->IsThere());
  first.reset();
  EXPECT_EQ(Opened("/mnt/a")->TakeBack().size(), 1U);
}

TEST_F(HolderTest, ThatIsFullSaysSoAndGoesOn) {
  Start({.descriptors_max = 9});
  const Pipe pipe;
  const Store store = Opened("/mnt/a");
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(store->Put(std::to_string(i), pipe.read.get()));
  const Status tenth = store->Put("9", pipe.read.get());
  ASSERT_FALSE(tenth);
  EXPECT_EQ(tenth.error().code, Code::kDenied);
  EXPECT_NE(tenth.error().message.find("has 9 descriptors, and room for 9"), std::string::npos);
  EXPECT_FALSE(Open("/mnt/b"));
  store->Remove("3");
  EXPECT_TRUE(store->Put("9", pipe.read.get()));
}

TEST_F(HolderTest, MountsAreBounded) {
  Start();
  std::vector<Store> stores;
  stores.reserve(Holder::kMountsMax);
  for (std::size_t i = 0; i < Holder::kMountsMax; ++i) {
    stores.push_back(Opened("/mnt/" + std::to_string(i)));
  }
  EXPECT_FALSE(Open("/mnt/more"));
  // One that has ended with nothing left makes room.
  stores.pop_back();
  EXPECT_TRUE(Open("/mnt/more"));
}

TEST_F(HolderTest, WhoSaysNonsenseIsShownOutAndNobodyElse) {
  Start();
  const Pipe pipe;
  const Store store = Opened("/mnt/a");
  ASSERT_TRUE(store->Put("1", pipe.read.get()));
  const auto connect = [&] {
    Result<HandoverChannel> channel =
        PrivateSocket::Connect(path_, PrivateSocket::Of::kThisUser, seconds(10));
    EXPECT_TRUE(channel);
    return std::move(*channel);
  };
  const auto is_shown_out = [](const HandoverChannel& channel) {
    const Result<HandoverMessage> end = channel.Receive(true);
    return !end && end.error().code == Code::kUnavailable;
  };
  const HandoverChannel garbage = connect();
  ASSERT_GT(::send(garbage.fd(), "nonsense", 8, MSG_NOSIGNAL), 0);
  EXPECT_TRUE(is_shown_out(garbage));
  // Before it has said whose it is.
  const HandoverChannel early = connect();
  ASSERT_TRUE(early.Send(HandoverKind::kKeep, "1", "", pipe.read.get()));
  EXPECT_TRUE(is_shown_out(early));
  for (const auto& [key, value] :
       Pairs{{"/mnt/b", "999"}, {"mnt", "1"}, {"/" + std::string(5000, 'x'), "1"}}) {
    const HandoverChannel refused = connect();
    ASSERT_TRUE(refused.Send(HandoverKind::kHold, key, value));
    const Result<HandoverMessage> answer = refused.Receive(true);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->key, "refused");
    EXPECT_TRUE(is_shown_out(refused));
  }
  const HandoverChannel late = connect();
  ASSERT_TRUE(late.Send(HandoverKind::kHold, "/mnt/c", "1"));
  ASSERT_EQ(late.Receive(true)->key, "done");
  ASSERT_TRUE(late.Send(HandoverKind::kKeep, std::string(300, 'n'), "", pipe.read.get()));
  EXPECT_TRUE(is_shown_out(late));
  EXPECT_TRUE(store->IsThere());
  EXPECT_TRUE(store->Put("2", pipe.read.get()));
}

TEST_F(HolderTest, OtherUsersGetNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  Start();
  // All that the file system would do.
  for (const std::string& path : {dir_.path(), dir_ / "hold", path_}) {
    ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path_, address.sun_path);
  const pid_t child = ::fork();
  if (child == 0) {
    // Only system calls: the parent has other threads.
    constexpr uid_t kNobody = 65534;
    if (::setuid(kNobody) != 0) ::_exit(2);
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(3);
    char byte = 0;
    ::_exit(::recv(socket, &byte, 1, 0) == 0 ? 0 : 4);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Open("/mnt/a"));
}

TEST_F(HolderTest, OneHolderAtAPlaceThatNobodyElseMayWriteTo) {
  Start();
  const Result<Holder> second = Holder::Listen({.path = path_, .detach = {}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInvalid);
  EXPECT_TRUE(Open("/mnt/a"));
  // Where its socket cannot be asked, too.
  ASSERT_EQ(::rename(path_.c_str(), (dir_ / "hold/away").c_str()), 0);
  EXPECT_FALSE(Holder::Listen({.path = path_, .detach = {}}));
  ASSERT_EQ(::rename((dir_ / "hold/away").c_str(), path_.c_str()), 0);
  End();
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  ASSERT_EQ(::chmod((dir_ / "hold").c_str(), 0777), 0);
  const Result<Holder> open = Holder::Listen({.path = path_, .detach = {}});
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, Code::kInvalid);
}

TEST_F(HolderTest, OneThatDoesNotAcceptIsNotReplaced) {
  // As one of an earlier release, which has no lock.
  ASSERT_EQ(::mkdir((dir_ / "hold").c_str(), 0700), 0);
  const Result<PrivateSocket> stopped = PrivateSocket::Listen(path_);
  ASSERT_TRUE(stopped) << stopped.error().message;
  std::vector<HandoverChannel> waiting;
  for (;;) {
    Result<HandoverChannel> next =
        PrivateSocket::Connect(path_, PrivateSocket::Of::kThisUser, milliseconds(1));
    if (!next) break;
    waiting.push_back(std::move(*next));
    ASSERT_LT(waiting.size(), 10'000U);
  }
  const Result<Holder> second = Holder::Listen({.path = path_, .detach = {}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInvalid);
  EXPECT_EQ(::access(path_.c_str(), F_OK), 0);
}

TEST_F(HolderTest, OneThatWasKilledIsReplaced) {
  // It leaves its socket, and who closes the lock's descriptors is the kernel.
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<Holder> killed = Holder::Listen({.path = path_, .detach = {}});
    ::_exit(killed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(::access(path_.c_str(), F_OK), 0);
  Start();
  EXPECT_TRUE(Open("/mnt/a"));
}

TEST_F(HolderTest, WhatIsUnmountedWhileNobodyServesItIsLetGo) {
  Start({.grace = milliseconds(50)});
  std::array<Pipe, 3> connections;
  const OwnedFd file(::memfd_create("slots", MFD_CLOEXEC));
  {
    const Store one = Opened("/mnt/one");
    const Store two = Opened("/mnt/two");
    ASSERT_TRUE(one->Put("1", connections[0].read.get()));
    ASSERT_TRUE(one->Put("2", file.get()));
    for (const std::size_t i : {1U, 2U}) {
      ASSERT_TRUE(two->Put(std::to_string(i), connections[i].read.get()));
    }
  }
  const Store served = Opened("/mnt/served");
  ASSERT_TRUE(served->Put("1", connections[0].read.get()));
  connections[0].write = OwnedFd();
  connections[1].write = OwnedFd();  // one of two
  const Deadline patience = Deadline::After(seconds(30));
  while (!Opened("/mnt/one")->TakeBack().empty() && !patience.Expired()) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_FALSE(patience.Expired());
  EXPECT_EQ(Opened("/mnt/two")->TakeBack().size(), 2U);
  EXPECT_TRUE(served->IsThere());
  End();
  EXPECT_EQ(detached_, (Strings{"/mnt/two"}));
}

TEST_F(HolderTest, ItsEndIsTheEndOfWhatNobodyServes) {
  Start({.grace = milliseconds(50)});
  const Pipe pipe;
  const Store served = Opened("/mnt/served");
  ASSERT_TRUE(served->Put("1", pipe.read.get()));
  ASSERT_TRUE(Opened("/mnt/left")->Put("1", pipe.read.get()));
  const Store empty = Opened("/mnt/empty");
  End();
  EXPECT_EQ(detached_, (Strings{"/mnt/left"}));
  EXPECT_FALSE(served->IsThere());
  EXPECT_EQ(served->fd(), -1);
  EXPECT_EQ(served->Put("2", pipe.read.get()).error().code, Code::kUnavailable);
  EXPECT_EQ(Open("/mnt/left").error().code, Code::kInvalid);
}

TEST_F(HolderTest, ItsEndWaitsForThoseWhoLeaveAtTheSameMoment) {
  Start({.grace = seconds(60)});
  const Pipe pipe;
  Store leaving = Opened("/mnt/a");
  ASSERT_TRUE(leaving->Put("1", pipe.read.get()));
  Tell();
  ASSERT_TRUE(leaving->Put("2", pipe.read.get()));  // it is still heard
  leaving.reset();
  serving_ = {};
  EXPECT_EQ(detached_, (Strings{"/mnt/a"}));
}

TEST_F(HolderTest, ANewHolderIsGivenAllOfTheMount) {
  Start({.grace = milliseconds(1)});
  const StoredMount::Identity identity{.source = "data", .mountpoint = "/mnt/a"};
  Pipe fuse;
  const Result<RequestSlots> slots = RequestSlots::Create(1);
  ASSERT_TRUE(slots);
  KeptEntries kept;
  kept[ConnectionKey(1)] = Kept{"mount", std::move(fuse.read)};
  kept[ConnectionKey(1) + "init"] = Kept{"first", {}};
  {
    Result<StoredMount> stored = StoredMount::Open(Opened("/mnt/a"), identity);
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_FALSE(stored->inherited());
    stored->Begin("/mnt/a", *slots);
    End();
    EXPECT_FALSE(stored->IsKept());
    EXPECT_FALSE(stored->KeepAgain(*slots, kept));
    Start();
    ASSERT_TRUE(stored->KeepAgain(*slots, kept));
    EXPECT_TRUE(stored->IsKept());
  }
  Result<StoredMount> successor = StoredMount::Open(Opened("/mnt/a"), identity);
  ASSERT_TRUE(successor) << successor.error().message;
  ASSERT_TRUE(successor->inherited());
  const KeptEntries found = successor->TakeKept();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(InodeOf(found.at(ConnectionKey(1)).fd), InodeOf(kept[ConnectionKey(1)].fd));
  EXPECT_EQ(found.at(ConnectionKey(1) + "init").value, "first");
}

}  // namespace
}  // namespace forebay
