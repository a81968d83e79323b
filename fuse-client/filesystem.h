#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/buffer.h"
#include "common/base/result.h"
#include "common/model/block_source.h"
#include "common/model/object_version.h"
#include "common/snapshot/snapshot.h"
#include "fuse-client/control_files.h"
#include "fuse-client/generations.h"
#include "fuse-client/kernel_inodes.h"

namespace forebay {

/// What S3 does not say about a file.
struct FileSystemOptions {
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t file_mode = 0444;
  mode_t dir_mode = 0555;
  /// Files that the kernel is given inodes of by reading directories, over all mounts that share
  /// `kernel_inodes`' total. Of more it gets the names alone, and an inode when it looks for one:
  /// so a walk of any size fills its memory only so far.
  std::uint64_t primed_inodes = 1'000'000;
  /// What the kernel holds of this mount; null: nothing yet, and counted for itself.
  std::shared_ptr<KernelInodes> kernel_inodes = nullptr;

  /// Python and others size their buffers by it: 1 READ instead of 2 for a small file (DESIGN 6.1).
  static constexpr blksize_t kBlockSizeHint = 128L * 1024;
  /// Where every read(2) is a message: the largest READ.
  static constexpr blksize_t kLargeBlockSizeHint = 1L << 20;
  blksize_t block_size_hint = kBlockSizeHint;
};

/// The POSIX view of one link: node ids, attributes, directories, xattrs. Everything is answered
/// from mapped snapshots, without a wait or an RPC; handles have no state, so any process that
/// holds the same snapshots can go on serving the same kernel. When the link's next generation is
/// shown, nodes that did not change stay what they were, and those that are gone or changed go on
/// for whoever has them open. All calls are
/// thread-safe. Knows nothing of FUSE.
class FileSystem {
 public:
  /// The mount's root, as FUSE wants it; of a sub-path mount it stands for that directory.
  static constexpr std::uint64_t kRoot = GenerationView::kRoot;

  struct Node {
    struct stat attributes;
    /// The name keeps this node for the life of the generation; false for control files, which are
    /// new at each lookup.
    bool lasting = true;
  };

  /// What a read needs to know: an object, or (control files) the bytes themselves.
  struct Content {
    std::optional<Slice> bytes;
    ObjectVersion version;
    ObjectRef object;
  };

  /// `sub_path` is the directory that becomes the root, "" = the link's own. kNotFound, kInvalid:
  /// no such directory, or a file. `control` may be null: no `.forebay`.
  static Result<std::unique_ptr<FileSystem>> Make(std::shared_ptr<const Snapshot> snapshot,
                                                  FileSystemOptions options,
                                                  std::string_view sub_path,
                                                  std::unique_ptr<ControlFiles> control);

  /// kNotFound: the listing has no such entry. kStale: `parent` is of no generation known here.
  Result<Node> Lookup(std::uint64_t parent, std::string_view name);
  /// That Lookup may block; every other answer is at once.
  bool IsSlow(std::uint64_t parent, std::string_view name) const;
  Result<Node> GetAttr(std::uint64_t nodeid) const;

  /// One entry of a directory. `next` is the offset at which a later ReadDir goes on after it, in
  /// the generation that the first part came from for as long as that is kept.
  struct Entry {
    std::string_view name;
    const Node& node;
    std::uint64_t next;
  };
  class EntryVisitor {
   public:
    virtual ~EntryVisitor() = default;
    virtual bool Visit(const Entry& entry) = 0;  ///< False: no room, stop before this entry.
  };
  /// Entries from `offset` on (0 or an Entry::next): ".", "..", then all others in byte order.
  Status ReadDir(std::uint64_t nodeid, std::uint64_t offset, EntryVisitor& visitor) const;

  struct statvfs StatFs() const;

  /// kNotFound: no such attribute here (ENODATA).
  Result<std::string> GetXattr(std::uint64_t nodeid, std::string_view name) const;
  /// The names, each ended by a NUL byte.
  Result<std::string> ListXattr(std::uint64_t nodeid) const;

  Result<Content> ContentOf(std::uint64_t nodeid) const;
  /// From the mount's root, for messages; "inode N" when nobody knows it any more.
  std::string PathOf(std::uint64_t nodeid) const;

  /// True when an entry of a directory may go to the kernel with its inode, which then counts as
  /// given until Forget. Directories always may: whoever reads them goes there next.
  bool MayPrime(const Node& node) const;
  /// The kernel holds an inode of it, as far as is known here: a guess that is mostly right.
  bool KernelKnows(std::uint64_t nodeid) const { return kernel_inodes_->Has(nodeid); }
  void Forget(std::uint64_t nodeid);

  /// Shows the link's next generation from now on. As Generations::Switch. What the kernel
  /// remembers of the one before is the caller's to end.
  Status Switch(std::shared_ptr<const Snapshot> next) {
    return generations_->Switch(std::move(next));
  }
  std::shared_ptr<const GenerationView> view() const { return generations_->view(); }

 private:
  FileSystem(std::unique_ptr<Generations> generations, FileSystemOptions options,
             std::unique_ptr<ControlFiles> control);

  static Result<SnapshotRow> DirectoryRowOf(const GenerationView& view, std::uint64_t nodeid);
  Node NodeOf(const GenerationView& view, const Snapshot& snapshot, const SnapshotRow& row) const;
  std::int64_t RootTime() const { return view()->root.mtime_unix_s; }
  Status ReadEntries(const GenerationView& view, const Snapshot& snapshot, std::uint32_t directory,
                     std::uint64_t position, EntryVisitor& visitor) const;
  Node ControlDirectory() const;
  Node ControlFile(const ControlFiles::Rendering& rendering) const;
  Node MakeNode(std::uint64_t nodeid, mode_t mode, std::uint64_t size, std::int64_t mtime) const;
  Result<Node> LookupControl(std::string_view name);
  Status ReadControlDir(std::uint64_t offset, EntryVisitor& visitor) const;

  const std::unique_ptr<Generations> generations_;
  const FileSystemOptions options_;
  const std::unique_ptr<ControlFiles> control_;
  const std::shared_ptr<KernelInodes> kernel_inodes_;
};

}  // namespace forebay
