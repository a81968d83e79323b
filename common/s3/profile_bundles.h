#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/notifier.h"
#include "common/base/result.h"

namespace forebay {

/// The files of certificates that profiles name, in front of a look that reads the AWS files and
/// may block: a thread of its own looks, again for a profile in use once in `recheck_every`, behind
/// the caller's back. Start, then Stop when no call runs any more. Calls may come from any executor
/// and resume on it.
class ProfileBundles {
 public:
  /// The file for links of a profile; "" = the one that the program has for all. May block.
  using Look = std::function<std::string(const std::string& profile)>;

  ProfileBundles(Look look, Duration recheck_every)
      : look_(std::move(look)), recheck_every_(recheck_every) {}
  ~ProfileBundles() { Stop(); }
  ProfileBundles(const ProfileBundles&) = delete;
  ProfileBundles& operator=(const ProfileBundles&) = delete;

  void Start();
  /// Waiting calls answer kUnavailable. Idempotent.
  void Stop();

  /// "" at once where there is no look, or no profile. kUnavailable when the first look at a
  /// profile does not end in time.
  Task<Result<std::string>> Of(std::string profile, Deadline deadline);

  /// A server's certificate was not accepted: the next call waits for a new look.
  void Forget(const std::string& profile);

 private:
  struct Entry {
    std::optional<std::string> bundle;
    bool wanted = false;  // a look
    TimePoint looked_at;
  };

  // The body of the thread.
  void Loop();
  // What is known, and a look where it is old or missing. The lock is held.
  std::optional<std::string> Recall(const std::string& profile);

  const Look look_;  // null: no thread either
  const Duration recheck_every_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  bool stopping_ = false;
  std::map<std::string, Entry, std::less<>> entries_;  // profiles that links name: few
  Notifier found_;
  std::thread thread_;
};

}  // namespace forebay
