#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/model/object_version.h"

namespace forebay {

/// An open file, closed when this ends.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }
  /// Where get() is kept, for who shares the file.
  const int* address() const { return &fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// The text of an errno.
std::string ErrnoText(int error);

/// Who a cache directory belongs to, as its file FOREBAY says.
struct DirectoryIdentity {
  Uuid cluster;    ///< Zero: no cluster has claimed it yet.
  Uuid directory;  ///< Made with the directory; seeds its records' checksums.
};

/// A segment file as it lies on disk.
struct SegmentOnDisk {
  Uuid link;
  std::uint32_t number = 0;
  std::uint64_t size = 0;
  std::uint64_t allocated = 0;  ///< Bytes that it occupies; holes do not.
};

/// One cache directory: its identity, its lock and the names in it (docs/STORE_FORMAT.md). Files
/// are 0600 in folders of 0700 and are never opened through a symbolic link. Errors of Open and
/// Inspect are kInvalid and end with what to do. Thread-safe once open.
class CacheDirectory {
 public:
  /// Looks without changing anything; empty when there is no directory of ours yet.
  static Result<std::optional<DirectoryIdentity>> Inspect(const std::string& path);

  /// Creates what is missing and locks the directory for this process until this object ends.
  /// `cluster` zero takes the directory as it is; otherwise an unclaimed one is claimed.
  static Result<CacheDirectory> Open(const std::string& path, const Uuid& cluster);

  const std::string& path() const { return path_; }
  const DirectoryIdentity& identity() const { return identity_; }
  std::string index_path() const { return path_ + "/index"; }
  /// The path still leads to the directory that was opened. False when it was removed or emptied,
  /// or when another file system was mounted over it.
  bool IsInPlace() const;

  // Segments. An empty descriptor or `false` means that errno says why not.
  FileDescriptor CreateSegment(const Uuid& link, std::uint32_t number) const;
  /// `flags`: O_RDONLY or O_WRONLY.
  FileDescriptor OpenSegment(const Uuid& link, std::uint32_t number, int flags) const;
  /// Its space is free from then on, whoever has it open.
  bool UnlinkSegment(const Uuid& link, std::uint32_t number) const;
  /// In ascending order of their numbers. Foreign files are left alone and not listed.
  Result<std::vector<SegmentOnDisk>> ListSegments() const;

  /// A file of its own for probing the disk; what an earlier probe left is overwritten.
  FileDescriptor CreateProbe() const;
  bool RemoveProbe() const;

  struct Space {
    std::uint64_t size = 0;       ///< Of the file system.
    std::uint64_t available = 0;  ///< What we may still write.
  };
  Result<Space> FileSystemSpace() const;

 private:
  CacheDirectory(std::string path, FileDescriptor root)
      : path_(std::move(path)), root_(std::move(root)) {}
  Status Lock();
  Status Write(const DirectoryIdentity& identity);
  Status MakeFolder(const char* name) const;

  std::string path_;
  FileDescriptor root_;
  FileDescriptor lock_;
  DirectoryIdentity identity_;
};

}  // namespace forebay
