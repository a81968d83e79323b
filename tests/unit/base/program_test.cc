// The life of a program, with a real process: small_daemon.cc.
#include "common/base/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/health.h"
#include "common/base/version.h"
#include "tests/fakes/temp_dir.h"
#include "tests/unit/base/child_process.h"
#include "tests/unit/base/http_client.h"
#include "tests/unit/base/notify_socket.h"

namespace forebay {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::vector<std::string> Command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SMALL_DAEMON);
  return arguments;
}

std::string Field(const std::string& line, const std::string& name) {
  const std::size_t begin = line.find(name + "=") + name.size() + 1;
  return line.substr(begin, line.find(' ', begin) - begin);
}

TEST(Program, SaysWhenItIsReadyAndWhere) {
  ChildProcess daemon(Command({}));
  const std::string line = daemon.ReadLine();
  EXPECT_THAT(line,
              MatchesRegex("small-daemon ready listen=nowhere:1 metrics=127\\.0\\.0\\.1:[0-9]+"));
  const std::string address = Field(line, "metrics");
  const HttpAnswer metrics = HttpRequest(address, "GET", "/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_THAT(metrics.headers, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("forebay_build_info{commit=\"" + std::string(Commit())));
  EXPECT_EQ(HttpRequest(address, "GET", "/livez").status, 200);
  EXPECT_EQ(HttpRequest(address, "GET", "/readyz").status, 200);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_EQ(daemon.RestOfOutput(), "stopped\n");
}

TEST(Program, TellsSystemdThatItIsReadyAndThenThatItWorks) {
  const fakes::TempDir dir;
  NotifySocket systemd(dir / "notify");
  ChildProcess daemon(Command({}), {"NOTIFY_SOCKET=" + dir / "notify", "WATCHDOG_USEC=300000"});
  EXPECT_EQ(systemd.Wait(), "READY=1");
  EXPECT_EQ(systemd.Wait(), "WATCHDOG=1");
  EXPECT_EQ(systemd.Wait(), "WATCHDOG=1");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST(Program, WithoutAMetricsAddressNothingListens) {
  ChildProcess daemon(Command({"--metrics-listen", ""}));
  EXPECT_EQ(daemon.ReadLine(), "small-daemon ready listen=nowhere:1");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST(Program, WhileItStartsItIsAliveButNotReadyAndCanBeStopped) {
  // There is no ready line, so the port must be known: one that was free a moment ago.
  std::string address;
  {
    ChildProcess other(Command({}));
    address = Field(other.ReadLine(), "metrics");
  }
  ChildProcess daemon(Command({"--wait", "recovering", "--metrics-listen", address}));
  ASSERT_EQ(daemon.ReadLine(), "waiting");
  EXPECT_EQ(HttpRequest(address, "GET", "/livez").status, 200);
  const HttpAnswer ready = HttpRequest(address, "GET", "/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.body, "not ready: recovering\n");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_EQ(daemon.RestOfOutput(), "stopped\n");
}

TEST(Health, AStartIsReadyUnlessTheProgramHasSaidOtherwise) {
  Health leader;
  EXPECT_EQ(leader.WhyNotReady(), "starting");
  leader.SetStarted();
  EXPECT_EQ(leader.WhyNotReady(), "");
  Health standby;
  standby.SetNotReady("standby");
  standby.SetStarted();
  EXPECT_EQ(standby.WhyNotReady(), "standby");
}

TEST(Program, AFailedStartIsExitOneWithTheReason) {
  ChildProcess daemon(Command({"--fail", "the disk is gone"}));
  EXPECT_EQ(daemon.Wait(), 1);
  EXPECT_EQ(daemon.RestOfOutput(), "stopped\n") << "Stop undoes what Start had done";
  EXPECT_THAT(daemon.Errors(), HasSubstr("error the disk is gone\n"));
}

TEST(Program, AFailedStartIsToldOnStandardErrorAlsoWhenTheLogIsElsewhere) {
  const fakes::TempDir dir;
  ChildProcess daemon(Command({"--fail", "the disk is gone", "--log-file", dir / "log"}));
  EXPECT_EQ(daemon.Wait(), 1);
  EXPECT_EQ(daemon.Errors(), "small-daemon: the disk is gone\n");
}

TEST(Program, ABadConfigurationIsExitTwoWithAllFaultsBeforeAnythingListens) {
  ChildProcess daemon(
      Command({"--log-level", "loud", "--metrics-listen", "node-1:9100", "--hnag"}));
  EXPECT_EQ(daemon.Wait(), 2);
  EXPECT_EQ(daemon.RestOfOutput(), "");
  const std::string errors = daemon.Errors();
  EXPECT_THAT(errors, StartsWith("small-daemon: 3 faults in the configuration:\n"));
  EXPECT_THAT(errors, HasSubstr("\n  flag --log-level: level: \"loud\" is not one of "));
  EXPECT_THAT(
      errors,
      HasSubstr("\n  flag --metrics-listen: metrics_listen: \"node-1:9100\" names no IP address "));
  EXPECT_THAT(errors, HasSubstr("\n  flag --hnag: no such flag; did you mean --hang?\n"));
}

TEST(Program, AnswersQuestionsWithoutStarting) {
  ChildProcess version(Command({"--version"}));
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_EQ(version.RestOfOutput(),
            "small-daemon " + std::string(Version()) + " (" + std::string(Commit()) + ")\n");
  ChildProcess help(Command({"--help"}));
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.RestOfOutput(), StartsWith("Usage: small-daemon [OPTIONS]\n"));
  ChildProcess print(Command({"--print-config", "--hang"}));
  EXPECT_EQ(print.Wait(), 0);
  EXPECT_THAT(print.RestOfOutput(), testing::ContainsRegex("\nhang = true +# flag --hang\n"));
  ChildProcess check(Command({"--check-config"}));
  EXPECT_EQ(check.Wait(), 0);
  EXPECT_EQ(check.RestOfOutput(), "the configuration is good\n");
}

TEST(Program, HangupReopensTheLogAndReloads) {
  const fakes::TempDir dir;
  ChildProcess daemon(Command({"--log-file", dir / "log"}));
  EXPECT_THAT(daemon.ReadLine(), StartsWith("small-daemon ready"));
  std::filesystem::rename(dir / "log", dir / "log.1");
  daemon.Signal(SIGHUP);
  EXPECT_EQ(daemon.ReadLine(), "reloaded");
  EXPECT_TRUE(std::filesystem::exists(dir / "log"));
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST(Program, ASecondInterruptEndsAtOnce) {
  const fakes::TempDir dir;
  ChildProcess daemon(Command({"--hang"}));
  const std::string address = Field(daemon.ReadLine(), "metrics");
  daemon.Signal(SIGINT);
  // The first one has arrived when the program says that it is stopping.
  std::string body;
  for (int i = 0; i < 100'000 && body.empty(); ++i) {
    const HttpAnswer ready = HttpRequest(address, "GET", "/readyz");
    if (ready.status == 503) body = ready.body;
  }
  EXPECT_EQ(body, "not ready: stopping\n");
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(), 130);
  EXPECT_EQ(daemon.RestOfOutput(), "");
}

TEST(Program, TellsSystemdThatItIsReadyAndThatItStops) {
  const fakes::TempDir dir;
  const std::string path = dir / "notify";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const auto receive = [socket] {
    std::array<char, 64> text{};
    const ssize_t n = ::recv(socket, text.data(), text.size(), 0);
    return std::string(text.data(), n < 0 ? 0 : static_cast<std::size_t>(n));
  };
  ChildProcess daemon(Command({}), {"NOTIFY_SOCKET=" + path});
  EXPECT_THAT(daemon.ReadLine(), StartsWith("small-daemon ready"));
  EXPECT_EQ(receive(), "READY=1");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_EQ(receive(), "STOPPING=1");
  ::close(socket);
}

TEST(Program, InTheBackgroundTheStarterReturnsWhenItIsReady) {
  const fakes::TempDir dir;
  ChildProcess starter(Command({"--foreground=false", "--log-file", dir / "log"}));
  const std::string line = starter.ReadLine();
  EXPECT_THAT(line, StartsWith("small-daemon ready "));
  EXPECT_EQ(starter.Wait(), 0);
  EXPECT_EQ(starter.RestOfOutput(), "") << "nobody holds the pipe any more";
  const std::string address = Field(line, "metrics");
  EXPECT_EQ(HttpRequest(address, "GET", "/readyz").status, 200);
  // Its pid is in nobody's hands; the log has none either, so ask the kernel who listens.
  std::string pid;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string command((std::istreambuf_iterator<char>(file)), {});
    if (command.find(dir / "log") != std::string::npos) pid = entry.path().filename();
  }
  ASSERT_NE(pid, "");
  ASSERT_EQ(::kill(std::atoi(pid.c_str()), SIGTERM), 0);
  int status = 200;
  for (int i = 0; i < 100'000 && status != 0; ++i) {
    status = HttpRequest(address, "GET", "/livez").status;
  }
  EXPECT_EQ(status, 0);
}

TEST(Program, InTheBackgroundAFailedStartIsTheStartersExitCode) {
  ChildProcess starter(Command({"--foreground=false", "--fail", "no such link"}));
  EXPECT_EQ(starter.Wait(), 1);
  EXPECT_EQ(starter.Errors(), "small-daemon: no such link\n");
}

}  // namespace
}  // namespace forebay
