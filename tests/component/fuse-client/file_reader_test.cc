#include "fuse-client/file_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/fakes/run_task.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::RunTask;
using fakes::SampleLink;

constexpr std::size_t kRead = 128UL * 1024;
constexpr std::uint64_t kBlock = 256ULL * 1024;
constexpr std::size_t kMemory = 16 * kBlock;

/// Right bytes for every block; notes what was asked; fails on request.
class ScriptedSource final : public BlockSource, public BlockPrefetcher {
 public:
  Task<Result<Cells>> Read(BlockRequest request, Deadline) override {
    requests.push_back(request);
    if (failure) co_return Fail(*failure);
    const BlockRange range = EnclosingCells(request.range, request.block.length);
    Cells cells;
    cells.begin = range.begin;
    cells.bytes = Slice::Of(
        SampleLink::Bytes(request.object.key, request.block.offset + range.begin, range.size()));
    cells.tier = Tier::kPeer;
    co_return cells;
  }
  Task<Status> Prefetch(BlockRequest request) override {
    prefetched.push_back(request.block.offset);
    if (refusals > 0) {
      --refusals;
      co_return Fail(Code::kOverloaded, "there is much to do");
    }
    begun.insert(request.block.offset);
    co_return Status();
  }

  std::vector<BlockRequest> requests;
  std::vector<std::uint64_t> prefetched;
  std::set<std::uint64_t> begun;
  int refusals = 0;
  std::optional<Error> failure;
};

class FileReaderTest : public ::testing::Test {
 protected:
  FileReaderTest()
      : link_("sample", {{"big", 10 * kBlock + 77}, {"small", 40'000}, {"empty", 0}}, kBlock) {
    link_.BuildSnapshot(dir_ / "s.fbs");
    std::vector<ControlFiles::File> control;
    control.push_back({"stats", [] { return std::string("0123456789"); }});
    files_ = *FileSystem::Make(link_.OpenSnapshot(dir_ / "s.fbs"), {}, "",
                               std::make_unique<ControlFiles>(std::move(control)));
    FileReaderOptions options;
    options.link = link_.id();
    options.block_bytes = kBlock;
    options.presence = presence_;
    reader_ = std::make_unique<FileReader>(
        FileReader::Parts{*files_, source_, source_, streams_, errors_, stats_, jobs_,
                          table_.answers(), memory_, orders_},
        options);
    table_.SetLink(link_.id(), LinkFacts{.name = "sample", .generation = 1, .blocks = 12});
  }

  std::uint64_t InodeOf(const std::string& name) {
    return files_->Lookup(FileSystem::kRoot, name)->attributes.st_ino;
  }

  Result<std::string> Read(std::uint64_t inode, std::uint64_t offset, std::size_t size) {
    const auto slices = RunTask(reader_->Read(inode, offset, size, 0));
    if (!slices) return Fail(slices.error());
    std::string bytes;
    for (const Slice& slice : *slices) {
      bytes.append(reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size());
    }
    return bytes;
  }

  static std::string Expected(const std::string& key, std::uint64_t offset, std::size_t size) {
    const auto bytes = SampleLink::Bytes(key, offset, size);
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }

  fakes::TempDir dir_;
  SampleLink link_;
  std::unique_ptr<FileSystem> files_;
  ScriptedSource source_;
  StreamTable streams_;
  OrderBook orders_;
  ErrorLog errors_;
  const std::shared_ptr<LinkPresence> presence_ = std::make_shared<LinkPresence>("sample");
  WorkerStats stats_;
  MemoryBudget memory_{kMemory};
  JobTable table_{"job-1"};
  JobFinder jobs_{table_, JobFrom::kCgroup};
  std::unique_ptr<FileReader> reader_;
};

TEST_F(FileReaderTest, ASmallFileIsOneQuestionThatNamesTheObject) {
  EXPECT_EQ(Read(InodeOf("small"), 0, 131'072).value(), Expected("small", 0, 40'000));
  ASSERT_EQ(source_.requests.size(), 1u);
  const BlockRequest& asked = source_.requests[0];
  EXPECT_EQ(asked.link, link_.id());
  EXPECT_EQ(asked.object.key, "small");
  EXPECT_EQ(asked.object.etag, SampleLink::EtagOf("small"));
  EXPECT_EQ(asked.object.size, 40'000u);
  EXPECT_EQ(asked.job, "job-1");
  EXPECT_FALSE(asked.peer_only);
}

TEST_F(FileReaderTest, RandomReadsGiveExactlyTheBytesOfTheObject) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::uint64_t size = 10 * kBlock + 77;
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t offset = random() % (size + 1000);
    const std::size_t length = random() % (3 * kBlock);
    const std::size_t left = offset >= size ? 0 : std::min<std::size_t>(length, size - offset);
    EXPECT_EQ(Read(InodeOf("big"), offset, length).value(), Expected("big", offset, left));
  }
}

TEST_F(FileReaderTest, AtTheEndAndInAnEmptyFileNothingIsAsked) {
  EXPECT_EQ(Read(InodeOf("small"), 40'000, 4096).value(), "");
  EXPECT_EQ(Read(InodeOf("empty"), 0, 4096).value(), "");
  EXPECT_TRUE(source_.requests.empty());
}

TEST_F(FileReaderTest, ControlFilesAreReadFromTheirRendering) {
  const std::uint64_t control = InodeOf(".forebay");
  const std::uint64_t stats = files_->Lookup(control, "stats")->attributes.st_ino;
  EXPECT_EQ(Read(stats, 0, 4096).value(), "0123456789");
  EXPECT_EQ(Read(stats, 8, 4096).value(), "89");
  EXPECT_EQ(Read(stats, 10, 4096).value(), "");
  EXPECT_EQ(Read(stats, 99, 4096).value(), "");
}

TEST_F(FileReaderTest, ASequentialReaderIsPrefetchedForAndASmallFileNever) {
  const std::uint64_t big = InodeOf("big");
  for (std::uint64_t at = 0; at < 8 * kBlock; at += kRead) {
    ASSERT_TRUE(Read(big, at, kRead));
  }
  ASSERT_FALSE(source_.prefetched.empty());
  EXPECT_TRUE(std::is_sorted(source_.prefetched.begin(), source_.prefetched.end()));
  EXPECT_LT(source_.prefetched.back(), 10 * kBlock + 77);
  source_.prefetched.clear();
  ASSERT_TRUE(Read(InodeOf("small"), 0, 131'072));
  EXPECT_TRUE(source_.prefetched.empty());
}

TEST_F(FileReaderTest, WhatWasRefusedAheadOfAStreamIsAskedForAgain) {
  const std::uint64_t big = InodeOf("big");
  source_.refusals = 3;
  for (std::uint64_t at = 0; at < 10 * kBlock; at += kRead) ASSERT_TRUE(Read(big, at, kRead));
  EXPECT_EQ(source_.refusals, 0);
  EXPECT_TRUE(source_.begun.contains(10 * kBlock)) << "the stream has gone on";
  StatsSnapshot sum;
  stats_.AddTo(sum);
  EXPECT_EQ(sum.prefetches_refused, 3u);
  EXPECT_EQ(sum.prefetches + 3, source_.prefetched.size());
  EXPECT_EQ(reader_->asking(), 0u);
}

TEST_F(FileReaderTest, AFileIsFetchedAheadWhenAllOfItsFirstBlocksAre) {
  const std::shared_ptr<JobReads> job = table_.Open("job-1", link_.id());
  source_.refusals = 1;
  const Status refused = RunTask(reader_->FetchAhead(InodeOf("big"), job));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kOverloaded);
  EXPECT_EQ(source_.prefetched.size(), 1u) << "who has much to do is not asked for the rest";
  EXPECT_TRUE(RunTask(reader_->FetchAhead(InodeOf("big"), job)));
  EXPECT_EQ(source_.begun, (std::set<std::uint64_t>{0, kBlock, 2 * kBlock, 3 * kBlock}));
  EXPECT_EQ(RunTask(reader_->FetchAhead(123'456'789, job)).error().code, Code::kStale);
}

TEST_F(FileReaderTest, AFailureOfAnySpanFailsTheReadAndIsOnRecord) {
  source_.failure = Error{Code::kTimeout, "S3 did not answer"};
  const auto bytes = Read(InodeOf("big"), kBlock - 10, 20);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kTimeout);
  EXPECT_EQ(source_.requests.size(), 2u);
  EXPECT_NE(errors_.Render().find("EIO \"big\" 1x Timeout: S3 did not answer"), std::string::npos);
  StatsSnapshot sum;
  stats_.AddTo(sum);
  EXPECT_EQ(sum.failed_reads[static_cast<std::size_t>(Code::kTimeout)], 1u);
}

TEST_F(FileReaderTest, ThatTheLinkHasGoneIsOneFailureOfAllFiles) {
  presence_->Set(LinkPresence::State::kRemoved);
  source_.failure = presence_->Check().error();
  EXPECT_EQ(Read(InodeOf("small"), 0, 100).error().code, Code::kStale);
  EXPECT_FALSE(Read(InodeOf("big"), 0, 100));
  EXPECT_EQ(errors_.size(), 1u);
  EXPECT_NE(errors_.Render().find("ESTALE \".\" 2x"), std::string::npos) << errors_.Render();
  source_.failure = Error{Code::kStale, "the object has changed"};
  EXPECT_FALSE(Read(InodeOf("small"), 0, 100));
  EXPECT_NE(errors_.Render().find("\"small\" 1x"), std::string::npos) << "has a reason of its own";
}

TEST_F(FileReaderTest, AnInodeOfNoKnownGenerationIsStale) {
  EXPECT_EQ(Read(123'456'789, 0, 10).error().code, Code::kStale);
  EXPECT_EQ(errors_.size(), 1u);
}

TEST_F(FileReaderTest, AReadsMemoryIsCountedUntilItsBytesAreGone) {
  const std::uint64_t big = InodeOf("big");
  {
    const auto slices = RunTask(reader_->Read(big, kBlock - 10, 20, 0));
    ASSERT_TRUE(slices && slices->size() == 2);
    EXPECT_EQ(memory_.in_use(), 2 * kCellBytes) << "whole cells of two blocks";
  }
  EXPECT_EQ(memory_.in_use(), 0U);
  source_.failure = Error{Code::kTimeout, "S3 did not answer"};
  EXPECT_FALSE(Read(big, 0, 20));
  EXPECT_EQ(memory_.in_use(), 0U);
}

TEST_F(FileReaderTest, AtTheMemoryLimitAReadWaitsAndControlFilesDoNot) {
  std::optional<MemoryBudget::Reservation> others = *memory_.TryReserve(kMemory);
  std::optional<Result<std::vector<Slice>>> slices;
  asio::io_context context(1);
  asio::co_spawn(context, reader_->Read(InodeOf("small"), 0, 40'000, 0),
                 [&](const std::exception_ptr&, Result<std::vector<Slice>> result) {
                   slices = std::move(result);
                 });
  context.poll();
  EXPECT_FALSE(slices.has_value());
  EXPECT_TRUE(source_.requests.empty()) << "nothing is asked for that has no place";
  const std::uint64_t stats = files_->Lookup(InodeOf(".forebay"), "stats")->attributes.st_ino;
  EXPECT_EQ(Read(stats, 0, 4096).value(), "0123456789");
  others.reset();
  context.restart();
  context.run_for(std::chrono::seconds(20));
  ASSERT_TRUE(slices.has_value());
  EXPECT_TRUE(slices->has_value());
  EXPECT_EQ(source_.requests.size(), 1U);
  StatsSnapshot sum;
  stats_.AddTo(sum);
  EXPECT_EQ(sum.memory_waits, 1U);
}

}  // namespace
}  // namespace forebay
