#include "tests/fakes/read_errors.h"

#include <dlfcn.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> sick{-1};
std::atomic<std::uint64_t> errors{0};

}  // namespace

extern "C" ssize_t preadv2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  using Function = ssize_t(int, const iovec*, int, off_t, int);
  static auto* const real = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "preadv2"));
  if (descriptor != sick) return real(descriptor, parts, count, offset, flags);
  ++errors;
  errno = EIO;
  return -1;
}

namespace forebay::fakes {

ReadErrors::ReadErrors(int descriptor) {
  errors = 0;
  sick = descriptor;
}
ReadErrors::~ReadErrors() { sick = -1; }

std::uint64_t ReadErrors::seen() const { return errors; }

}  // namespace forebay::fakes
