#pragma once

#include <spdlog/sinks/base_sink.h>

#include <memory>
#include <mutex>
#include <string>

#include "common/base/result.h"

namespace forebay {

/// Appends lines to a file that can be opened anew (SIGHUP, after a log rotation). A line that
/// cannot be written is lost: logging never stops the program.
class LogFileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  /// Made 0600. kInternal when it cannot be opened.
  static Result<std::shared_ptr<LogFileSink>> Open(const std::string& path);
  LogFileSink(std::string path, int fd);
  ~LogFileSink() override;

  Status Reopen();

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}  // Each line is one write(2).

 private:
  const std::string path_;
  int fd_;
};

}  // namespace forebay
