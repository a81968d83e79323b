#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace forebay {

/// How many inodes of a mount the kernel holds, about. Each costs it 1.1 KB, charged to whoever
/// walked there (DESIGN 6.1). Nodeids are hashes: of 16 million bits each inode has one, so that
/// what is given twice counts once and a million are counted 3 % too few. Thread-safe; its 2 MiB
/// are in memory only where bits were set.
class KernelInodes {
 public:
  KernelInodes()
      : words_(static_cast<std::uint64_t*>(std::calloc(kWords, sizeof(std::uint64_t)))) {}

  void Given(std::uint64_t nodeid) {
    if (!words_) return;
    const std::uint64_t bit = BitOf(nodeid);
    const std::uint64_t before = WordOf(nodeid).fetch_or(bit, std::memory_order_relaxed);
    if ((before & bit) == 0) count_.fetch_add(1, std::memory_order_relaxed);
  }
  void Forgotten(std::uint64_t nodeid) {
    if (!words_) return;
    const std::uint64_t bit = BitOf(nodeid);
    const std::uint64_t before = WordOf(nodeid).fetch_and(~bit, std::memory_order_relaxed);
    if ((before & bit) != 0) count_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kWords = 1 << 18;
  static std::uint64_t BitOf(std::uint64_t nodeid) { return 1ULL << (nodeid % 64); }
  std::atomic_ref<std::uint64_t> WordOf(std::uint64_t nodeid) {
    return std::atomic_ref<std::uint64_t>(words_.get()[nodeid / 64 % kWords]);
  }

  struct Free {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  std::unique_ptr<std::uint64_t, Free> words_;  // null: nothing is counted
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace forebay
