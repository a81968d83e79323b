#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/object_version.h"
#include "common/snapshot/snapshot.h"
#include "proto/common.pb.h"

namespace forebay {

/// One published generation, open: its rows, and its file for those who fetch it. Whoever holds it
/// may go on reading after it was replaced or its link removed.
class PublishedGeneration {
 public:
  PublishedGeneration(std::shared_ptr<const Snapshot> snapshot, int fd, std::uint64_t bytes)
      : snapshot_(std::move(snapshot)), fd_(fd), bytes_(bytes) {}
  ~PublishedGeneration();
  PublishedGeneration(const PublishedGeneration&) = delete;
  PublishedGeneration& operator=(const PublishedGeneration&) = delete;

  const std::shared_ptr<const Snapshot>& snapshot() const { return snapshot_; }
  std::uint64_t bytes() const { return bytes_; }

  /// Compares the file with what was published, the first time that it is asked. kCorrupt: it is
  /// damaged. Blocks; thread-safe.
  Status Verify(const SnapshotDigest& published) const;
  /// It was just written by this process.
  void Trust() const { verified_ = true; }

  /// The file's bytes at [offset, offset + length). kInvalid outside of the file. Blocks.
  Result<std::shared_ptr<const Buffer>> Read(std::uint64_t offset, std::uint32_t length) const;

 private:
  std::shared_ptr<const Snapshot> snapshot_;
  int fd_;
  std::uint64_t bytes_;
  mutable std::mutex verifying_;
  mutable std::atomic<bool> verified_{false};
};

/// The snapshot files of all links, below `<state-dir>/snapshots/<link uuid>/<generation>.fbs`.
/// Thread-safe.
class NamespaceIndex {
 public:
  explicit NamespaceIndex(std::string directory) : directory_(std::move(directory)) {}

  /// Where the file of a generation is, or will be.
  std::string PathOf(const Uuid& link, std::uint64_t generation) const;

  /// Where the difference between two generations is, or will be.
  std::string DeltaPathOf(const Uuid& link, std::uint64_t before, std::uint64_t after) const;

  /// A piece of it. kNotFound: there is none (any more); kInvalid: it has no such bytes. Blocks.
  Result<std::shared_ptr<const Buffer>> ReadDelta(const Uuid& link, std::uint64_t before,
                                                  std::uint64_t after, std::uint64_t offset,
                                                  std::uint32_t length) const;

  /// Where what is listed waits until a generation is made of it (ListingSpool).
  std::string ListingFolderOf(const Uuid& link) const;

  /// A generation of `link` is about to be built: makes the link's folder (0700) and keeps Prune
  /// away from it until EndBuild. Blocks.
  Status BeginBuild(const Uuid& link);
  /// After the generation was published, or given up.
  void EndBuild(const Uuid& link);

  /// Opens a published generation: its header, size and identity are checked, whatever its size in
  /// less than a millisecond; `just_written` says that the rest needs no Verify. kCorrupt,
  /// kNotFound: the file is damaged or gone, list again. Blocks.
  Status Open(const Uuid& link, const proto::GenerationInfo& generation, bool just_written);

  /// Compares every byte of an open generation, once. kCorrupt: it is damaged; kNotFound: it is not
  /// open. Blocks.
  Status Verify(const Uuid& link, const proto::GenerationInfo& generation) const;

  /// Null when it is not (or no longer) kept.
  std::shared_ptr<const PublishedGeneration> Find(const Uuid& link, std::uint64_t generation) const;

  struct Needed {
    std::set<std::pair<Uuid, std::uint64_t>> files;  ///< Link and generation.
    std::set<Uuid> listings;                         ///< Links whose listing goes on.
    std::set<std::string> deltas;                    ///< By DeltaPathOf.
  };
  /// Deletes what no link needs and no build is making: the files of unknown links, of generations,
  /// differences and listings that `needed` does not name, and what a crash left half-made.
  /// `needed` is called while no build can begin. Blocks.
  void Prune(const std::function<Needed()>& needed);

 private:
  std::set<Uuid> Building() const;

  const std::string directory_;
  std::mutex files_mutex_;  // folders are made or deleted, not both
  mutable std::mutex mutex_;
  std::map<std::pair<Uuid, std::uint64_t>, std::shared_ptr<const PublishedGeneration>> open_;
  std::set<Uuid> building_;
};

}  // namespace forebay
