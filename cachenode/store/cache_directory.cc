#include "cachenode/store/cache_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "common/base/files.h"

namespace forebay {
namespace {

constexpr const char* kIdentityFile = "FOREBAY";
constexpr const char* kNewIdentityFile = "FOREBAY.new";
constexpr const char* kLockFile = "lock";
constexpr const char* kSegments = "segments";
constexpr const char* kProbeFile = "probe";
constexpr std::uint64_t kDirectoryFormat = 1;
constexpr std::size_t kMaxIdentityBytes = 4096;
constexpr std::size_t kNumberDigits = 10;  // of 2^32 - 1, so that names sort by number
constexpr std::string_view kSuffix = ".seg";

/// To make a link's folder, and a segment in it before somebody removes the folder as empty.
constexpr int kFolderAttempts = 100;

constexpr int kNoFollow = O_NOFOLLOW | O_CLOEXEC;

std::unexpected<Error> Invalid(const std::string& path, const std::string& what) {
  return Fail(Code::kInvalid, "cache directory " + path + " " + what);
}

std::unexpected<Error> CannotUse(const std::string& path, const std::string& why) {
  return Invalid(path,
                 "cannot be used, " + why + "; make it writable for this user or choose another");
}

std::unexpected<Error> CannotUse(const std::string& path, const std::string& step, int error) {
  return CannotUse(path, step + ": " + ErrnoText(error));
}

/// The rest of the first line of `text` when it begins with `key`; removes the line.
std::optional<std::string_view> TakeLine(std::string_view& text, std::string_view key) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(key)) return std::nullopt;
  const std::string_view value = text.substr(key.size(), end - key.size());
  text.remove_prefix(end + 1);
  return value;
}

std::optional<std::uint64_t> ParseDecimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string IdentityText(const DirectoryIdentity& identity) {
  return "forebay cache directory\nformat " + std::to_string(kDirectoryFormat) + "\ncluster " +
         identity.cluster.ToString() + "\ndirectory " + identity.directory.ToString() + "\n";
}

Result<DirectoryIdentity> ParseIdentity(const std::string& path, std::string_view text) {
  const auto damaged = [&] {
    return Invalid(path, "has a damaged file FOREBAY; restore it, or empty the directory");
  };
  if (!TakeLine(text, "forebay cache directory")) return damaged();
  const auto format = TakeLine(text, "format ").and_then(ParseDecimal);
  if (!format) return damaged();
  if (*format != kDirectoryFormat) {
    return Invalid(path, "has format " + std::to_string(*format) + " and this program knows only " +
                             std::to_string(kDirectoryFormat) +
                             "; use a newer program or another directory");
  }
  const auto cluster = TakeLine(text, "cluster ");
  const auto directory = TakeLine(text, "directory ");
  if (!cluster || !directory) return damaged();
  const DirectoryIdentity identity{Uuid::Parse(*cluster), Uuid::Parse(*directory)};
  // Parse answers zero for what is no uuid: only the real zero may stand for "unclaimed".
  if (identity.directory.IsZero() || identity.cluster.ToString() != *cluster) return damaged();
  return identity;
}

Result<std::string> ReadSmallFile(const std::string& path, int fd) {
  std::string text(kMaxIdentityBytes, '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  if (got < 0) return CannotUse(path, "reading its file FOREBAY", errno);
  text.resize(static_cast<std::size_t>(got));
  return text;
}

std::string SegmentName(std::uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(kNumberDigits - digits.size(), '0') + digits + std::string(kSuffix);
}

std::string SegmentFolder(const Uuid& link) {
  return std::string(kSegments) + "/" + link.ToString();
}

std::string SegmentPath(const Uuid& link, std::uint32_t number) {
  return SegmentFolder(link) + "/" + SegmentName(number);
}

std::optional<std::uint32_t> ParseSegmentName(const std::string& name) {
  if (name.size() != kNumberDigits + kSuffix.size()) return std::nullopt;
  const auto value = ParseDecimal(std::string_view(name).substr(0, kNumberDigits));
  if (!value || *value > UINT32_MAX) return std::nullopt;
  const auto number = static_cast<std::uint32_t>(*value);
  if (SegmentName(number) != name) return std::nullopt;
  return number;
}

bool SyncFolder(int root, const std::string& folder) {
  const FileDescriptor fd(::openat(root, folder.c_str(), O_RDONLY | O_DIRECTORY | kNoFollow));
  return fd && ::fsync(fd.get()) == 0;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::string ErrnoText(int error) { return std::generic_category().message(error); }

Result<std::optional<DirectoryIdentity>> CacheDirectory::Inspect(const std::string& path) {
  struct stat found;
  if (::stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return CannotUse(path, "looking at it", errno);
  }
  if (!S_ISDIR(found.st_mode)) return Invalid(path, "is a file; name a directory");
  const FileDescriptor fd(::open((path + "/" + kIdentityFile).c_str(), O_RDONLY | kNoFollow));
  if (!fd && errno != ENOENT) return CannotUse(path, "opening its file FOREBAY", errno);
  if (!fd) {
    for (const char* name : {"/segments", "/index"}) {
      if (::lstat((path + name).c_str(), &found) == 0) {
        return Invalid(path, std::string("contains ") + (name + 1) +
                                 " but no file FOREBAY, so it is not ours; choose an empty one");
      }
    }
    return std::nullopt;
  }
  Result<std::string> text = ReadSmallFile(path, fd.get());
  if (!text) return Fail(std::move(text.error()));
  Result<DirectoryIdentity> identity = ParseIdentity(path, *text);
  if (!identity) return Fail(std::move(identity.error()));
  return std::optional(*identity);
}

Result<CacheDirectory> CacheDirectory::Open(const std::string& path, const Uuid& cluster) {
  if (Result<std::optional<DirectoryIdentity>> before = Inspect(path); !before) {
    return Fail(std::move(before.error()));
  }
  if (Status made = MakePrivateFolder(path); !made) return CannotUse(path, made.error().message);
  FileDescriptor root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return CannotUse(path, "opening it", errno);
  CacheDirectory directory(path, std::move(root));
  if (Status locked = directory.Lock(); !locked) return Fail(std::move(locked.error()));

  // Looked at again: another process may have made it before we had the lock.
  const Result<std::optional<DirectoryIdentity>> found = Inspect(path);
  if (!found) return Fail(found.error());
  DirectoryIdentity identity = found->value_or(DirectoryIdentity{cluster, Uuid::Random()});
  const bool claim = identity.cluster.IsZero() && !cluster.IsZero();
  if (claim) identity.cluster = cluster;
  if (!cluster.IsZero() && identity.cluster != cluster) {
    return Invalid(path, "belongs to cluster " + identity.cluster.ToString() + ", not to " +
                             cluster.ToString() + "; empty it or choose another");
  }
  if (!found->has_value() || claim) {
    if (Status written = directory.Write(identity); !written)
      return Fail(std::move(written.error()));
  }
  directory.identity_ = identity;
  for (const char* folder : {kSegments, "index"}) {
    if (Status made = directory.MakeFolder(folder); !made) return Fail(std::move(made.error()));
  }
  return directory;
}

Status CacheDirectory::Lock() {
  lock_ = FileDescriptor(::openat(root_.get(), kLockFile, O_RDWR | O_CREAT | kNoFollow, 0600));
  if (!lock_) return CannotUse(path_, "creating its lock file", errno);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    std::array<char, 16> pid{};
    const ssize_t got = ::pread(lock_.get(), pid.data(), pid.size() - 1, 0);
    return Invalid(path_, "is in use by process " +
                              std::string(got > 0 ? pid.data() : "(unknown)") +
                              "; stop that one or choose another directory");
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock_.get(), 0) != 0 ||
      ::pwrite(lock_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return CannotUse(path_, "writing its lock file", errno);
  }
  return {};
}

Status CacheDirectory::Write(const DirectoryIdentity& identity) {
  const std::string text = IdentityText(identity);
  const FileDescriptor fd(
      ::openat(root_.get(), kNewIdentityFile, O_WRONLY | O_CREAT | O_TRUNC | kNoFollow, 0600));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd.get()) != 0 ||
      ::renameat(root_.get(), kNewIdentityFile, root_.get(), kIdentityFile) != 0 ||
      ::fsync(root_.get()) != 0) {
    return CannotUse(path_, "writing its file FOREBAY", errno);
  }
  return {};
}

Status CacheDirectory::MakeFolder(const char* name) const {
  if (::mkdirat(root_.get(), name, 0700) != 0 && errno != EEXIST) {
    return CannotUse(path_, std::string("creating ") + name, errno);
  }
  return {};
}

FileDescriptor CacheDirectory::CreateSegment(const Uuid& link, std::uint32_t number) const {
  const std::string folder = SegmentFolder(link);
  FileDescriptor fd;
  for (int attempt = 0; attempt < kFolderAttempts; ++attempt) {
    if (::mkdirat(root_.get(), folder.c_str(), 0700) == 0) {
      if (!SyncFolder(root_.get(), kSegments)) return FileDescriptor();
    } else if (errno != EEXIST) {
      return FileDescriptor();
    }
    fd = FileDescriptor(::openat(root_.get(), SegmentPath(link, number).c_str(),
                                 O_RDWR | O_CREAT | O_EXCL | kNoFollow, 0600));
    // The link's last segment was unlinked meanwhile, and its folder with it.
    if (fd || errno != ENOENT) break;
  }
  // The name must be durable before the index speaks of the segment.
  if (fd && !SyncFolder(root_.get(), folder)) return FileDescriptor();
  return fd;
}

FileDescriptor CacheDirectory::OpenSegment(const Uuid& link, std::uint32_t number,
                                           int flags) const {
  return FileDescriptor(
      ::openat(root_.get(), SegmentPath(link, number).c_str(), flags | kNoFollow));
}

bool CacheDirectory::UnlinkSegment(const Uuid& link, std::uint32_t number) const {
  // A mount of this machine may have it open, which would keep its space.
  if (const FileDescriptor fd = OpenSegment(link, number, O_WRONLY))
    (void)!::ftruncate(fd.get(), 0);
  if (::unlinkat(root_.get(), SegmentPath(link, number).c_str(), 0) != 0) return false;
  // Fails as long as the link has other segments.
  ::unlinkat(root_.get(), SegmentFolder(link).c_str(), AT_REMOVEDIR);
  return true;
}

Result<std::vector<SegmentOnDisk>> CacheDirectory::ListSegments() const {
  std::vector<SegmentOnDisk> segments;
  std::error_code error;
  const std::filesystem::path root = std::filesystem::path(path_) / kSegments;
  for (std::filesystem::directory_iterator folder(root, error), end; !error && folder != end;
       folder.increment(error)) {
    const Uuid link = Uuid::Parse(folder->path().filename().string());
    if (link.ToString() != folder->path().filename().string()) continue;
    for (std::filesystem::directory_iterator file(folder->path(), error); !error && file != end;
         file.increment(error)) {
      const auto number = ParseSegmentName(file->path().filename().string());
      struct stat found;
      if (!number || ::lstat(file->path().c_str(), &found) != 0 || !S_ISREG(found.st_mode))
        continue;
      segments.push_back({.link = link,
                          .number = *number,
                          .size = static_cast<std::uint64_t>(found.st_size),
                          .allocated = static_cast<std::uint64_t>(found.st_blocks) * 512});
    }
    if (error) break;
  }
  if (error) return CannotUse(path_, "listing its segments", error.value());
  std::ranges::sort(segments, {}, &SegmentOnDisk::number);
  return segments;
}

FileDescriptor CacheDirectory::CreateProbe() const {
  return FileDescriptor(
      ::openat(root_.get(), kProbeFile, O_RDWR | O_CREAT | O_TRUNC | kNoFollow, 0600));
}

bool CacheDirectory::RemoveProbe() const { return ::unlinkat(root_.get(), kProbeFile, 0) == 0; }

bool CacheDirectory::IsInPlace() const {
  struct stat opened;
  struct stat named;
  if (::fstatat(root_.get(), kIdentityFile, &opened, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::stat((path_ + "/" + kIdentityFile).c_str(), &named) != 0) {
    return errno != ENOENT && errno != ENOTDIR;  // a disk that cannot say it has other troubles
  }
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Result<CacheDirectory::Space> CacheDirectory::FileSystemSpace() const {
  struct statvfs space;
  if (::fstatvfs(root_.get(), &space) != 0) {
    return CannotUse(path_, "asking for its space", errno);
  }
  return Space{.size = std::uint64_t{space.f_blocks} * space.f_frsize,
               .available = std::uint64_t{space.f_bavail} * space.f_frsize};
}

}  // namespace forebay
