// A real connection to the kernel whose server goes away with requests that it has taken: what the
// next one does with them, and what nobody does.
#include "fuse-client/fuse_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "fuse-client/fuse_api.h"
#include "fuse-client/fuse_mount.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/refuser.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

constexpr std::uint32_t kConnection = 1;

/// What a server does with a request: answers it, or takes it and says nothing.
struct Behaviour {
  bool answers = true;
  std::atomic<int> asked{0};
};
Behaviour* behaviour = nullptr;
SlotArena* arena = nullptr;

bool Asked(fuse_req_t request) {
  ++behaviour->asked;
  if (behaviour->answers) return true;
  arena->Hold();
  fuse_reply_none(request);  // sends nothing: libfuse forgets it, as with the process
  return false;
}

void OnGetattr(fuse_req_t request, fuse_ino_t, struct fuse_file_info*) {
  struct stat root{};
  root.st_ino = FUSE_ROOT_ID;
  root.st_mode = S_IFDIR | 0755;
  root.st_nlink = 1;
  fuse_reply_attr(request, &root, 1e9);
}

void OnLookup(fuse_req_t request, fuse_ino_t, const char* name) {
  if (Asked(request))
    fuse_reply_err(request, std::string(name).size() > 255 ? ENAMETOOLONG : ENOENT);
}

void OnStatfs(fuse_req_t request, fuse_ino_t) {
  if (!Asked(request)) return;
  struct statvfs totals{};
  totals.f_bsize = 4096;
  totals.f_blocks = 4711;
  fuse_reply_statfs(request, &totals);
}

void RefuseWrite(fuse_req_t request) {
  if (Asked(request)) fuse_reply_err(request, EROFS);
}

const struct fuse_lowlevel_ops& Operations() {
  static const struct fuse_lowlevel_ops operations = [] {
    struct fuse_lowlevel_ops ops{};
    ops.getattr = OnGetattr;
    ops.lookup = OnLookup;
    ops.statfs = OnStatfs;
    WriteOperations<RefuseWrite>::AddTo(ops);
    return ops;
  }();
  return operations;
}

class FuseSessionTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "mounting needs root and /dev/fuse here";
    }
    // NOLINTBEGIN(concurrency-mt-unsafe): no other thread reads the environment
    if (GetParam()) {
      ::unsetenv("FOREBAY_NO_RESEND");
    } else {
      ::setenv("FOREBAY_NO_RESEND", "1", 1);
    }
    // NOLINTEND(concurrency-mt-unsafe)
    FuseMountOptions options;
    options.source = "test";
    options.mountpoint = folder_.path();
    options.read_only = false;
    auto fd = MountFuse(options);
    ASSERT_TRUE(fd) << fd.error().message;
    fd_ = std::move(*fd);
    auto slots = RequestSlots::Create(1);
    ASSERT_TRUE(slots);
    slots_.emplace(std::move(*slots));
    StartServer(true);
    // The kernel's first message.
    ASSERT_TRUE(ServeUntil([this] { return !first_message_.empty(); }));
  }

  void TearDown() override {
    session_.reset();
    ::umount2(folder_.path().c_str(), MNT_DETACH);
  }

  /// As a process that begins: with the slots as they are.
  void StartServer(bool answers) {
    session_.reset();
    behaviour_.answers = answers;
    behaviour_.asked = 0;
    behaviour = &behaviour_;
    arena_.emplace(slots_->Arena(0));
    arena = &*arena_;
    FuseConnection connection;
    connection.fd = OwnedFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    connection.id = kConnection;
    connection.first_message = first_message_;
    connection.keep_first_message = [this](std::string_view message) { first_message_ = message; };
    auto session = FuseSession::Serve(std::move(connection), Operations());
    ASSERT_TRUE(session) << session.error().message;
    session_ = std::move(*session);
    session_->TakeOver(*arena_);
  }

  template <typename Condition>
  bool ServeUntil(Condition condition) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(10));
    while (!condition() && !deadline.Expired()) {
      pollfd waiting{session_->descriptor(), POLLIN, 0};
      ::poll(&waiting, 1, 10);
      session_->Drain(*arena_, buffer_, 8);
    }
    return condition();
  }

  /// A call of another program, and the errno that it ends with.
  template <typename Call>
  std::future<int> Program(Call call) {
    return std::async(std::launch::async, [call] { return call() == 0 ? 0 : errno; });
  }
  std::future<int> Statfs() {
    return Program([path = folder_.path()] {
      struct statvfs totals{};
      const int result = ::statvfs(path.c_str(), &totals);
      return result == 0 && totals.f_blocks != 4711 ? -1 : result;
    });
  }

  /// A program's call is taken by a server that never answers.
  template <typename Start>
  std::future<int> TakenAndLost(Start start) {
    StartServer(false);
    std::future<int> call = start();
    EXPECT_TRUE(ServeUntil([this] { return behaviour_.asked > 0; }));
    EXPECT_EQ(slots_->InUse().size(), 1U);
    return call;
  }

  template <typename Start>
  int AnswerOfSuccessor(Start start) {
    std::future<int> call = TakenAndLost(start);
    StartServer(true);
    const auto done = [&] {
      return call.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    EXPECT_TRUE(ServeUntil(done));
    EXPECT_TRUE(slots_->InUse().empty());
    return call.get();
  }

  KeptEntries Kept() const {
    KeptEntries kept;
    kept[ConnectionKey(kConnection)].fd = OwnedFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    kept[ConnectionKey(kConnection) + "init"].value = first_message_;
    return kept;
  }

  fakes::TempDir folder_;
  OwnedFd fd_;
  std::string first_message_;
  std::optional<RequestSlots> slots_;
  std::optional<SlotArena> arena_;
  RequestBuffer buffer_;
  Behaviour behaviour_;
  std::unique_ptr<FuseSession> session_;
};

TEST_P(FuseSessionTest, ASuccessorAnswersWhatWasTaken) {
  EXPECT_EQ(AnswerOfSuccessor([this] { return Statfs(); }), 0);
  EXPECT_NE(session_->Features(), "");
}

TEST_P(FuseSessionTest, SoItDoesWithRequestsThatAreTooLongForTheirSlot) {
  const auto lookup = [this] {
    return Program([path = folder_.path() + "/" + std::string(900, 'x')] {
      struct stat attributes{};
      return ::stat(path.c_str(), &attributes);
    });
  };
  EXPECT_EQ(AnswerOfSuccessor(lookup), ENAMETOOLONG);
  const auto write = [this] {
    return Program([path = folder_.path()] {
      const std::string value(4000, 'v');
      return ::setxattr(path.c_str(), "user.a", value.data(), value.size(), 0);
    });
  };
  EXPECT_EQ(AnswerOfSuccessor(write), EROFS);
}

TEST_P(FuseSessionTest, WhatWasAnsweredAndNotClearedIsAnsweredAgainWithoutHarm) {
  std::future<int> call = Statfs();
  ASSERT_TRUE(ServeUntil([this] { return behaviour_.asked > 0; }));
  EXPECT_EQ(call.get(), 0);
  // The slot still has the request; only its length was zeroed. The server died before that.
  RequestSlot* slot = arena_->Take(kConnection);
  const std::uint32_t length = 40;
  std::memcpy(slot->request.data(), &length, sizeof length);
  StartServer(true);
  EXPECT_TRUE(slots_->InUse().empty());
  call = Statfs();
  ASSERT_TRUE(ServeUntil([this] { return behaviour_.asked > (GetParam() ? 0 : 1); }));
  EXPECT_EQ(call.get(), 0);
}

TEST_P(FuseSessionTest, WhereNobodyServesTheSupervisorRefuses) {
  const KeptEntries kept = Kept();
  Refuser refuser(kept, *slots_);
  std::future<int> taken = TakenAndLost([this] { return Statfs(); });
  session_.reset();
  EXPECT_EQ(refuser.RefuseTaken(), 1U);
  EXPECT_EQ(taken.get(), EIO);
  EXPECT_TRUE(slots_->InUse().empty());
  std::future<int> waiting = Statfs();
  std::vector<pollfd> fds;
  refuser.AddTo(fds);
  ASSERT_EQ(fds.size(), 1U);
  ASSERT_EQ(::poll(fds.data(), 1, 10'000), 1);
  EXPECT_EQ(refuser.RefuseWaiting(), 1U);
  EXPECT_EQ(waiting.get(), EIO);
  // And then somebody does.
  StartServer(true);
  std::future<int> served = Statfs();
  ASSERT_TRUE(ServeUntil([this] { return behaviour_.asked > 0; }));
  EXPECT_EQ(served.get(), 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, FuseSessionTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "ThatMayResend" : "ThatDoNotResend";
});

}  // namespace
}  // namespace forebay
