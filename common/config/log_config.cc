#include "common/config/log_config.h"

#include "common/base/config_values.h"

namespace forebay {

ConfigSection LogSection(LogConfig& config) {
  ConfigSection section("log", "How every program logs.");
  section
      .Add("level",
           Choice(config.level, {{"trace", LogLevel::kTrace},
                                 {"debug", LogLevel::kDebug},
                                 {"info", LogLevel::kInfo},
                                 {"warn", LogLevel::kWarn},
                                 {"error", LogLevel::kError}}),
           "The least important messages that are logged.")
      .Flag("--log-level");
  section
      .Add("format",
           Choice(config.format, {{"text", LogFormat::kText}, {"json", LogFormat::kJson}}),
           "Lines for people, or an object in JSON for each line. Times are in UTC.")
      .Flag("--log-format");
  section
      .Add("file", Path(config.file, "FILE"),
           "The file that lines are appended to. SIGHUP opens it anew, for log rotation.")
      .Flag("--log-file")
      .Default("standard error; the system's log for a mount in the background");
  return section;
}

}  // namespace forebay
