#include "fuse-client/order/order_runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "fuse-client/file_reader.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::SampleLink;

constexpr std::uint64_t kBlock = 256ULL * 1024;

/// The nodes, of which a test says how they answer prefetches.
class ScriptedNodes final : public BlockSource, public BlockPrefetcher {
 public:
  /// A file's key, and a block's offset in it.
  using Place = std::pair<std::string, std::uint64_t>;
  using Script = std::function<Status(const Place& place)>;

  Task<Result<Cells>> Read(BlockRequest request, Deadline) override {
    Cells cells;
    cells.bytes = Slice::Of(
        SampleLink::Bytes(request.object.key, request.block.offset, request.block.length));
    cells.tier = Tier::kPeer;
    co_return cells;
  }

  Task<Status> Prefetch(BlockRequest request) override {
    const std::scoped_lock lock(mutex_);
    const Place place{request.object.key, request.block.offset};
    ++asked_[place];
    Status answer = script_ ? script_(place) : Status();
    if (answer) begun_.insert(place);
    co_return answer;
  }

  void Play(Script script) {
    const std::scoped_lock lock(mutex_);
    script_ = std::move(script);
  }
  /// How often each block was asked for.
  std::map<Place, int> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  std::set<Place> begun() const {
    const std::scoped_lock lock(mutex_);
    return begun_;
  }

 private:
  mutable std::mutex mutex_;
  Script script_;
  std::map<Place, int> asked_;
  std::set<Place> begun_;
};

Status Busy() { return Fail(Code::kOverloaded, "there is much to do"); }

/// 300 files of one block, and 40 of three.
class OrderRunnerTest : public ::testing::Test {
 protected:
  static constexpr int kSmall = 300;
  static constexpr int kLarge = 40;

  OrderRunnerTest() : link_("sample", Sizes(), kBlock) {
    link_.BuildSnapshot(dir_ / "s.fbs");
    files_ = *FileSystem::Make(link_.OpenSnapshot(dir_ / "s.fbs"), {}, "", nullptr);
    FileReaderOptions options;
    options.link = link_.id();
    options.block_bytes = kBlock;
    reader_ = std::make_unique<FileReader>(
        FileReader::Parts{*files_, nodes_, nodes_, streams_, errors_, stats_, finder_,
                          jobs_.answers(), memory_, book_},
        options);
    jobs_.SetLink(link_.id(), LinkFacts{.name = "sample", .generation = 1, .blocks = 500});
    io_.Start();
  }
  ~OrderRunnerTest() override {
    runner_.reset();
    io_.Stop();
  }

  static std::string Small(int i) { return fmt::format("s{:03d}", i); }
  static std::string Large(int i) { return fmt::format("l{:03d}", i); }
  static std::map<std::string, std::uint64_t> Sizes() {
    std::map<std::string, std::uint64_t> sizes;
    for (int i = 0; i < kSmall; ++i) sizes[Small(i)] = 1000 + static_cast<std::uint64_t>(i);
    for (int i = 0; i < kLarge; ++i) sizes[Large(i)] = 2 * kBlock + 7;
    return sizes;
  }
  static std::vector<std::string> Range(std::string (*name)(int), int from, int to) {
    std::vector<std::string> names;
    for (int i = from; i < to; ++i) names.push_back(name(i));
    return names;
  }

  std::uint64_t NodeOf(const std::string& name) const {
    return files_->Lookup(FileSystem::kRoot, name)->attributes.st_ino;
  }
  std::vector<std::uint64_t> NodesOf(const std::vector<std::string>& names) const {
    // Not by FileSystem::Lookup: the kernel would know them from then on.
    const std::shared_ptr<const GenerationView> view = files_->view();
    std::vector<std::uint64_t> nodes;
    for (const std::string& name : names)
      nodes.push_back(view->snapshot->Lookup(view->root.directory, name)->nodeid);
    return nodes;
  }

  void Announce(const std::vector<std::string>& names) {
    ASSERT_TRUE(book_.Announce("train", AnnouncedOrder(NodesOf(names))));
  }

  /// `push`: false in large mode.
  void Run(bool push) {
    runner_ = std::make_unique<OrderRunner>(OrderRunner::Parts{
        .book = book_,
        .files = *files_,
        .jobs = jobs_,
        .stats = stats_,
        .link = link_.id(),
        .block_bytes = kBlock,
        .fetch = [this](AheadFile file,
                        AheadDone done) { Fetch(std::move(file), std::move(done)); },
        .store = [this](std::uint64_t nodeid,
                        const std::vector<Slice>&) { return files_->KernelKnows(nodeid); },
        .memory = [] { return FreeMemory{1U << 30, 1U << 30}; },
        .push = push});
  }

  /// As a worker does it.
  void Fetch(AheadFile file, AheadDone done) {
    asio::post(io_.At(0), [this, file = std::move(file), done = std::move(done)]() mutable {
      Spawn(io_.At(0), FetchNow(std::move(file), std::move(done)));
    });
  }
  Task<void> FetchNow(AheadFile file, AheadDone done) {
    Result<std::vector<Slice>> bytes;
    if (file.bytes) {
      bytes = co_await reader_->ReadAhead(file.nodeid, file.job);
    } else {
      const Status asked = co_await reader_->FetchAhead(file.nodeid, file.job);
      if (!asked) bytes = Fail(asked.error());
    }
    done(std::move(bytes));
  }

  std::uint64_t Count(Hinted result) const {
    return Sum().hinted[static_cast<std::size_t>(result)];
  }
  std::uint64_t Dealt() const {
    std::uint64_t all = 0;
    for (const std::uint64_t count : Sum().hinted) all += count;
    return all;
  }
  StatsSnapshot Sum() const {
    StatsSnapshot sum;
    stats_.AddTo(sum);
    return sum;
  }

  static bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
  }

  fakes::TempDir dir_;
  SampleLink link_;
  std::unique_ptr<FileSystem> files_;
  ScriptedNodes nodes_;
  StreamTable streams_;
  OrderBook book_;
  ErrorLog errors_;
  WorkerStats stats_;
  MemoryBudget memory_{64 * kBlock};
  JobTable jobs_{"mount"};
  JobFinder finder_{jobs_, JobFrom::kCgroup};
  std::unique_ptr<FileReader> reader_;
  IoPool io_{"orders", 1};
  std::unique_ptr<OrderRunner> runner_;
};

TEST_F(OrderRunnerTest, InLargeModeEveryBlockIsFetchedOfFilesOfOneAndOfSeveral) {
  std::vector<std::string> names = Range(Small, 0, kSmall);
  for (const std::string& name : Range(Large, 0, 8)) names.push_back(name);
  Announce(names);
  Run(/*push=*/false);
  ASSERT_TRUE(Eventually([&] { return Dealt() == names.size(); }));
  EXPECT_EQ(Count(Hinted::kFetched), names.size());
  EXPECT_EQ(nodes_.begun().size(), kSmall + 8u * 3);
  for (const auto& [place, times] : nodes_.asked()) EXPECT_EQ(times, 1) << place.first;
}

TEST_F(OrderRunnerTest, WhatIsRefusedIsAskedForAgainUntilEveryBlockIsOnItsWay) {
  int refusals = 150;
  nodes_.Play([&refusals](const ScriptedNodes::Place&) -> Status {
    if (refusals == 0) return {};
    --refusals;
    return Busy();
  });
  std::vector<std::string> names = Range(Small, 0, kSmall);
  for (const std::string& name : Range(Large, 0, 8)) names.push_back(name);
  Announce(names);
  Run(/*push=*/false);
  ASSERT_TRUE(Eventually([&] { return Dealt() == names.size(); }));
  EXPECT_EQ(Count(Hinted::kFetched), names.size());
  EXPECT_EQ(nodes_.begun().size(), kSmall + 8u * 3);
  EXPECT_EQ(Sum().prefetches_refused, 150u);
}

TEST_F(OrderRunnerTest, ALaterBlockOfAFileThatIsRefusedKeepsTheFileOnTheList) {
  std::set<std::string> refused;
  nodes_.Play([&refused](const ScriptedNodes::Place& place) -> Status {
    if (place.second != 2 * kBlock || !refused.insert(place.first).second) return {};
    return Busy();
  });
  Announce(Range(Large, 0, 8));
  Run(/*push=*/false);
  ASSERT_TRUE(Eventually([&] { return Dealt() == 8; }));
  EXPECT_EQ(Count(Hinted::kFetched), 8u);
  EXPECT_EQ(nodes_.begun().size(), 8u * 3);
  EXPECT_EQ(refused.size(), 8u);
}

TEST_F(OrderRunnerTest, WhileTheNodesRefuseNothingThatComesBehindIsAskedFor) {
  nodes_.Play([](const ScriptedNodes::Place&) { return Busy(); });
  Announce(Range(Small, 0, kSmall));
  Run(/*push=*/false);
  // Each of them several times.
  ASSERT_TRUE(Eventually([&] { return Sum().prefetches_refused > 4 * OrderRunner::kFilesAtOnce; }));
  EXPECT_LE(nodes_.asked().size(), OrderRunner::kFilesAtOnce);
  EXPECT_EQ(Dealt(), 0u) << "none of them is lost";
  nodes_.Play({});
  ASSERT_TRUE(Eventually([&] { return Dealt() == kSmall; }));
  EXPECT_EQ(Count(Hinted::kFetched), static_cast<std::uint64_t>(kSmall));
}

TEST_F(OrderRunnerTest, WhatTheJobHasReachedIsNotAskedForAnyMore) {
  nodes_.Play([](const ScriptedNodes::Place&) { return Busy(); });
  const std::vector<std::string> names = Range(Small, 0, kSmall);
  Announce(names);
  Run(/*push=*/false);
  ASSERT_TRUE(Eventually([&] { return Sum().prefetches_refused >= OrderRunner::kFilesAtOnce; }));
  book_.NoteRead("train", NodesOf(names).back());
  const auto refused = [&] { return Count(Hinted::kRefused); };
  ASSERT_TRUE(Eventually([&] { return refused() == nodes_.asked().size(); }));
  EXPECT_EQ(Dealt(), refused());
}

TEST_F(OrderRunnerTest, WhatCannotBeFetchedFailsOnceAndWhoIsSilentIsAskedAFewTimes) {
  nodes_.Play([](const ScriptedNodes::Place& place) -> Status {
    if (place.first == Small(1)) return Fail(Code::kDenied, "no");
    if (place.first == Small(2)) return Fail(Code::kUnavailable, "silent");
    return {};
  });
  Announce(Range(Small, 0, 4));
  Run(/*push=*/false);
  ASSERT_TRUE(Eventually([&] { return Dealt() == 4; }));
  EXPECT_EQ(Count(Hinted::kFailed), 2u);
  EXPECT_EQ(Count(Hinted::kFetched), 2u);
  EXPECT_EQ((nodes_.asked()[{Small(1), 0}]), 1);
  EXPECT_EQ((nodes_.asked()[{Small(2), 0}]), OrderRunner::kTriesMax);
}

// A job that announces before it walks has the kernel throw the first files back. As soon as it has
// walked, pushing goes on.
TEST_F(OrderRunnerTest, FilesThatTheKernelKnowsArePushedWhateverWasThrownBackBefore) {
  Announce(Range(Small, 0, 150));
  Run(/*push=*/true);
  ASSERT_TRUE(Eventually([&] { return Dealt() == 150; }));
  EXPECT_EQ(Count(Hinted::kPushed), 0u);
  EXPECT_GT(nodes_.begun().size(), 150 / AnnouncedOrder::kSignEvery + 1)
      << "after 32 of them only the nodes are asked";
  for (int i = 0; i < kSmall; ++i) (void)NodeOf(Small(i));  // the kernel gets their inodes
  Announce(Range(Small, 150, kSmall));
  ASSERT_TRUE(Eventually([&] { return Dealt() == kSmall; }));
  constexpr std::uint64_t kSigns =
      (kSmall - 150 + AnnouncedOrder::kSignEvery - 1) / AnnouncedOrder::kSignEvery;
  EXPECT_EQ(Count(Hinted::kPushed), kSmall - 150 - kSigns);
}

}  // namespace
}  // namespace forebay
