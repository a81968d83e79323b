#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "cachenode/block_reader.h"
#include "cachenode/filler.h"
#include "cachenode/node_counters.h"
#include "cachenode/origin.h"
#include "common/base/executors.h"
#include "common/model/link.h"
#include "tests/fakes/memory_block_store.h"
#include "tests/fakes/scripted_object_store.h"
#include "tests/fakes/scripted_peers.h"

namespace forebay {

/// A link over s3://bucket/data/.
LinkSpec TestLink(std::uint64_t block_bytes = 256ULL * 1024);
ObjectRef TestObject(std::string key, std::uint64_t size);

/// True when `condition()` holds within 20 s.
bool Eventually(const std::function<bool()>& condition);

/// True when the cells are the object's own bytes at their place, and match their checksums.
::testing::AssertionResult AreRight(const Result<Cells>& cells, const CheckedRead& read);

/// BlockReader and all that stands below it, over a store and an S3 in memory, on two threads. When
/// a test ends nothing is reserved and nothing is in flight.
class ReaderRig : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlock = 256 * 1024;

  explicit ReaderRig(FillerOptions options = {}, std::size_t threads = 2,
                     std::uint64_t block_bytes = kBlock, std::uint64_t reply_bytes = 1ULL << 30);
  ~ReaderRig() override;

  /// The read of `range` in the block of `object` at `offset`.
  CheckedRead ReadOf(const ObjectRef& object, std::uint64_t offset, BlockRange range) const;
  ColdBlock ColdOf(const CheckedRead& read) const;
  /// Starts it on one of the threads.
  std::future<Result<Cells>> Start(CheckedRead read, Duration patience = std::chrono::seconds(20));
  /// Returns when every read that was started has come as far as it can.
  void Settle();
  Result<Cells> Read(CheckedRead read) { return Start(std::move(read)).get(); }
  const LinkCount& count() { return *counters_.OfLink(link_->id); }
  bool IsIdle() const { return filler_.in_flight() == 0; }

  const std::shared_ptr<const LinkSpec> link_;
  fakes::MemoryBlockStore store_;
  fakes::ScriptedPeers peers_;
  fakes::ScriptedObjectStore s3_;
  NodeCounters counters_;
  BlockHistory history_;
  ChangedObjects changed_;
  Origin origin_{s3_, changed_, [] {}};
  Filler filler_;
  ReplyRoom replies_;
  BlockReader reader_;
  IoPool pool_;
};

}  // namespace forebay
