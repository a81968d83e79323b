#include "common/base/log_file_sink.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace forebay {

namespace {
Result<int> OpenForAppend(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0) return fd;
  return Fail(Code::kInternal, fmt::format("log file {}: {}; name a writable file with --log-file",
                                           path, std::generic_category().message(errno)));
}
}  // namespace

Result<std::shared_ptr<LogFileSink>> LogFileSink::Open(const std::string& path) {
  Result<int> fd = OpenForAppend(path);
  if (!fd) return Fail(std::move(fd.error()));
  return std::make_shared<LogFileSink>(path, *fd);
}

LogFileSink::LogFileSink(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

LogFileSink::~LogFileSink() { ::close(fd_); }

Status LogFileSink::Reopen() {
  Result<int> fd = OpenForAppend(path_);
  if (!fd) return Fail(std::move(fd.error()));
  const std::scoped_lock lock(mutex_);
  ::close(std::exchange(fd_, *fd));
  return {};
}

void LogFileSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = ::write(fd_, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace forebay
