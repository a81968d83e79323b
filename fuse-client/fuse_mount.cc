#include "fuse-client/fuse_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "fuse-client/fuse_library.h"
#include "fuse-client/no_leak.h"

namespace forebay {

namespace {

std::unexpected<Error> CannotMount(const FuseMountOptions& options, const std::string& reason) {
  return Fail(Code::kInternal, "cannot mount on " + options.mountpoint + ": " + reason);
}

std::string ErrnoText() { return std::generic_category().message(errno); }

/// What both ways of mounting tell the kernel's FUSE.
std::string KernelOptions(const FuseMountOptions& options) {
  return "default_permissions,max_read=" + std::to_string(kMaxReadBytes) +
         (options.allow_other ? ",allow_other" : "");
}

/// The kernel is asked without libfuse, which for root runs mount(8) to keep a table of mounts that
/// nothing here reads: containers may lack that program, libfuse 3.17 changes the user for it,
/// which the filter of the unit's system calls refuses, and its child then never ends.
Result<OwnedFd> MountByKernel(const FuseMountOptions& options) {
  struct stat root{};
  if (::stat(options.mountpoint.c_str(), &root) != 0) return CannotMount(options, ErrnoText());
  OwnedFd fd(::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return CannotMount(options, "/dev/fuse: " + ErrnoText());
  std::array<char, 128> identity{};
  std::snprintf(identity.data(), identity.size(), "fd=%d,rootmode=%o,user_id=%u,group_id=%u,",
                fd.get(), root.st_mode & S_IFMT, ::getuid(), ::getgid());
  const std::string data = identity.data() + KernelOptions(options);
  const unsigned long flags = MS_NOSUID | MS_NODEV | (options.read_only ? MS_RDONLY : 0UL);
  if (::mount(options.source.c_str(), options.mountpoint.c_str(), "fuse.forebay", flags,
              data.c_str()) != 0) {
    const Code code = errno == EPERM ? Code::kDenied : Code::kInternal;
    return Fail(code, CannotMount(options, ErrnoText()).error().message);
  }
  return fd;
}

std::string LibraryOptions(const FuseMountOptions& options) {
  std::string text = options.read_only ? "ro" : "rw";
  text += ",nosuid,nodev,subtype=forebay," + KernelOptions(options);
  // libfuse takes a comma for the end of an option unless a backslash stands before it.
  text += ",fsname=";
  for (const char c : options.source) {
    if (c == ',' || c == '\\') text.push_back('\\');
    text.push_back(c);
  }
  return text;
}

/// libfuse frees its copy of the mount point's name when it unmounts, and we leave a mount to the
/// processes to come: what this call allocates is no leak.
int MountAndStay(struct fuse_session* session, const std::string& mountpoint) {
  [[maybe_unused]] const NoLeak no_leak;
  return fuse_session_mount(session, mountpoint.c_str());
}

Result<OwnedFd> MountByLibrary(const FuseMountOptions& options) {
  const struct fuse_lowlevel_ops nothing{};
  Result<FuseLibrarySession> session =
      NewFuseLibrarySession(LibraryOptions(options), nothing, nullptr);
  if (!session) return Fail(session.error());
  if (MountAndStay(session->get(), options.mountpoint) != 0) {
    const std::string& reason = LastFuseMessage();
    return CannotMount(options,
                       reason.empty() ? "fusermount3 refuses, and says why by itself" : reason);
  }
  // The session ends here and closes its own; it leaves the mount alone.
  OwnedFd fd(::fcntl(fuse_session_fd(session->get()), F_DUPFD_CLOEXEC, 0));
  const int flags = fd ? ::fcntl(fd.get(), F_GETFL) : -1;
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return Fail(Code::kInternal, "cannot make /dev/fuse non-blocking: " + ErrnoText());
  }
  return fd;
}

}  // namespace

Result<OwnedFd> MountFuse(const FuseMountOptions& options) {
  if (::geteuid() != 0) return MountByLibrary(options);
  Result<OwnedFd> fd = MountByKernel(options);
  if (fd || fd.error().code != Code::kDenied) return fd;
  // Root of a container may lack the right; what stands there as fusermount3 may have it.
  Result<OwnedFd> helped = MountByLibrary(options);
  if (helped) return helped;
  return Fail(Code::kInternal, fd.error().message +
                                   ": this root lacks CAP_SYS_ADMIN (a container: --cap-add "
                                   "SYS_ADMIN), and with fusermount3: " +
                                   helped.error().message);
}

}  // namespace forebay
