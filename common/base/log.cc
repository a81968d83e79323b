#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <utility>
#include <vector>

#include "common/base/log_file_sink.h"
#include "common/base/log_lines.h"

namespace forebay {

namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

class SpdlogLog : public Log {
 public:
  explicit SpdlogLog(std::shared_ptr<LogFileSink> file) : file_(std::move(file)) {}

  Status Reopen() override { return file_ == nullptr ? Status() : file_->Reopen(); }

 private:
  std::shared_ptr<LogFileSink> file_;
};

}  // namespace

Result<std::unique_ptr<Log>> Log::Start(const LogOptions& options, const std::string& program,
                                        bool use_syslog) {
  std::shared_ptr<LogFileSink> file;
  spdlog::sink_ptr sink;
  if (!options.file.empty()) {
    Result<std::shared_ptr<LogFileSink>> opened = LogFileSink::Open(options.file);
    if (!opened) return Fail(std::move(opened.error()));
    file = *opened;
    sink = file;
  } else if (use_syslog) {
    // The facility and the pid as other daemons have them; syslog adds the time itself.
    sink = std::make_shared<spdlog::sinks::syslog_sink_mt>(program, LOG_PID, LOG_DAEMON, false);
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  auto logger = std::make_shared<spdlog::logger>(program, std::move(sink));
  logger->set_level(SpdlogLevel(options.level));
  logger->set_formatter(std::make_unique<LogLines>(options.format, program));
  // Messages are few, and the last one before a crash is the one that is needed.
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  return std::make_unique<SpdlogLog>(std::move(file));
}

void LogAlways(LogLevel level, std::string_view line) {
  // The same sinks behind another level.
  const std::shared_ptr<spdlog::logger> log = spdlog::default_logger();
  const std::shared_ptr<spdlog::logger> all = log->clone(log->name());
  all->set_level(spdlog::level::trace);
  all->log(SpdlogLevel(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace forebay
