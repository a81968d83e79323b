#pragma once

// libfuse, for fuse_*.cc alone. The interface of libfuse 3.12, which 3.14 (Debian 12) and 3.17
// (Debian 13) both have.
#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <cerrno>

namespace forebay {

/// Every operation that would change something, answered by `Refuse`. The kernel refuses most of
/// them itself on a read-only mount, until somebody remounts it writable.
template <void (*Refuse)(fuse_req_t)>
struct WriteOperations {
  template <typename... Args>
  static void Answer(fuse_req_t request, Args...) {
    Refuse(request);
  }

  static void AddTo(fuse_lowlevel_ops& ops) {
    ops.setattr = Answer;
    ops.mknod = Answer;
    ops.mkdir = Answer;
    ops.unlink = Answer;
    ops.rmdir = Answer;
    ops.symlink = Answer;
    ops.rename = Answer;
    ops.link = Answer;
    ops.write = Answer;
    ops.create = Answer;
    ops.setxattr = Answer;
    ops.removexattr = Answer;
    ops.fallocate = Answer;
  }
};

}  // namespace forebay
