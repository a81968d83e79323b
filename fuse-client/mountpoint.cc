#include "fuse-client/mountpoint.h"

#include <fcntl.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace forebay {

namespace {

std::string SystemMessage(int number) { return std::generic_category().message(number); }

// mountinfo writes blanks, tabs, line ends and backslashes as three octal digits.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out.push_back(static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8)));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

/// As the mount table shows ours.
constexpr std::string_view kMountType = "fuse.forebay";

struct Mounted {
  std::string type;    // "fuse.forebay"
  std::string device;  // "0:56"
};

/// What is mounted exactly at `path` (the topmost one); empty where nothing is.
Mounted MountedAt(const std::string& path) {
  std::ifstream table("/proc/self/mountinfo");
  std::string line;
  Mounted found;
  while (std::getline(table, line)) {
    // ID parent major:minor root MOUNTPOINT options [fields…] - TYPE source …
    std::istringstream fields(line);
    std::string skipped;
    std::string device;
    std::string place;
    fields >> skipped >> skipped >> device >> skipped >> place;
    if (Unescaped(place) != path) continue;
    while (fields >> skipped && skipped != "-") {
    }
    fields >> found.type;
    found.device = device;
  }
  return found;
}

/// Absolute, and without links but itself, which nobody may look at who does not know that it is
/// served; "" where its folder is missing.
std::string PlaceOf(const std::string& mountpoint) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(mountpoint, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::filesystem::path folder = std::filesystem::canonical(path.parent_path(), error);
  return error ? "" : (folder / path.filename()).string();
}

std::string ReadAheadFile(const std::string& device) {
  return "/sys/class/bdi/" + device + "/read_ahead_kb";
}

Status CheckFuse() {
  if (::access("/dev/fuse", F_OK) != 0) {
    return Fail(Code::kInternal,
                "/dev/fuse is missing: load it with `modprobe fuse`, or in a container pass "
                "--device /dev/fuse --cap-add SYS_ADMIN");
  }
  if (::geteuid() == 0) {
    const int fd = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      return Fail(Code::kInternal, "/dev/fuse cannot be opened (" + SystemMessage(errno) +
                                       "): a container needs --device /dev/fuse");
    }
    ::close(fd);
    return {};
  }
  if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    return Fail(Code::kInternal,
                "/dev/fuse may be opened by root only: give it back its usual "
                "permissions with `chmod 0666 /dev/fuse`, or mount as root");
  }
  if (PathOfFusermount().empty()) {
    return Fail(Code::kInternal,
                "fusermount3 is missing, which mounts for users other than root: install fuse3");
  }
  return {};
}

int RunFusermount(const std::string& flags, const std::string& mountpoint) {
  std::array<std::string, 4> words = {"fusermount3", flags, "--", mountpoint};
  std::array<char*, 5> argv = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                               nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Lazily.
Status Detach(const std::string& mountpoint) {
  if (::geteuid() != 0) {
    const int code = RunFusermount("-uz", mountpoint);
    if (code == 0) return {};
    return Fail(Code::kInternal, "detaching " + mountpoint + ": fusermount3 answered " +
                                     std::to_string(code) + (code < 0 ? ", it is missing" : ""));
  }
  if (::umount2(mountpoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) return {};
  return Fail(Code::kInternal, "detaching " + mountpoint + ": " + SystemMessage(errno));
}

}  // namespace

std::string PathOfFusermount() {
  const char* path = ::secure_getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string program = folder + "/fusermount3";
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

Status CheckUserAllowOther() {
  std::ifstream file("/etc/fuse.conf");
  std::string word;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> word && word == "user_allow_other") return {};
  }
  return Fail(Code::kInternal,
              "mounting / as a user other than root needs the line user_allow_other in "
              "/etc/fuse.conf, for fusermount3 to reach the links' directories: add it, mount as "
              "root, or mount each link by itself");
}

void ClearDeadMount(const std::string& mountpoint) {
  const std::string place = PlaceOf(mountpoint);
  // Attributes the kernel may still remember; this it asks the mount for.
  struct statvfs totals{};
  if (MountedAt(place).type != kMountType || ::statvfs(place.c_str(), &totals) == 0 ||
      errno != ENOTCONN) {
    return;
  }
  spdlog::warn("{} holds the mount of a forebay-mount that was killed; it is cleared", place);
  DetachLazily(place);
}

Result<std::string> AbsoluteMountpoint(const std::string& mountpoint) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(mountpoint, error);
  if (error) {
    if (error.value() == ENOTCONN) {
      return Fail(Code::kInvalid, mountpoint +
                                      " holds a dead FUSE mount: remove it with `fusermount3 -u " +
                                      mountpoint + "` or `umount -l`");
    }
    if (error.value() == ENOENT) {
      return Fail(Code::kInvalid, "the mount point " + mountpoint +
                                      " does not exist: make it with `mkdir -p " + mountpoint +
                                      "`");
    }
    return Fail(Code::kInvalid,
                "the mount point " + mountpoint + ": " + SystemMessage(error.value()));
  }
  return path.string();
}

Status CheckMountpoint(const std::string& mountpoint) {
  const Result<std::string> path = AbsoluteMountpoint(mountpoint);
  if (!path) return Fail(path.error());
  struct stat attributes{};
  if (::stat(path->c_str(), &attributes) != 0) {
    const int number = errno;
    const std::string hint =
        number == ENOTCONN ? "; remove the dead mount with `umount -l " + *path + "`" : "";
    return Fail(Code::kInvalid, "the mount point " + *path + ": " + SystemMessage(number) + hint);
  }
  if (!S_ISDIR(attributes.st_mode)) {
    return Fail(Code::kInvalid, "the mount point " + *path + " is not a directory");
  }
  const std::string type = MountedAt(*path).type;
  if (!type.empty()) {
    return Fail(Code::kInvalid, *path + " is in use: a " + type +
                                    " file system is mounted there; unmount it or choose another "
                                    "directory");
  }
  return CheckFuse();
}

Unmounted TryUnmount(const std::string& mountpoint) {
  if (::geteuid() != 0) {
    if (RunFusermount("-u", mountpoint) == 0) return Unmounted::kDone;
    return MountedAt(mountpoint).type.empty() ? Unmounted::kDone : Unmounted::kBusy;
  }
  if (::umount2(mountpoint.c_str(), UMOUNT_NOFOLLOW) == 0) return Unmounted::kDone;
  switch (errno) {
    case EBUSY:
      return Unmounted::kBusy;
    case EINVAL:
    case ENOENT:
      return Unmounted::kDone;
    default:
      return Unmounted::kFailed;
  }
}

void DetachLazily(const std::string& mountpoint) {
  const Status done = Detach(mountpoint);
  if (!done) spdlog::warn("{}", done.error().message);
}

Status DetachIfOurs(const std::string& mountpoint) {
  const std::string place = PlaceOf(mountpoint);
  if (MountedAt(place).type == kMountType) return Detach(place);
  return Fail(Code::kNotFound, "this process sees no mount of forebay at " + mountpoint);
}

Status ProbeMount(const std::string& mountpoint, unsigned read_ahead_kb) {
  struct stat attributes{};
  if (::stat(mountpoint.c_str(), &attributes) != 0) {
    return Fail(Code::kInternal,
                "the mount at " + mountpoint + " does not answer: " + SystemMessage(errno));
  }
  const std::string file = ReadAheadFile(std::to_string(major(attributes.st_dev)) + ":" +
                                         std::to_string(minor(attributes.st_dev)));
  std::ofstream out(file);
  out << read_ahead_kb << std::flush;
  if (!out) {
    spdlog::info("big files are read in pieces of 128 KiB, since {} is for root only", file);
  }
  return {};
}

std::optional<unsigned> ReadAheadKb(const std::string& mountpoint) {
  std::ifstream in(ReadAheadFile(MountedAt(mountpoint).device));
  unsigned read_ahead_kb = 0;
  if (!(in >> read_ahead_kb)) return std::nullopt;
  return read_ahead_kb;
}

}  // namespace forebay
