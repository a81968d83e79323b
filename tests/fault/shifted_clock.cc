// Loaded into a program before the C library: its wall clock is wrong by as many seconds as the
// file FOREBAY_SHIFTED_CLOCK says at that moment, 8 bytes in this machine's order. Time that only
// goes forward (CLOCK_MONOTONIC) is right, as on a machine whose clock somebody set.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using Shift = volatile std::int64_t;

Shift* MapShift() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before anything could change the environment
  const char* path = std::getenv("FOREBAY_SHIFTED_CLOCK");
  const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const mapped = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<Shift*>(mapped);
}

std::int64_t ShiftSeconds() {
  static Shift* const shift = MapShift();
  return shift == nullptr ? 0 : *shift;
}

/// The C library's own.
template <typename Function>
Function Real(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function>(found);
}

using GetTime = int (*)(clockid_t, timespec*);

/// Looked up before the program begins; until then it is null, and the kernel is asked. Not at the
/// first call: a sanitizer's allocator asks for the time with its lock held, and dlsym frees
/// memory.
const GetTime real_time = Real<GetTime>("clock_gettime");

int RightTime(clockid_t clock, timespec* now) {
  if (real_time != nullptr) return real_time(clock, now);
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
}

/// Since 1970; what a machine says of the time since it was started is far less.
constexpr std::int64_t kWallSeconds = 1'000'000'000;

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = RightTime(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += ShiftSeconds();
  return result;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec exact{};
  const int result = clock_gettime(CLOCK_REALTIME, &exact);
  constexpr long kNanosOfAMicro = 1000;
  if (result == 0) *now = {exact.tv_sec, exact.tv_nsec / kNanosOfAMicro};
  return result;
}

time_t time(time_t* now) noexcept {
  timespec exact{};
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != nullptr) *now = exact.tv_sec;
  return exact.tv_sec;
}

/// Waits until a time of the wrong clock; the kernel goes by the right one.
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  static const auto real = Real<Wait>("pthread_cond_timedwait");
  timespec right = *until;
  if (right.tv_sec > kWallSeconds) right.tv_sec -= ShiftSeconds();
  return real(condition, mutex, &right);
}
}
