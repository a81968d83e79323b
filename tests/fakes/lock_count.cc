#include "tests/fakes/lock_count.h"

#include <dlfcn.h>
#include <pthread.h>

namespace {

thread_local std::uint64_t locks_taken = 0;

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = Real<int(pthread_mutex_t*)>("pthread_mutex_lock");
  ++locks_taken;
  return real(mutex);
}

extern "C" int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  static auto* const real = Real<int(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  ++locks_taken;
  return real(lock);
}

extern "C" int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  static auto* const real = Real<int(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  ++locks_taken;
  return real(lock);
}

namespace forebay::fakes {

std::uint64_t LocksTaken() { return locks_taken; }

}  // namespace forebay::fakes
