#include "cachenode/store/crash_book.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "common/base/failpoint.h"
#include "common/base/files.h"
#include "common/base/wall_clock.h"

namespace forebay {
namespace {

constexpr std::array<int, 6> kSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
constexpr std::uint64_t kMagic = 0x0A48535243424603;  // "\x03FBCRSH\n", little endian

constexpr std::int64_t kForgottenSeconds = std::chrono::seconds(CrashBook::kForgottenAfter).count();

/// One crash, as it lies in the file: seven u64, little endian.
using Entry = std::array<std::uint64_t, 7>;

/// Enough to tell an entry from anything else: nobody makes these on purpose.
std::uint64_t SumOf(const Entry& entry) {
  std::uint64_t sum = kMagic;
  for (std::size_t i = 0; i + 1 < entry.size(); ++i)
    sum = (sum ^ entry.at(i)) * 0x9E3779B97F4A7C15ULL;
  return sum;
}

Entry EntryOf(const BlockId& block, std::int64_t seconds) {
  Entry entry{kMagic,
              block.version.high,
              block.version.low,
              block.offset,
              block.length,
              static_cast<std::uint64_t>(seconds),
              0};
  entry.back() = SumOf(entry);
  return entry;
}

// What the signal handler needs: static, complete before `noting` is set.
constinit thread_local const BlockId* volatile handled = nullptr;
std::atomic<int> noting{-1};
std::array<struct sigaction, kSignals.size()> previous{};

// Only calls that signal-safety(7) allows.
void OnCrash(int number, siginfo_t* info, void* /*context*/) {
  const int fd = noting.exchange(-1);
  const BlockId* const block = handled;
  if (fd >= 0 && block != nullptr) {
    struct timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const Entry entry = EntryOf(*block, now.tv_sec);
    if (::write(fd, entry.data(), sizeof(entry)) < 0) ::_exit(128 + number);
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == number) ::sigaction(number, &previous[i], nullptr);
  }
  // A fault comes again by itself when we return; what somebody sent does not.
  if (info->si_code <= 0) ::raise(number);
}

/// Once for the process; what was there before is called after ours.
void CatchCrashes() {
  static const bool caught = [] {
    struct sigaction action{};
    action.sa_sigaction = OnCrash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &action, &previous[i]);
    return true;
  }();
  (void)caught;
}

}  // namespace

HandledBlock::HandledBlock(const BlockId& block) : outer_(handled) {
  handled = &block;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (failpoint_armed("store.poison"))
    failpoint("store.poison." + std::to_string(block.version.high));
}

HandledBlock::~HandledBlock() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  handled = outer_;
}

void CrashBook::Open(std::string path) {
  path_ = std::move(path);
  Load();
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd_ < 0) {
    spdlog::warn(
        "{} cannot be opened for writing; a block that crashes this program would do so "
        "after each start",
        path_);
    return;
  }
  CatchCrashes();
  noting.store(fd_);
}

CrashBook::~CrashBook() {
  int own = fd_;
  noting.compare_exchange_strong(own, -1);
  if (fd_ >= 0) ::close(fd_);
}

void CrashBook::Load() {
  const Result<std::string> text = ReadWholeFile(path_);
  if (!text) return;
  const std::int64_t oldest = UnixSeconds() - kForgottenSeconds;
  std::size_t read = 0;
  for (std::size_t at = 0; at + sizeof(Entry) <= text->size(); at += sizeof(Entry)) {
    Entry entry{};
    std::memcpy(entry.data(), text->data() + at, sizeof(entry));
    if (entry[0] != kMagic || entry.back() != SumOf(entry)) continue;
    const auto seconds = static_cast<std::int64_t>(entry[5]);
    if (seconds < oldest) continue;
    const BlockId block{{entry[1], entry[2]}, entry[3], static_cast<std::uint32_t>(entry[4])};
    Crashes& crashes = crashes_[block];
    ++crashes.count;
    crashes.last = std::max(crashes.last, seconds);
    ++read;
  }
  for (const auto& [block, crashes] : crashes_) {
    spdlog::warn("block {} was being worked on in {} crashes of this program{}", block.ToString(),
                 crashes.count,
                 crashes.count < kCrashes
                     ? ""
                     : "; it is set aside: fetched from S3 and not kept, until its object is "
                       "evicted or a week has passed");
    if (crashes.count < kCrashes) continue;
    suspects_.insert(block);
    size_.fetch_add(1, std::memory_order_relaxed);
  }
  const bool tidy = read * sizeof(Entry) == text->size() && read <= kMostEntries;
  if (!tidy && !Write()) spdlog::warn("{} cannot be tidied up", path_);
}

/// The newest kMostEntries. A block needs no more than kCrashes of them.
bool CrashBook::Write() const {
  std::vector<std::pair<std::int64_t, Entry>> entries;
  for (const auto& [block, crashes] : crashes_) {
    for (std::size_t i = 0; i < std::min(crashes.count, kCrashes); ++i)
      entries.emplace_back(crashes.last, EntryOf(block, crashes.last));
  }
  std::ranges::sort(entries, std::ranges::greater(), &std::pair<std::int64_t, Entry>::first);
  if (entries.size() > kMostEntries) entries.resize(kMostEntries);
  std::string text;
  for (const auto& [seconds, entry] : entries)
    text.append(reinterpret_cast<const char*>(entry.data()), sizeof(Entry));
  return WriteFileAtomically(path_, text).has_value();
}

bool CrashBook::IsSetAside(const BlockId& block) const {
  if (size() == 0 || !suspects_.contains(block)) return false;
  const std::scoped_lock lock(mutex_);
  const auto found = crashes_.find(block);
  return found != crashes_.end() && found->second.count >= kCrashes &&
         UnixSeconds() - found->second.last < kForgottenSeconds;
}

void CrashBook::Forget(const BlockId& block) {
  if (size() == 0) return;
  const std::scoped_lock lock(mutex_);
  const auto found = crashes_.find(block);
  if (found == crashes_.end()) return;
  if (found->second.count >= kCrashes) size_.fetch_sub(1, std::memory_order_relaxed);
  crashes_.erase(found);
  if (!Write()) spdlog::warn("{} cannot be written; the block may be set aside again", path_);
  // The file is another one now.
  const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  int own = fd_;
  noting.compare_exchange_strong(own, fd);
  ::close(std::exchange(fd_, fd));
}

}  // namespace forebay
