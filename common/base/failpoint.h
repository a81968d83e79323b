#pragma once

#include <string_view>

#ifdef FOREBAY_FAILPOINTS
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#endif

// Places where a test lets the program die or fail. Without FOREBAY_FAILPOINTS, which only test
// builds define, they cost nothing and cannot be armed.
namespace forebay {

#ifdef FOREBAY_FAILPOINTS

/// The armed failpoints of this process: "name:N:action[,name:N:action…]", where the action is
/// `kill` (SIGKILL to itself), `abort` or `error`, taken at the N-th time that the point is passed
/// and at every later one. First read from FOREBAY_FAILPOINTS. Thread-safe.
class Failpoints {
 public:
  static Failpoints& Instance() {
    static Failpoints instance;
    return instance;
  }

  void Arm(std::string_view spec) {
    const std::scoped_lock lock(mutex_);
    points_.clear();
    while (!spec.empty()) {
      const std::string_view one = spec.substr(0, spec.find(','));
      spec.remove_prefix(one.size() == spec.size() ? one.size() : one.size() + 1);
      const std::size_t first = one.find(':');
      const std::size_t second = one.find(':', first + 1);
      if (second == std::string_view::npos) std::abort();  // a mistake in the test
      const std::string count(one.substr(first + 1, second - first - 1));
      points_[std::string(one.substr(0, first))] = {
          .left = std::strtoull(count.c_str(), nullptr, 10),
          .kill = one.substr(second + 1) == "kill",
          .abort = one.substr(second + 1) == "abort"};
    }
  }

  /// True when an error is asked for.
  bool Pass(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    const auto point = points_.find(name);
    if (point == points_.end()) return false;
    if (point->second.left > 1) {
      --point->second.left;
      return false;
    }
    if (point->second.kill) ::kill(::getpid(), SIGKILL);
    if (point->second.abort) std::abort();
    return true;
  }

  bool Armed(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    return points_.contains(name);
  }

 private:
  struct Point {
    std::uint64_t left = 0;
    bool kill = false;
    bool abort = false;
  };

  Failpoints() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in these programs changes the environment
    if (const char* spec = std::getenv("FOREBAY_FAILPOINTS")) Arm(spec);
  }

  std::mutex mutex_;
  std::map<std::string, Point, std::less<>> points_;
};

/// True when a test wants this step to fail.
inline bool failpoint(std::string_view name) { return Failpoints::Instance().Pass(name); }

/// True when a test waits for this point: a step may then be cut in two around it.
inline bool failpoint_armed(std::string_view name) { return Failpoints::Instance().Armed(name); }

#else

constexpr bool failpoint(std::string_view /*name*/) { return false; }
constexpr bool failpoint_armed(std::string_view /*name*/) { return false; }

#endif

}  // namespace forebay
