#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <set>
#include <sstream>

#include "cachenode/store/segment_format.h"
#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

/// What a child said before it died.
struct Said {
  std::set<std::uint64_t> committed;  ///< And not evicted afterwards.
  std::set<std::uint64_t> evicting;
  bool killed = false;
};

/// Runs store_child with a failpoint, or kills it once it has said `lines` lines.
Said RunChild(const std::string& directory, unsigned seed, std::uint64_t first,
              const std::string& failpoints, std::optional<std::size_t> lines) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const std::string armed = "FOREBAY_FAILPOINTS=" + failpoints;
  const std::string seed_text = std::to_string(seed);
  const std::string first_text = std::to_string(first);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe_ends[1], STDOUT_FILENO);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    const char* arguments[] = {STORE_CHILD, directory.c_str(), seed_text.c_str(),
                               first_text.c_str(), nullptr};
    const char* environment[] = {armed.c_str(), nullptr};
    ::execve(STORE_CHILD, const_cast<char**>(arguments), const_cast<char**>(environment));
    ::_exit(127);
  }
  ::close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 1; got > 0;) {
    got = ::read(pipe_ends[0], buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    if (lines && static_cast<std::size_t>(std::ranges::count(text, '\n')) >= *lines) {
      ::kill(child, SIGKILL);
      lines.reset();
    }
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  Said said;
  said.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  EXPECT_TRUE(said.killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
  std::istringstream stream(text.substr(0, text.rfind('\n') + 1));
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("+ ") && !line.starts_with("- ")) continue;  // its log
    const std::uint64_t number = std::stoull(line.substr(2));
    if (line[0] == '+') {
      said.committed.insert(number);
    } else {
      said.committed.erase(number);
      said.evicting.insert(number);
    }
  }
  return said;
}

class StoreKillTest : public ::testing::Test {
 protected:
  /// Kills a child once more on the same directory, and looks at what the store holds then.
  void KillAndCheck(const std::string& failpoints, std::optional<std::size_t> lines) {
    SCOPED_TRACE(failpoints + " seed " + std::to_string(seed_));
    const Said said = RunChild(dir_ / "cache", seed_++, first_, failpoints, lines);
    if (said.killed) ++kills_;
    for (const std::uint64_t number : said.evicting) committed_.erase(number);
    committed_.insert(said.committed.begin(), said.committed.end());

    TestStore store(OneDirectory(dir_ / "cache", 128ULL << 20, 2ULL << 20));
    ASSERT_TRUE(store.open()) << store.error().message;
    std::uint64_t lost = 0;
    for (const std::uint64_t number : committed_) {
      lost += store.Serves(BlockNumber(number, kChildLength)) ? 0 : 1;
    }
    EXPECT_LE(lost * 100, committed_.size()) << "at least 99 % of what was committed is served";
    // The one block that was under way may be committed without having been reported. Anything
    // else that is served was reported.
    std::uint64_t unreported = 0;
    for (std::uint64_t number = first_; number < first_ + 400; ++number) {
      if (committed_.contains(number)) continue;
      if (store.Serves(BlockNumber(number, kChildLength))) ++unreported;
    }
    EXPECT_LE(unreported, 1U);
    EXPECT_EQ(store->counters().checksum_failures.load(), 0U)
        << "nothing that recovery believes in is broken";
    const std::uint64_t record = RecordDiskBytes(kChildLength);
    EXPECT_EQ(store->Disks()[0].used_bytes, store->BlockCount() * record)
        << "no space is lost by a kill";
    // What comes next starts from a known state.
    std::vector<BlockId> all;
    all.reserve(committed_.size());
    for (const std::uint64_t number : committed_) all.push_back(BlockNumber(number, kChildLength));
    if (all.size() > 300) {
      ASSERT_TRUE(store.Evict(all).has_value());
      committed_.clear();
    }
    first_ += 400;
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }

  fakes::TempDir dir_;
  std::set<std::uint64_t> committed_;
  std::uint64_t first_ = 0;
  unsigned seed_ = std::random_device{}() % 1'000'000;
  int kills_ = 0;
};

class StoreKillAtFailpoint : public StoreKillTest,
                             public ::testing::WithParamInterface<const char*> {};

TEST_P(StoreKillAtFailpoint, CommittedBlocksSurviveAndOthersAreNeverServed) {
  for (const int count : {1, 2, 17, 60}) {
    KillAndCheck(std::string(GetParam()) + ":" + std::to_string(count) + ":kill", std::nullopt);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(kills_, 4) << "the failpoint was not passed";
}

INSTANTIATE_TEST_SUITE_P(Every, StoreKillAtFailpoint,
                         ::testing::Values("store.in_record", "store.after_segment_write",
                                           "store.after_index_commit", "store.before_punch",
                                           "store.after_punch"));

TEST_F(StoreKillTest, KilledAtRandomMoments) {
  std::mt19937 random(seed_);
  for (int round = 0; round < 12 && !::testing::Test::HasFailure(); ++round) {
    KillAndCheck("", 1 + random() % 200);
  }
  EXPECT_EQ(kills_, 12);
}

TEST_F(StoreKillTest, UncommittedBlockIsNotServed) {
  // The very first block dies between its data and its index row.
  KillAndCheck("store.after_segment_write:1:kill", std::nullopt);
  TestStore store(OneDirectory(dir_ / "cache", 128ULL << 20, 2ULL << 20));
  ASSERT_TRUE(store.open());
  EXPECT_EQ(store->BlockCount(), 0U);
  EXPECT_EQ(store->Disks()[0].used_bytes, 0U);
  EXPECT_EQ(kills_, 1);
}

TEST_F(StoreKillTest, BlockWithItsIndexRowIsServedAlthoughNobodyHeardOfIt) {
  KillAndCheck("store.after_index_commit:1:kill", std::nullopt);
  TestStore store(OneDirectory(dir_ / "cache", 128ULL << 20, 2ULL << 20));
  ASSERT_TRUE(store.open());
  EXPECT_EQ(store->BlockCount(), 1U);
  EXPECT_TRUE(store.Serves(BlockNumber(0, kChildLength)));
}

}  // namespace
}  // namespace forebay
