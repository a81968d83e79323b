#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/order/order_text.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// Where programs of this machine say in which order they will read (docs/HINTS.md): a UNIX stream
/// socket, one for all links of a process. A client sends an OrderText, ends its side, and gets a
/// line of JSON: {"files":N} or {"error":{"code":…,"message":…}}. Clients are served one after the
/// other. Thread-safe.
class LocalSocket {
 public:
  /// What one may send, and how long it may take.
  static constexpr std::size_t kMaxTextBytes = 512U << 20;
  static constexpr Duration kPatience = std::chrono::seconds(60);

  /// Answers how many files were taken.
  using Taker = std::function<Result<std::size_t>(const OrderText& order)>;
  /// Whose reads those of this process are; 0: one of another pid namespace.
  using JobOf = std::function<std::string(pid_t process)>;

  LocalSocket() = default;
  ~LocalSocket();  ///< Removes the socket.
  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;

  /// Listens at `path`; with `others` every user may connect whom the folder lets there. An order
  /// that names no job is that of the program that has connected, by `job_of`.
  /// kInternal: the system's reason; nothing listens then.
  Status Listen(const std::string& path, bool others, JobOf job_of);
  /// "" = nothing listens.
  const std::string& path() const { return path_; }

  /// From now on orders for `link` go to `take`, until Remove(owner), which waits for a call that
  /// is under way.
  void Add(const void* owner, const std::string& link, Taker take);
  void Remove(const void* owner);

 private:
  struct Row {
    const void* owner;
    std::string link;
    Taker take;
  };
  void Serve(const std::stop_token& stop);
  void Answer(int client, const std::stop_token& stop);
  Result<std::size_t> Take(int client, std::string_view text);

  std::mutex mutex_;
  std::vector<Row> rows_;
  std::string path_;
  JobOf job_of_;
  OwnedFd socket_;
  std::jthread thread_;
};

}  // namespace forebay
