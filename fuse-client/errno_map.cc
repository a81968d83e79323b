#include "fuse-client/errno_map.h"

#include <cerrno>
#include <cstring>

namespace forebay {

int ErrnoOf(Code code) {
  switch (code) {
    case Code::kNotFound:
      return ENOENT;
    case Code::kStale:
      return ESTALE;
    // A file that could be opened is readable as far as POSIX goes, so missing credentials and an
    // archived object are a failure of the device to its reader, as is everything that did not come
    // in time. EAGAIN, ETIMEDOUT, EACCES and EINVAL from read(2) of a regular file are taken for
    // bugs by loaders.
    case Code::kInvalid:
    case Code::kDenied:
    case Code::kUnavailable:
    case Code::kOverloaded:
    case Code::kTimeout:
    case Code::kCorrupt:
    case Code::kInternal:
      return EIO;
  }
  return EIO;
}

std::string_view ErrnoName(int number) {
  if (number == 0) return "OK";
  const char* name = strerrorname_np(number);
  return name == nullptr ? std::string_view("other") : std::string_view(name);
}

}  // namespace forebay
