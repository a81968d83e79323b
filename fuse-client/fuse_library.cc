#include "fuse-client/fuse_library.h"

#include <spdlog/spdlog.h>

#include <array>
#include <cstdarg>
#include <cstdio>

namespace forebay {

namespace {

thread_local std::string last_message;

__attribute__((format(printf, 2, 0))) void OnFuseLog(enum fuse_log_level level, const char* format,
                                                     va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::string line(text.data());
  while (!line.empty() && line.back() == '\n') line.pop_back();
  last_message = line;
  if (level > FUSE_LOG_WARNING) {
    spdlog::debug("libfuse: {}", line);
  } else {
    spdlog::warn("libfuse: {}", line);
  }
}

}  // namespace

const std::string& LastFuseMessage() { return last_message; }

Result<FuseLibrarySession> NewFuseLibrarySession(std::string options, const fuse_lowlevel_ops& ops,
                                                 void* userdata) {
  fuse_set_log_func(OnFuseLog);
  last_message.clear();
  std::string program = "forebay-mount";
  std::string flag = "-o";
  std::array<char*, 4> argv = {program.data(), flag.data(), options.data(), nullptr};
  struct fuse_args arguments = FUSE_ARGS_INIT(3, argv.data());
  FuseLibrarySession session(fuse_session_new(&arguments, &ops, sizeof ops, userdata));
  fuse_opt_free_args(&arguments);
  if (session == nullptr) {
    return Fail(Code::kInternal, "libfuse refused the mount options: " + LastFuseMessage());
  }
  return session;
}

}  // namespace forebay
