#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// How many inodes the kernel holds of all mounts of a process, about. Outlives its KernelInodes.
/// Thread-safe.
class KernelInodeTotal {
 public:
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  friend class KernelInodes;
  std::atomic<std::uint64_t> count_{0};
};

/// Which inodes of one mount the kernel holds, about. Each costs it 1.1 KB, charged to whoever
/// walked there (DESIGN 6.1). Nodeids are hashes: of 16 million bits each inode has one, so that
/// what is given twice counts once and a million are counted 3 % too few.
///
/// It lies in a memory file, of which only the pages where bits were set are in memory: 2 MiB at
/// most. The kernel keeps its inodes when the process that gave them dies, so its successor goes on
/// with the same file. Thread-safe.
class KernelInodes {
 public:
  /// `file` is that of an earlier process; none, or one of another size: begins with no inodes.
  /// Counts in `total`, too, until this object ends; null: in none.
  explicit KernelInodes(OwnedFd file = OwnedFd(), KernelInodeTotal* total = nullptr);
  ~KernelInodes();
  KernelInodes(const KernelInodes&) = delete;
  KernelInodes& operator=(const KernelInodes&) = delete;

  void Given(std::uint64_t nodeid);
  void Forgotten(std::uint64_t nodeid);
  bool Has(std::uint64_t nodeid) const;

  std::uint64_t count() const;
  /// Of this mount and all that share its total.
  std::uint64_t count_of_all() const { return total_ != nullptr ? total_->count() : count(); }

  /// For a successor; -1: there is none.
  int file() const { return file_.get(); }

 private:
  using Word = std::uint64_t;
  static constexpr std::size_t kWords = 1 << 18;
  static constexpr std::size_t kBytes = (1 + kWords) * sizeof(Word);  // the count comes first

  static Word BitOf(std::uint64_t nodeid) { return Word{1} << (nodeid % 64); }
  std::atomic_ref<Word> WordOf(std::uint64_t nodeid) const {
    return std::atomic_ref<Word>(words_[1 + nodeid / 64 % kWords]);
  }
  std::atomic_ref<Word> Count() const { return std::atomic_ref<Word>(words_[0]); }

  OwnedFd file_;
  Word* words_ = nullptr;  // null: nothing is counted
  KernelInodeTotal* const total_;
};

}  // namespace forebay
