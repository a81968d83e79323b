#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cachenode/store/block_store.h"
#include "common/base/buffer.h"
#include "common/base/executors.h"

// What the sections of store_bench share. A step that fails ends the program with a message: there
// is nothing to be measured then.
namespace forebay::store_bench {

/// A store, its threads for disk work as a node has them, and event loops that call it.
class Rig {
 public:
  Rig(BlockStoreOptions options, std::size_t loops);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  BlockStore& store() { return *store_; }

  /// Calls `one(i)` for each i below `count`, `at_once` at a time on each loop.
  void ForAll(std::uint64_t count, std::size_t at_once,
              const std::function<Task<void>(std::uint64_t)>& one);

  /// What was admitted is durable then. No other call after it.
  void Close();

 private:
  Offload offload_{8, 4096};
  IoPool loops_;
  const std::size_t at_loops_;
  std::unique_ptr<BlockStore> store_;
};

/// Blocks of one length with one of a few contents, so that a wrong one is noticed.
class Samples {
 public:
  explicit Samples(std::uint32_t length);

  std::uint32_t length() const { return length_; }
  BlockId Block(std::uint64_t number) const;
  const std::shared_ptr<const Buffer>& Bytes(std::uint64_t number) const;
  const std::vector<std::uint64_t>& Checksums(std::uint64_t number) const;

 private:
  static constexpr std::size_t kContents = 8;

  const std::uint32_t length_;
  std::vector<std::shared_ptr<const Buffer>> bytes_;
  std::vector<std::vector<std::uint64_t>> checksums_;
};

/// A store of one directory without a bound that would matter.
BlockStoreOptions StoreIn(const std::string& folder);
Uuid BenchLink();

/// 0 to count - 1 in an order that follows from `seed`.
std::vector<std::uint64_t> Shuffled(std::uint64_t count, std::uint64_t seed);

/// Every file below `folder`: its dirty pages written, its clean ones dropped. Needs no root.
void DropPages(const std::string& folder);
/// All of `folder`'s file system on its disk.
void SyncAll(const std::string& folder);
/// Space that files below `folder` take.
std::uint64_t AllocatedBelow(const std::string& folder);
void Remove(const std::string& folder);

double Seconds();
double CpuSeconds();
/// Of this process, as the kernel counts them: pages that were made dirty, less truncated ones.
std::uint64_t BytesWritten();
std::uint64_t ResidentBytes();

[[noreturn]] void Die(const std::string& what);
template <typename T>
T Must(Result<T> result, const char* what) {
  if (!result) Die(std::string(what) + ": " + result.error().message);
  return *std::move(result);
}
inline void Must(const Status& status, const char* what) {
  if (!status) Die(std::string(what) + ": " + status.error().message);
}
void MustSystem(bool good, const char* what);

}  // namespace forebay::store_bench
