#include "cli/program.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/dispatch.h"
#include "cli/membership.h"
#include "common/base/process.h"

namespace forebay {
namespace {

std::string FromEnvironment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

TerminalSize SizeOfTerminal() {
  for (const int terminal : {STDERR_FILENO, STDOUT_FILENO}) {
    winsize size{};
    if (::ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
      return {.columns = size.ws_col, .rows = size.ws_row};
    }
  }
  return {};
}

}  // namespace

int RunCli(int argc, char** argv) {
  HoldStandardStreams();
  // init makes the authority's key, and each verb may hold the administrator's.
  ForbidDumps();
  // What the transport has to say beside the verbs: never between their lines.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("forebay"));
  spdlog::set_pattern("%v");
  spdlog::set_level(spdlog::level::err);
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  Console console{.out = std::cout, .err = std::cerr, .in = std::cin};
  console.out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
  console.err_is_terminal = ::isatty(STDERR_FILENO) == 1;
  console.in_is_terminal = ::isatty(STDIN_FILENO) == 1;
  const std::string terminal = FromEnvironment("TERM");
  console.obeys_ansi = !terminal.empty() && terminal != "dumb";
  // no-color.org: any value that is not empty turns colours off.
  console.colour = console.CanRedrawOut() && FromEnvironment("NO_COLOR").empty();
  console.size = SizeOfTerminal;
  const Exit exit =
      Dispatch(words, {.console = console,
                       .local = {},
                       .coordinators = FromEnvironment("FOREBAY_COORDINATOR"),
                       .connect = [](RpcSession::Options options) -> std::unique_ptr<Session> {
                         options.trust_dir = TrustDirOfEnvironment();
                         return std::make_unique<RpcSession>(std::move(options));
                       }});
  // A full disk, or standard output is closed: a script must not take for whole what it got.
  if (!std::cout.flush()) {
    std::cerr << "forebay: what there is to print could not be written: is the disk full, or "
                 "standard output closed? What the command did stands\n";
    return static_cast<int>(exit == Exit::kDone || exit == Exit::kPartly ? Exit::kFailed : exit);
  }
  return static_cast<int>(exit);
}

}  // namespace forebay
