// Loaded into a program before the C library: kills the program when it is about to do what a test
// chose to a file, so that a test can end a program at each of its steps without code for that in
// it (listing_kill_test.py). A write that it dies in is torn: the first half of it is in the file.
//   FOREBAY_KILL_BELOW=FOLDER  only files below it count
//   FOREBAY_KILL_LOG=FILE      a line for each call: "write PATH", "sync PATH" or "rename PATH",
//                              the new name
//   FOREBAY_KILL_AT=OP:TEXT:N[,OP:TEXT:N…]  at the N-th such call whose path contains TEXT; of
//                              several, each counts from where the one before was reached
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// The C library's own.
template <typename Function>
Function Real(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function>(found);
}

std::string Setting(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in these programs changes the environment
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string PathOf(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

std::string_view UpTo(std::string_view& rest, char end) {
  const std::string_view part = rest.substr(0, rest.find(end));
  rest.remove_prefix(part.size() == rest.size() ? rest.size() : part.size() + 1);
  return part;
}

class Killer {
 public:
  /// Never destroyed: threads write until the very end.
  static Killer& Instance() {
    static Killer& killer = *new Killer;
    return killer;
  }

  /// True when the program is to die here.
  bool Pass(std::string_view op, std::string_view path) {
    if (below_.empty() || !path.starts_with(below_)) return false;
    const std::scoped_lock lock(mutex_);
    if (log_ >= 0) {
      const std::string line = std::string(op) + " " + std::string(path) + "\n";
      const auto write = Real<ssize_t (*)(int, const void*, std::size_t)>("write");
      if (write(log_, line.data(), line.size()) < 0) std::abort();
    }
    if (next_ == steps_.size()) return false;
    Step& step = steps_[next_];
    const bool counts = op == step.op && path.find(step.text) != std::string_view::npos;
    if (!counts || --step.left > 0) return false;
    return ++next_ == steps_.size();
  }

 private:
  struct Step {
    std::string op;
    std::string text;
    unsigned long left = 0;
  };

  Killer() : below_(Setting("FOREBAY_KILL_BELOW")) {
    const std::string log = Setting("FOREBAY_KILL_LOG");
    if (!log.empty()) log_ = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const std::string all = Setting("FOREBAY_KILL_AT");
    std::string_view rest = all;
    while (!rest.empty()) {
      std::string_view one = UpTo(rest, ',');
      Step step;
      step.op = UpTo(one, ':');
      step.text = UpTo(one, ':');
      step.left = std::strtoul(std::string(one).c_str(), nullptr, 10);
      if (step.left == 0) std::abort();  // a mistake in the test
      steps_.push_back(std::move(step));
    }
  }

  const std::string below_;
  int log_ = -1;
  std::mutex mutex_;
  std::vector<Step> steps_;
  std::size_t next_ = 0;
};

void Die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

void PassSync(int fd) {
  if (Killer::Instance().Pass("sync", PathOf(fd))) Die();
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, std::size_t count) {
  const auto real = Real<ssize_t (*)(int, const void*, std::size_t)>("write");
  if (fd > STDERR_FILENO && Killer::Instance().Pass("write", PathOf(fd))) {
    if (real(fd, bytes, count / 2) >= 0) Die();
    Die();
  }
  return real(fd, bytes, count);
}

int fsync(int fd) {
  PassSync(fd);
  return Real<int (*)(int)>("fsync")(fd);
}

int fdatasync(int fd) {
  PassSync(fd);
  return Real<int (*)(int)>("fdatasync")(fd);
}

int rename(const char* from, const char* to) {
  if (Killer::Instance().Pass("rename", to)) Die();
  return Real<int (*)(const char*, const char*)>("rename")(from, to);
}
}
