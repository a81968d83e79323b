#include "fuse-client/copies/file_copier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

constexpr std::uint64_t kBlock = 64ULL << 10;
const Uuid kLink = Uuid::Parse("11111111-2222-3333-4444-555555555555");

std::string BytesOf(const ObjectVersion& version, std::uint64_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(version.low + i * 3 + i / 253);
  return bytes;
}

/// Answers from nothing but the object's version; fails where it is told to.
class FakeSource final : public BlockSource {
 public:
  Task<Result<Cells>> Read(BlockRequest request, Deadline) override {
    EXPECT_EQ(request.link, kLink);
    const BlockRange range = request.range;
    EXPECT_LE(range.size(), kMaxPayloadBytes);
    asked.push_back(request.block);
    if (on_read) on_read();
    if (request.block.offset == fails_at) co_return Fail(Code::kTimeout, "no node answers");
    const std::string all = BytesOf(request.block.version, request.object.size);
    auto buffer = std::make_shared<Buffer>(range.size());
    std::copy_n(reinterpret_cast<const std::byte*>(all.data()) + request.block.offset + range.begin,
                range.size(), buffer->data());
    Cells cells;
    cells.begin = range.begin;
    cells.bytes = Slice::Of(std::move(buffer));
    co_return cells;
  }

  std::vector<BlockId> asked;
  std::uint64_t fails_at = ~0ULL;
  std::function<void()> on_read;
};

class FileCopierTest : public testing::Test {
 protected:
  FileCopierTest() { Open(kBlock); }

  /// Of a link with such blocks.
  void Open(std::uint64_t block_bytes) {
    copier_.reset();
    CopyStore::Options options;
    options.folder = folder_ / ("copies" + std::to_string(block_bytes));
    options.limit = 10 * block_bytes;
    options.boot = "this run";
    store_ = *CopyStore::Open(options);
    copier_ = std::make_unique<FileCopier>(FileCopier::Parts{.context = context_,
                                                             .store = *store_,
                                                             .source = source_,
                                                             .memory = memory_,
                                                             .counts = counts_,
                                                             .link = kLink,
                                                             .block_bytes = block_bytes,
                                                             .demand = [this] { return demand_; }});
  }

  static FileCopier::File File(std::uint64_t seed, std::uint64_t size) {
    return {.nodeid = seed, .version = {.high = 1, .low = seed}, .object = {"key", "etag", size}};
  }

  /// Until nothing is under way.
  void Run() {
    context_.restart();
    context_.run();
    EXPECT_EQ(copier_->in_flight(), 0U);
    EXPECT_EQ(memory_.in_use(), 0U);
  }

  std::string Read(std::uint64_t seed) {
    const auto found = store_->Find({kLink, {.high = 1, .low = seed}});
    if (!found) return "not found";
    std::string bytes(64 << 20, '\0');
    bytes.resize(static_cast<std::size_t>(::pread(found->get(), bytes.data(), bytes.size(), 0)));
    return bytes;
  }

  fakes::TempDir folder_;
  std::uint64_t demand_ = 0;
  std::unique_ptr<CopyStore> store_;
  FakeSource source_;
  MemoryBudget memory_{64 << 20};
  std::shared_ptr<CopyCounts> counts_ = std::make_shared<CopyCounts>();
  asio::io_context context_;
  std::unique_ptr<FileCopier> copier_;
};

TEST_F(FileCopierTest, CopiesWholeFilesEachOnce) {
  for (const std::uint64_t seed : {1U, 2U, 1U, 3U, 1U}) copier_->Want(File(seed, 2 * kBlock + 7));
  Run();
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    EXPECT_EQ(Read(seed), BytesOf({.high = 1, .low = seed}, 2 * kBlock + 7));
  }
  EXPECT_EQ(counts_->files, 3U);
  EXPECT_EQ(counts_->bytes, 3 * (2 * kBlock + 7));
  EXPECT_EQ(source_.asked.size(), 9U);
  copier_->Want(File(1, 2 * kBlock + 7));  // there is a copy
  Run();
  EXPECT_EQ(source_.asked.size(), 9U);
  EXPECT_EQ(counts_->failed, 0U);
}

TEST_F(FileCopierTest, ABlockThatIsLongerThanAnAnswerComesInParts) {
  Open(kMaxBlockBytes);
  constexpr std::uint64_t kSize = kMaxBlockBytes + (5 << 20) + 7;
  copier_->Want(File(1, kSize));
  Run();
  EXPECT_EQ(Read(1), BytesOf({.high = 1, .low = 1}, kSize));
  EXPECT_EQ(counts_->bytes, kSize);
  EXPECT_EQ(source_.asked.size(), 6U);
}

TEST_F(FileCopierTest, WhatHasNoRoomIsNotFetched) {
  copier_->Want(File(1, 11 * kBlock));
  Run();
  EXPECT_EQ(counts_->without_room, 1U);
  EXPECT_TRUE(source_.asked.empty());
}

TEST_F(FileCopierTest, AFileThatCannotBeReadLeavesNothingAndIsTriedAgain) {
  source_.fails_at = kBlock;
  copier_->Want(File(1, 3 * kBlock));
  Run();
  EXPECT_EQ(counts_->failed, 1U);
  EXPECT_EQ(Read(1), "not found");
  EXPECT_EQ(store_->totals().bytes, 0U);
  source_.fails_at = ~0ULL;
  copier_->Want(File(1, 3 * kBlock));
  Run();
  EXPECT_EQ(Read(1), BytesOf({.high = 1, .low = 1}, 3 * kBlock));
}

TEST_F(FileCopierTest, StopsBetweenTwoPieces) {
  source_.on_read = [this] { copier_->Stop(); };
  copier_->Want(File(1, 3 * kBlock));
  copier_->Want(File(2, 3 * kBlock));
  Run();
  EXPECT_EQ(source_.asked.size(), 1U);
  EXPECT_EQ(store_->totals().bytes, 0U);
  copier_->Want(File(3, kBlock));
  Run();
  EXPECT_EQ(source_.asked.size(), 1U);
}

}  // namespace
}  // namespace forebay
