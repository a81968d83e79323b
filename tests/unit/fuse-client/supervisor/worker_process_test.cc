#include "fuse-client/supervisor/worker_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <new>

namespace forebay {
namespace {

const WorkerCommand kTrue = {.arguments = {"true"}, .environment = {}, .config = ""};

/// In memory that a child shares.
std::atomic<int>* handled = nullptr;

void OnCrash(int number) {
  handled->fetch_add(1);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// A supervisor that crashes clears its mount point; a worker must not, at no moment of its life.
TEST(WorkerProcess, ACrashBeforeItRunsItsProgramIsNotTheSupervisorsCrash) {
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  handled = new (shared) std::atomic<int>(0);
  struct sigaction action{};
  struct sigaction previous{};
  action.sa_handler = OnCrash;
  ASSERT_EQ(::sigaction(SIGSEGV, &action, &previous), 0);
  const OwnedFd program(::open("/bin/true", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(program);
  int crashed = 0;
  for (int i = 0; i < 300; ++i) {
    Result<WorkerProcess> worker = WorkerProcess::Start(program.get(), kTrue);
    ASSERT_TRUE(worker) << worker.error().message;
    worker->Kill(SIGSEGV);
    int status = 0;
    ASSERT_EQ(::waitpid(worker->pid(), &status, 0), worker->pid());
    crashed += WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? 1 : 0;
  }
  ::sigaction(SIGSEGV, &previous, nullptr);
  EXPECT_GT(crashed, 0) << "no signal came in time: this shows nothing";
  EXPECT_EQ(handled->load(), 0);
  ::munmap(shared, sizeof(std::atomic<int>));
}

TEST(WorkerProcess, TheSignalsOfItsSupervisorAreAsBefore) {
  sigset_t before;
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const OwnedFd program(::open("/bin/true", O_RDONLY | O_CLOEXEC));
  Result<WorkerProcess> worker = WorkerProcess::Start(program.get(), kTrue);
  ASSERT_TRUE(worker) << worker.error().message;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number = 1; number < NSIG; ++number) {
    EXPECT_EQ(sigismember(&before, number), sigismember(&after, number)) << number;
  }
  ASSERT_EQ(::waitpid(worker->pid(), nullptr, 0), worker->pid());
}

}  // namespace
}  // namespace forebay
