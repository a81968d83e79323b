#include "common/base/control.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <map>
#include <utility>

#include "common/base/deadline.h"
#include "common/base/process.h"
#include "common/base/program.h"

namespace forebay {

namespace {

constexpr int kExitInterrupted = 130;  // as a shell reports a program that Ctrl-C ended

// As long as a node's slowest answer to a reader may take, and well below what systemd waits.
constexpr std::chrono::seconds kLoopPatience{15};
constexpr std::chrono::seconds kLookEvery{1};

std::string StuckText(const std::string& thread) {
  return fmt::format("thread {} has done nothing for more than {} s, though it is asked to", thread,
                     kLoopPatience.count());
}

std::map<std::string, HttpServer::Handler> Routes(Metrics& metrics, Health& health,
                                                  const LoopWatch& loops) {
  return {{"/metrics",
           [&metrics] {
             // The version that Prometheus 2 and 3 accept for the text format.
             return HttpReply{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                              .body = metrics.Render()};
           }},
          {"/livez",
           [&loops] {
             const std::string stuck = loops.Stuck();
             if (stuck.empty()) return HttpReply{.body = "alive\n"};
             return HttpReply{.status = 503, .body = StuckText(stuck) + "\n"};
           }},
          {"/readyz", [&health] {
             const std::string reason = health.WhyNotReady();
             if (reason.empty()) return HttpReply{.body = "ready\n"};
             return HttpReply{.status = 503, .body = "not ready: " + reason + "\n"};
           }}};
}

}  // namespace

Control::Control(Metrics& metrics, Health& health, std::function<void()> on_terminate,
                 Environment environment)
    : signals_(context_, SIGTERM, SIGINT, SIGHUP),
      end_timer_(context_),
      look_timer_(context_),
      environment_(std::move(environment)),
      watchdog_(WatchdogTime(environment_)),
      loops_(kLoopPatience),
      http_(context_, Routes(metrics, health, loops_)),
      on_terminate_(std::move(on_terminate)) {
  WaitForSignal();
}

Control::~Control() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

Status Control::Start(const std::string& metrics_listen) {
  if (!metrics_listen.empty()) {
    Status listening = http_.Listen(metrics_listen);
    if (!listening) return listening;
  }
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "control");
    context_.run();
  });
  return {};
}

Control::Event Control::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_.stop_requested() || reload_; });
  if (stop_.stop_requested()) return Event::kStop;
  reload_ = false;
  return Event::kReload;
}

void Control::RequestStop() {
  if (!stop_.request_stop()) return;
  {
    // A waiter has either seen the request or sleeps already: the wake-up cannot be lost.
    const std::scoped_lock lock(mutex_);
  }
  changed_.notify_all();
  boost::asio::post(context_, [this] {
    end_timer_.expires_after(kDrainTime + kStopGrace);
    end_timer_.async_wait([](const boost::system::error_code& error) {
      if (error) return;
      spdlog::critical("still not stopped {} s after it was asked to; ending at once",
                       (kDrainTime + kStopGrace).count());
      ::_exit(1);
    });
  });
}

void Control::Watch(const std::vector<IoPool*>& loops) {
  loops_.Watch(loops);
  boost::asio::post(context_, [this] { LookAtLoops(); });
}

void Control::WatchOnly(const std::vector<IoPool*>& loops) {
  loops_.Forget();
  loops_.Watch(loops);
}

void Control::EndWatch() { loops_.Forget(); }

// While the program stops it goes on: it is Control that ends a stop that takes too long.
void Control::LookAtLoops() {
  loops_.Ask();
  const std::string stuck = loops_.Stuck();
  if (!stuck.empty() && !is_stuck_) spdlog::critical("{}", StuckText(stuck));
  is_stuck_ = !stuck.empty();
  if (watchdog_ && !is_stuck_) NotifySystemd(environment_, "WATCHDOG=1");
  look_timer_.expires_after(watchdog_ ? std::min<Duration>(kLookEvery, *watchdog_ / 3)
                                      : Duration(kLookEvery));
  look_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) LookAtLoops();
  });
}

void Control::WaitForSignal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    OnSignal(number);
    WaitForSignal();
  });
}

void Control::OnSignal(int number) {
  if (number == SIGHUP) {
    const std::scoped_lock lock(mutex_);
    reload_ = true;
    changed_.notify_all();
    return;
  }
  if (number == SIGTERM && on_terminate_) {
    on_terminate_();
    return;
  }
  if (number == SIGINT && stop_.stop_requested()) ::_exit(kExitInterrupted);
  spdlog::info("stopping: {}", number == SIGINT ? "interrupted" : "terminated");
  RequestStop();
}

}  // namespace forebay
