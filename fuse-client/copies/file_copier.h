#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/model/block_source.h"
#include "fuse-client/copies/copy_store.h"

namespace forebay {

/// What became of copying, for one mount; counted since its first process began.
struct CopyCounts {
  std::atomic<std::uint64_t> opens{0};         ///< That the kernel serves from a copy.
  std::atomic<std::uint64_t> files{0};         ///< Copied.
  std::atomic<std::uint64_t> bytes{0};         ///< Written to copies, also to those never finished.
  std::atomic<std::uint64_t> without_room{0};  ///< Files that were not copied for want of it.
  std::atomic<std::uint64_t> failed{0};        ///< That could not be read or written; tried again.
  std::atomic<std::uint64_t> damaged{0};       ///< Copies.
};

/// Copies files that programs have opened into a CopyStore, one piece after the other, each as it
/// comes verified from `source`. Behind demand: while programs read, it rests for as long as each
/// piece took. Its io_context is not one of those that serve the kernel: it writes to a disk there,
/// and waits for it.
class FileCopier {
 public:
  static constexpr std::size_t kFilesAtOnce = 2;
  /// More are forgotten, until they are opened the next time.
  static constexpr std::size_t kMaxWaiting = 4096;
  /// For one piece, with all that a node may wait for.
  static constexpr Duration kPatience = std::chrono::seconds(300);
  /// The longest rest behind a piece.
  static constexpr Duration kLongestRest = std::chrono::seconds(1);

  struct File {
    std::uint64_t nodeid = 0;
    ObjectVersion version;
    ObjectRef object;
  };
  /// All outlive the coroutines of `context`.
  struct Parts {
    asio::io_context& context;
    CopyStore& store;
    BlockSource& source;  ///< Used on `context`.
    MemoryBudget& memory;
    std::shared_ptr<CopyCounts> counts;
    Uuid link;
    std::uint64_t block_bytes = 0;
    /// A number that grows as programs read.
    std::function<std::uint64_t()> demand;
  };

  explicit FileCopier(Parts parts);
  FileCopier(const FileCopier&) = delete;
  FileCopier& operator=(const FileCopier&) = delete;

  /// Any thread: a program opened this file, of which there is no copy. At once.
  void Want(File file);
  /// Any thread: copies no more; in_flight() is zero soon if the source fails soon.
  void Stop() { state_->stopped = true; }
  /// Any thread. Files that wait or are being copied; the object outlives them.
  std::size_t in_flight() const { return state_->in_flight; }

 private:
  // Shared with the coroutines, which may outlive this object while their context ends.
  struct State {
    explicit State(Parts of) : parts(std::move(of)) {}
    const Parts parts;
    std::atomic<bool> stopped{false};
    std::atomic<std::size_t> in_flight{0};
    // Used on the context.
    std::deque<File> waiting;
    std::unordered_set<std::uint64_t> known;  // waiting or being copied, by nodeid
    std::size_t running = 0;
  };

  static void Take(const std::shared_ptr<State>& state, File file);
  static Task<void> Run(std::shared_ptr<State> state);
  static Task<Status> Copy(State* state, const File* file);
  static Task<Status> CopyPiece(State* state, const File* file, CopyDraft* draft,
                                std::uint64_t offset);

  const std::shared_ptr<State> state_;
};

}  // namespace forebay
