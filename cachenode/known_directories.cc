#include "cachenode/known_directories.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cachenode/store/cache_directory.h"
#include "common/base/files.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTitle = "forebay known cache directory\n";
constexpr std::string_view kFileSystemKey = "filesystem ";
constexpr std::string_view kPathKey = "\npath ";
constexpr std::string_view kNoId = "-";

// linux/magic.h of Debian 12 does not know all of them. Their f_fsid is made of the file system's
// uuid (ext2 to ext4, btrfs, bcachefs) or of a guid (ZFS); that of others, XFS among them, is the
// number of the device, which the next boot gives to another disk.
constexpr std::array<std::uint32_t, 4> kTypesWithLastingFsid = {0xEF53, 0x9123683E, 0xCA451A4E,
                                                                0x2FC12FC1};

/// FS_IOC_GETFSUUID of Linux 6.9, newer than the headers of Debian 12.
struct FsUuid {
  std::uint8_t length = 0;
  std::array<std::uint8_t, 16> bytes{};
};
constexpr unsigned long kGetFsUuid = _IOR(0x15, 0, FsUuid);

std::string Hex(const std::uint8_t* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

std::string UuidOfFileSystem(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  FsUuid uuid;
  if (!fd || ::ioctl(fd.get(), kGetFsUuid, &uuid) != 0) return std::string(kNoId);
  return Hex(uuid.bytes.data(), std::min<std::size_t>(uuid.length, uuid.bytes.size()));
}

std::string Normal(const std::string& path) {
  std::string normal = fs::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

std::string WhatToDo(const std::string& path, const std::string& otherwise) {
  return "; nothing is written there: mount its disk, or start the node once with "
         "--accept-new-disk " +
         path + " to " + otherwise;
}

}  // namespace

std::string FileSystemOf(const std::string& path) {
  struct statfs found;
  if (::statfs(path.c_str(), &found) != 0) return "";
  const auto type = static_cast<std::uint32_t>(found.f_type);
  const bool lasts = std::ranges::count(kTypesWithLastingFsid, type) > 0;
  std::array<std::uint8_t, sizeof(found.f_fsid)> id{};
  std::memcpy(id.data(), &found.f_fsid, id.size());
  return fmt::format("{:x}:{}", type, lasts ? Hex(id.data(), id.size()) : UuidOfFileSystem(path));
}

bool MayBeSameFileSystem(const std::string& a, const std::string& b) {
  const std::size_t colon = a.find(':');
  if (a == b || colon == std::string::npos) return a == b;
  if (a.substr(0, colon) != b.substr(0, b.find(':'))) return false;
  return a.substr(colon + 1) == kNoId || b.substr(colon + 1) == kNoId;
}

Result<KnownDirectories> KnownDirectories::Open(const std::string& folder) {
  KnownDirectories known(folder);
  Status read = MakePrivateFolder(folder);
  if (read) read = known.Read();
  if (!read) return Fail(std::move(read.error()));
  return known;
}

Status KnownDirectories::Read() {
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, error)) {
    const std::string name = file.path().filename().string();
    // What a write left that was cut off, or what is not ours.
    if (Uuid::Parse(name).IsZero()) continue;
    const Result<std::string> text = ReadWholeFile(file.path().string());
    // Another node has removed it meanwhile.
    if (!text && text.error().code == Code::kNotFound) continue;
    if (!text) return Fail(text.error());
    std::optional<Record> record = Parse(name, *text);
    if (!record) {
      return Fail(Code::kCorrupt, file.path().string() +
                                      " is damaged; see that the disks of all cache directories "
                                      "are mounted, and remove it");
    }
    records_.push_back(std::move(*record));
  }
  if (error) return Fail(Code::kInternal, "reading " + folder_ + ": " + error.message());
  return {};
}

std::optional<KnownDirectories::Record> KnownDirectories::Parse(const std::string& name,
                                                                const std::string& text) {
  std::string_view rest = text;
  if (!rest.starts_with(kTitle)) return std::nullopt;
  rest.remove_prefix(kTitle.size());
  const std::size_t path = rest.find(kPathKey);
  if (!rest.starts_with(kFileSystemKey) || path == std::string_view::npos || !rest.ends_with('\n'))
    return std::nullopt;
  rest.remove_suffix(1);
  const std::size_t begin = kFileSystemKey.size();
  return Record{.directory = Uuid::Parse(name),
                .path = std::string(rest.substr(path + kPathKey.size())),
                .file_system = std::string(rest.substr(begin, path - begin))};
}

const KnownDirectories::Record* KnownDirectories::Find(const Uuid& directory) const {
  const auto found = std::ranges::find(records_, directory, &Record::directory);
  return found == records_.end() ? nullptr : &*found;
}

const KnownDirectories::Record* KnownDirectories::FindAt(const std::string& path) const {
  const auto found = std::ranges::find(records_, path, &Record::path);
  return found == records_.end() ? nullptr : &*found;
}

Result<std::optional<std::string>> KnownDirectories::Objection(const std::string& path) const {
  Result<std::optional<DirectoryIdentity>> found = CacheDirectory::Inspect(path);
  if (!found) return Fail(std::move(found.error()));
  const std::string begin = "cache directory " + path;
  const Record* const expected = FindAt(Normal(path));
  if (!found->has_value()) {
    if (expected == nullptr) return std::nullopt;
    return begin + " is empty or not there, and was " + expected->directory.ToString() +
           " when a node used it last" + WhatToDo(path, "begin an empty cache");
  }
  const Uuid directory = (*found)->directory;
  const Record* const known = Find(directory);
  // A directory that is known may be mounted elsewhere now.
  if (known == nullptr && expected == nullptr) return std::nullopt;
  if (known == nullptr) {
    return begin + " is " + directory.ToString() + ", and was " + expected->directory.ToString() +
           " when a node used it last" + WhatToDo(path, "use what is there");
  }
  const std::string file_system = FileSystemOf(path);
  if (MayBeSameFileSystem(file_system, known->file_system)) return std::nullopt;
  return begin + " lies on file system " + file_system + ", and lay on " + known->file_system +
         " when a node used it last" + WhatToDo(path, "use what is there");
}

Status KnownDirectories::Accept(const std::string& path) {
  const Result<std::optional<DirectoryIdentity>> found = CacheDirectory::Inspect(path);
  if (!found) return Fail(found.error());
  const std::string normal = Normal(path);
  const auto speaks_against = [&](const Record& record) {
    return record.path == normal || (found->has_value() && record.directory == (*found)->directory);
  };
  for (const Record& record : records_) {
    if (!speaks_against(record)) continue;
    const std::string file = folder_ + "/" + record.directory.ToString();
    std::error_code error;
    fs::remove(file, error);
    if (error) return Fail(Code::kInternal, "removing " + file + ": " + error.message());
  }
  std::erase_if(records_, speaks_against);
  return {};
}

Status KnownDirectories::Remember(const std::string& path) {
  const Result<std::optional<DirectoryIdentity>> found = CacheDirectory::Inspect(path);
  if (!found) return Fail(found.error());
  if (!found->has_value()) return Fail(Code::kNotFound, path + " is no cache directory");
  Record record{
      .directory = (*found)->directory, .path = Normal(path), .file_system = FileSystemOf(path)};
  if (const Record* const known = Find(record.directory)) {
    if (known->path == record.path && known->file_system == record.file_system) return {};
  }
  std::string text(kTitle);
  text += kFileSystemKey;
  text += record.file_system;
  text += kPathKey;
  text += record.path + "\n";
  Status written = WriteFileAtomically(folder_ + "/" + record.directory.ToString(), text);
  if (!written) return written;
  std::erase_if(records_, [&](const Record& known) { return known.directory == record.directory; });
  records_.push_back(std::move(record));
  return {};
}

}  // namespace forebay
