#include "fuse-client/supervisor/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/program.h"

namespace forebay {

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitInterrupted = 130;  // as a shell reports a program that Ctrl-C ended

/// SIGTERM came to the worker: systemd sends it to every process of a unit, which is a stop, and
/// reaches us in this time; otherwise it was meant for the worker alone, which is a restart.
constexpr Duration kOwnSignalWithin = std::chrono::milliseconds(200);

/// For a worker that has been told to leave; it answers what it can within one second.
constexpr Duration kLeaveTime = std::chrono::seconds(3);

/// For a successor to serve. It needs nobody for that, and 50 ms.
constexpr Duration kStartTime = std::chrono::seconds(20);

/// A worker that has not stopped when it should have ended itself long ago.
constexpr Duration kStopTime = kDrainTime + kStopGrace + std::chrono::seconds(1);

/// Between two looks whether the worker is only half alive.
constexpr Duration kLookEvery = std::chrono::seconds(1);

/// What a unit names as its RestartKillSignal=: the service ends, and its next start goes on.
constexpr int kRestSignal = SIGUSR2;

constexpr std::array<int, 5> kSignals = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, kRestSignal};

std::string TextOf(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with code {}", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return fmt::format("was killed by signal {} (SIG{})", WTERMSIG(status),
                     name == nullptr ? "?" : name);
}

std::int64_t Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

/// The letter of proc(5).
char StateOf(pid_t process) {
  const std::string text = ReadWholeFile(fmt::format("/proc/{}/stat", process)).value_or("");
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options) : options_(std::move(options)) {}

Status Supervisor::Open() {
  sigset_t caught;
  sigemptyset(&caught);
  for (const int number : kSignals) sigaddset(&caught, number);
  ::pthread_sigmask(SIG_BLOCK, &caught, nullptr);
  signals_ = OwnedFd(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  program_ = OwnedFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!signals_ || !program_) {
    return Fail(Code::kInternal, "cannot open " + std::string(signals_ ? "/proc/self/exe" : "") +
                                     ": " + std::generic_category().message(errno));
  }
  if (options_.stored != nullptr && options_.stored->inherited()) {
    slots_ = options_.stored->TakeSlots();
    kept_ = options_.stored->TakeKept();
    ever_ready_ = true;
    gone_at_ = Clock::now();
  } else {
    Result<RequestSlots> slots = RequestSlots::Create(options_.arenas);
    if (!slots) return Fail(slots.error());
    slots_ = std::move(*slots);
    if (options_.stored != nullptr) options_.stored->Begin(options_.mountpoint, *slots_);
  }
  refuser_.emplace(kept_, *slots_);
  if (options_.socket_path.empty()) return {};
  // In place of one of a supervisor that was killed: two mounts of one place cannot be.
  Result<PrivateSocket> upgrades = PrivateSocket::Listen(options_.socket_path);
  if (upgrades) {
    upgrades_ = std::move(*upgrades);
  } else {
    spdlog::warn("{}; this mount cannot be upgraded while it is mounted", upgrades.error().message);
  }
  return {};
}

int Supervisor::Run() {
  const Status open = Open();
  if (!open) {
    spdlog::error("{}", open.error().message);
    return kExitFailed;
  }
  StartWorker();
  while (!exit_code_) Wait();
  EndStored();
  return *exit_code_;
}

std::vector<pollfd> Supervisor::Waiting() const {
  std::vector<pollfd> waiting;
  const auto add = [&](int fd) {
    if (fd >= 0) waiting.push_back(pollfd{fd, POLLIN, 0});
  };
  add(signals_.get());
  add(upgrades_.fd());
  if (options_.stored != nullptr) add(options_.stored->fd());
  if (asking_) add(asking_->fd());
  if (worker_ && !leader_gone_) add(worker_->channel().fd());
  if (upgrade_ && upgrade_->candidate) add(upgrade_->candidate->channel().fd());
  if (refusing_ && !worker_) refuser_->AddTo(waiting);
  return waiting;
}

void Supervisor::Wait() {
  std::vector<pollfd> waiting = Waiting();
  const Duration patience = UntilNextTimer();
  (void)::poll(waiting.data(), waiting.size(),
               static_cast<int>(Milliseconds(patience + std::chrono::microseconds(999))));
  // All that is asked here answers at once when there is nothing.
  TakeMessages(worker_);
  if (upgrade_) TakeMessages(upgrade_->candidate);
  OnSignals();
  if (asking_ || upgrades_.fd() >= 0) OnUpgradeAsked();
  OnTimers();
  KeepStored();
  if (refusing_ && !worker_) Refuse();
}

Duration Supervisor::UntilNextTimer() const {
  TimePoint next = worker_ ? next_look_ : TimePoint::max();
  if (options_.watchdog) next = std::min(next, fed_at_ + *options_.watchdog / 3);
  for (const auto& timer : {restart_at_, terminate_at_, kill_at_, store_again_at_}) {
    if (timer) next = std::min(next, *timer);
  }
  if (upgrade_ && !upgrade_->prepared) next = std::min(next, upgrade_->prepared_by);
  if (ever_ready_ && !worker_) next = std::min(next, pace_.refuse_from());
  // Also what has no timer is looked at from time to time.
  return Deadline(next).AtMost(std::chrono::seconds(10)).Remaining();
}

void Supervisor::OnTimers() {
  const TimePoint now = Clock::now();
  FeedWatchdog();
  const auto due = [now](std::optional<TimePoint>& timer) {
    if (!timer || now < *timer) return false;
    timer.reset();
    return true;
  };
  if (due(restart_at_)) StartWorker();
  if (due(terminate_at_) && !stopping_ && !upgrade_ && worker_) {
    spdlog::info("process {} was sent SIGTERM; its successor takes over {}", worker_->pid(),
                 options_.mountpoint);
    AskToLeave();
  }
  if (due(kill_at_) && worker_) {
    spdlog::warn("process {} of {} does not do what it was told; it is killed", worker_->pid(),
                 options_.mountpoint);
    worker_->Kill(SIGKILL);
  }
  if (upgrade_ && !upgrade_->prepared && now >= upgrade_->prepared_by) {
    upgrade_->candidate->Kill(SIGKILL);
    upgrade_->prepared_by = TimePoint::max();  // its death is answered
  }
  if (worker_ && now >= next_look_) LookAtLeader();
  // Who has left its readers to the next start refuses them nothing.
  const bool waited = ever_ready_ && !worker_ && now >= pace_.refuse_from();
  if (waited && !stopping_ && !resting_ && !refusing_) {
    refusing_ = true;
    spdlog::error(
        "no process serves {} since {} s: what is read gets EIO until one does",
        options_.mountpoint,
        std::chrono::duration_cast<std::chrono::seconds>(RestartPace::kReadersWait).count());
    refused_ += refuser_->RefuseTaken();
  }
}

void Supervisor::OnSignals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    switch (static_cast<int>(info.ssi_signo)) {
      case SIGCHLD:
        Reap();
        break;
      case SIGHUP:
        options_.reopen_log();
        if (worker_) worker_->Kill(SIGHUP);
        break;
      case kRestSignal:
        Rest();
        break;
      case SIGTERM:
        Terminate();
        break;
      case SIGINT:
        if (stopping_) {
          if (worker_) worker_->Kill(SIGKILL);
          ::_exit(kExitInterrupted);
        }
        [[fallthrough]];
      default:
        Stop();
    }
  }
}

void Supervisor::Reap() {
  int status = 0;
  pid_t gone = 0;
  while ((gone = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (worker_ && worker_->pid() == gone) {
      OnWorkerGone(status);
    } else if (upgrade_ && upgrade_->candidate && upgrade_->candidate->pid() == gone) {
      OnCandidateGone(status);
    }
  }
}

void Supervisor::Stop() {
  if (stopping_) return;
  stopping_ = true;
  options_.on_stopping();
  restart_at_.reset();
  BreakOffUpgrade();
  if (!worker_) {
    options_.detach();
    exit_code_ = 0;
    return;
  }
  worker_->channel().Tell(HandoverKind::kStop, "", "");
  kill_at_ = Clock::now() + kStopTime;
}

void Supervisor::BreakOffUpgrade() {
  if (!upgrade_) return;
  if (upgrade_->candidate) upgrade_->candidate->Kill(SIGKILL);
  EndUpgrade("refused", options_.mountpoint + " is being stopped");
}

// A worker feeds it while all its loops turn; one that has not come so far has other bounds.
void Supervisor::FeedWatchdog() {
  const TimePoint now = Clock::now();
  if (!options_.watchdog || now < fed_at_ + *options_.watchdog / 3) return;
  fed_at_ = now;
  if (!worker_ || !worker_->ready_at) options_.feed_watchdog();
}

void Supervisor::StartWorker() {
  Result<WorkerProcess> started = WorkerProcess::Start(program_.get(), options_.command);
  if (!started) {
    spdlog::error("{}", started.error().message);
    if (!ever_ready_) {
      exit_code_ = kExitFailed;
      return;
    }
    restart_at_ = Clock::now() + std::max(pace_.Died(Clock::now(), {}), RestartPace::kFirstPause);
    return;
  }
  worker_.emplace(std::move(*started));
  worker_->channel().Tell(HandoverKind::kHello, std::to_string(kHandoverFormat), "", slots_->fd());
  LetServe(*worker_);
}

// A worker that is gone before it has taken all is noticed by its death.
void Supervisor::LetServe(WorkerProcess& worker) {
  leaving_ = false;
  leader_gone_ = false;
  next_look_ = Clock::now() + kLookEvery;
  kill_at_.reset();
  if (ever_ready_) kill_at_ = Clock::now() + kStartTime;
  if (refused_ > 0) {
    news_ = fmt::format(
        "{} requests were refused, since the process that serves the mount died {} times in a row "
        "(the last one {}); see the log",
        refused_, pace_.row(), last_death_);
  }
  for (const auto& [key, kept] : kept_) {
    const Status sent = worker.channel().Send(HandoverKind::kKept, key, kept.value, kept.fd.get());
    if (!sent) return;
  }
  worker.channel().Tell(HandoverKind::kGo, "", news_);
}

void Supervisor::TakeMessages(std::optional<WorkerProcess>& worker) {
  while (worker) {
    Result<HandoverMessage> message = worker->channel().Receive(false);
    if (!message && message.error().code == Code::kInvalid) worker->Kill(SIGKILL);
    if (!message) return;
    OnMessage(*worker, std::move(*message));
  }
}

void Supervisor::OnMessage(WorkerProcess& worker, HandoverMessage message) {
  switch (message.kind) {
    case HandoverKind::kKeep:
      if (options_.stored != nullptr) {
        options_.stored->Keep(message.key, message.value, message.fd.get());
      }
      kept_[message.key] = Kept{std::move(message.value), std::move(message.fd)};
      break;
    case HandoverKind::kDrop: {
      if (options_.stored != nullptr) options_.stored->Drop(message.key);
      auto entry = kept_.lower_bound(message.key);
      while (entry != kept_.end() && entry->first.starts_with(message.key)) {
        entry = kept_.erase(entry);
      }
      break;
    }
    case HandoverKind::kPrepared:
      if (upgrade_ && upgrade_->candidate && upgrade_->candidate->pid() == worker.pid()) {
        upgrade_->version = message.value;
        OnCandidatePrepared();
      }
      break;
    case HandoverKind::kReady:
      OnReady(worker, message.value);
      break;
    case HandoverKind::kTerminated:
      if (!stopping_ && !leaving_) terminate_at_ = Clock::now() + kOwnSignalWithin;
      break;
    case HandoverKind::kFinished: {
      int code = kExitFailed;
      std::from_chars(message.value.data(), message.value.data() + message.value.size(), code);
      worker.finished = code;
      break;
    }
    default:
      worker.Kill(SIGKILL);  // it is none of ours
  }
}

void Supervisor::OnReady(WorkerProcess& worker, const std::string& line) {
  worker.ready_at = Clock::now();
  if (!stopping_) kill_at_.reset();
  news_.clear();
  refused_ = 0;
  refusing_ = false;
  if (upgrade_ && !upgrade_->candidate) {
    previous_program_ = OwnedFd();
    EndUpgrade("done", fmt::format("{} is now served by forebay-mount {}", options_.mountpoint,
                                   upgrade_->version));
  }
  if (ever_ready_) {
    spdlog::info("process {} serves {}, {} ms after its predecessor", worker.pid(),
                 options_.mountpoint, Milliseconds(Clock::now() - gone_at_));
  }
  ever_ready_ = true;
  if (announced_) return;
  announced_ = true;
  const Status told = options_.on_ready(line);
  if (told) return;
  spdlog::error("{}", told.error().message);
  Stop();
}

void Supervisor::OnWorkerGone(int status) {
  TakeMessages(worker_);  // the last that it said
  const WorkerProcess worker = std::move(*worker_);
  worker_.reset();
  kill_at_.reset();
  terminate_at_.reset();
  gone_at_ = Clock::now();
  if (worker.finished) {
    resting_ = false;
    exit_code_ = worker.finished;
  } else if (resting_) {
    exit_code_ = 0;
  } else if (!ever_ready_) {
    OnGoneAtStart(worker, status);
  } else if (stopping_) {
    options_.detach();
    exit_code_ = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : kExitFailed;
  } else {
    OnGoneInService(worker, status);
  }
}

void Supervisor::OnGoneAtStart(const WorkerProcess& worker, int status) {
  if (WIFEXITED(status)) {
    // It has said why.
    exit_code_ = WEXITSTATUS(status);
    return;
  }
  options_.detach();
  if (!stopping_) {
    spdlog::error("the process {} that was to serve {} {}", worker.pid(), options_.mountpoint,
                  TextOf(status));
  }
  exit_code_ = stopping_ ? 0 : kExitFailed;
}

void Supervisor::OnGoneInService(const WorkerProcess& worker, int status) {
  if (upgrade_ && !upgrade_->candidate && !worker.ready_at) {
    // The new program was let serve and did not: back to the one that did.
    program_ = std::move(previous_program_);
    EndUpgrade("refused", fmt::format("the new program {} before it served {}, which goes on with "
                                      "the one before; its log says why",
                                      TextOf(status), options_.mountpoint));
    StartWorker();
    return;
  }
  if (leaving_ || upgrade_) {
    if (!upgrade_) return StartWorker();
    if (upgrade_->prepared) return PromoteCandidate();
    // The candidate will be ready soon, or be gone. Readers wait as long as for any successor.
    pace_.Died(gone_at_, worker.ready_at ? gone_at_ - *worker.ready_at : Duration());
    return;
  }
  last_death_ = TextOf(status);
  const Duration served = worker.ready_at ? gone_at_ - *worker.ready_at : Duration();
  const Duration pause = pace_.Died(gone_at_, served);
  if (pause == Duration()) {
    spdlog::warn("process {} that served {} {}; its successor takes over", worker.pid(),
                 options_.mountpoint, last_death_);
    return StartWorker();
  }
  spdlog::error("process {} that served {} {}, the {}th in a row; the next one starts in {} ms",
                worker.pid(), options_.mountpoint, last_death_, pace_.row(), Milliseconds(pause));
  restart_at_ = gone_at_ + pause;
  if (refusing_) refused_ += refuser_->RefuseTaken();
}

// A killed process whose last thread waits in the kernel for an answer of its own mount ends only
// when it gets that: from its successor. Nobody is told that its other threads have gone.
void Supervisor::LookAtLeader() {
  next_look_ = Clock::now() + kLookEvery;
  if (StateOf(worker_->pid()) != 'Z') {
    leader_gone_ = false;
    return;
  }
  if (!leader_gone_) {
    leader_gone_ = true;
    return;
  }
  OnWorkerGone(SIGKILL);
}

void Supervisor::Refuse() { refused_ += refuser_->RefuseWaiting(); }

void Supervisor::AskToLeave() {
  leaving_ = true;
  worker_->channel().Tell(HandoverKind::kLeave, "", "");
  kill_at_ = Clock::now() + kLeaveTime;
}

}  // namespace forebay
