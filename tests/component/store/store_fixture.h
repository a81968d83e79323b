#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cachenode/store/block_store.h"
#include "tests/fakes/run_task.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {

/// The uuid of the `number`-th link of a test.
inline Uuid LinkNumber(std::uint8_t number) {
  Uuid link = Uuid::Parse("10000000-0000-4000-8000-000000000000");
  link.bytes[15] = number;
  return link;
}

inline Uuid TestCluster() { return Uuid::Parse("c0000000-0000-4000-8000-000000000001"); }

/// The block `number`; its length follows from it, so that every test sees short and long ones.
inline BlockId BlockNumber(std::uint64_t number, std::uint32_t length) {
  return {{number, number * 0x9E3779B97F4A7C15ULL + 1}, (number % 5) << 22, length};
}

/// The only right bytes of a block.
inline std::shared_ptr<const Buffer> BytesOf(const BlockId& block) {
  auto buffer = std::make_shared<Buffer>(block.length);
  std::uint64_t state = std::hash<BlockId>()(block) | 1;
  for (std::size_t i = 0; i < buffer->size(); i += 8) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(buffer->data() + i, &state, std::min<std::size_t>(8, buffer->size() - i));
  }
  return buffer;
}

inline std::vector<std::uint64_t> ChecksumsOf(ByteView data) {
  std::vector<std::uint64_t> checksums;
  for (std::size_t at = 0; at < data.size(); at += kCellBytes) {
    checksums.push_back(
        CellChecksum(data.data() + at, std::min<std::size_t>(kCellBytes, data.size() - at)));
  }
  return checksums;
}

/// For a store that is closed: its disk is healthy.
inline Deadline Patience() { return Deadline::After(std::chrono::seconds(60)); }

/// A store with its threads, called as if it were synchronous.
class TestStore {
 public:
  explicit TestStore(BlockStoreOptions options, Uuid cluster = TestCluster())
      : opened_(BlockStore::Open(std::move(options), cluster, offload_)) {}

  bool open() const { return opened_.has_value(); }
  const Error& error() const { return opened_.error(); }
  BlockStore& operator*() { return **opened_; }
  BlockStore* operator->() { return opened_->get(); }

  Status Admit(const Uuid& link, const BlockId& block, std::string path = "",
               Room room = Room::kMayEvict) {
    const auto data = BytesOf(block);
    return fakes::RunTask(opened_->get()->Admit(link, block, Slice::Of(data),
                                                ChecksumsOf(data->view()), std::move(path), room));
  }
  /// All at once; answers how many are kept.
  std::uint32_t AdmitTogether(const Uuid& link, const std::vector<BlockId>& blocks) {
    asio::io_context context(1);
    std::uint32_t kept = 0;
    for (const BlockId& block : blocks) {
      asio::co_spawn(context, AdmitCounted(**opened_, link, block, kept),
                     [](std::exception_ptr failed) { EXPECT_FALSE(failed); });
    }
    context.run();
    return kept;
  }
  Result<Cells> Read(const BlockId& block, BlockRange range) {
    return fakes::RunTask(opened_->get()->Read(block, range));
  }
  /// The whole block is there, and right.
  bool Serves(const BlockId& block) { return ServesRange(block, {0, block.length}); }
  /// False: not there. Wrong bytes fail the test.
  bool ServesRange(const BlockId& block, BlockRange range) {
    const Result<Cells> cells = Read(block, range);
    if (!cells) {
      EXPECT_EQ(cells.error().code, Code::kNotFound) << cells.error().message;
      return false;
    }
    const auto right = BytesOf(block);
    EXPECT_TRUE(cells->Verify());
    EXPECT_EQ(cells->begin % kCellBytes, 0U);
    EXPECT_LE(cells->begin, range.begin);
    EXPECT_GE(cells->begin + cells->bytes.bytes.size(), range.end);
    EXPECT_EQ(std::memcmp(cells->bytes.bytes.data(), right->data() + cells->begin,
                          cells->bytes.bytes.size()),
              0)
        << "wrong bytes of " << block.ToString();
    return true;
  }
  Result<Evicted> Evict(std::vector<BlockId> blocks, EvictFilter filter = {}) {
    return fakes::RunTask(opened_->get()->Evict(std::move(blocks), filter));
  }
  Result<Evicted> EvictLink(const Uuid& link, EvictFilter filter = {}) {
    return fakes::RunTask(opened_->get()->EvictLink(link, filter));
  }
  Result<Evicted> Release(std::vector<BlockId> blocks, std::function<bool(const BlockId&)> keep) {
    return fakes::RunTask(
        opened_->get()->Release(std::move(blocks), std::chrono::hours(1), std::move(keep)));
  }
  /// The pinned blocks that nobody has used for an hour.
  std::vector<BlockId> PinnedOf(const Uuid& link) {
    std::vector<BlockId> all;
    for (std::optional<SegmentPlace> at = SegmentPlace(); at;) {
      const Result<PinnedPart> part =
          fakes::RunTask(opened_->get()->PinnedAt(link, *at, std::chrono::hours(1)));
      if (!part) break;
      all.insert(all.end(), part->blocks.begin(), part->blocks.end());
      at = part->next;
    }
    return all;
  }
  /// A whole take-over of pins in one step.
  Status TakePins(const Uuid& link, std::uint64_t version, std::vector<BlockId> blocks) {
    return TakePins({.link = link,
                     .sync = version + 1,
                     .version = version,
                     .begin = true,
                     .end = true,
                     .blocks = std::move(blocks)});
  }
  Status TakePins(PinStep step) {
    return fakes::RunTask(opened_->get()->TakePins(std::move(step)));
  }
  Offload& offload() { return offload_; }

 private:
  static Task<void> AdmitCounted(BlockStore& store, Uuid link, BlockId block, std::uint32_t& kept) {
    const auto data = BytesOf(block);
    std::vector<std::uint64_t> checksums = ChecksumsOf(data->view());
    const Status status = co_await store.Admit(link, block, Slice::Of(data), std::move(checksums),
                                               "", Room::kMayEvict);
    kept += status.has_value() ? 1 : 0;
  }

  Offload offload_{4, 1024};
  Result<std::unique_ptr<BlockStore>> opened_;
};

inline BlockStoreOptions OneDirectory(const std::string& path,
                                      std::uint64_t capacity = 256ULL << 20,
                                      std::uint64_t segment_bytes = 4ULL << 20) {
  BlockStoreOptions options;
  options.dirs = {{path, capacity}};
  options.segment_bytes = segment_bytes;
  return options;
}

/// Of the blocks of store_child.cc: three cells, the last one short.
inline constexpr std::uint32_t kChildLength = 150'000;

/// All segment files below a cache directory.
inline std::vector<std::filesystem::path> SegmentsBelow(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory + "/segments")) {
    if (entry.path().extension() == ".seg") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace forebay
