// How a Supervisor lets another program serve its mount.
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "fuse-client/supervisor/supervisor.h"

namespace forebay {

namespace {

/// For a program to start and to say that it understands the hand-over.
constexpr Duration kPrepareTime = std::chrono::seconds(10);

}  // namespace

void Supervisor::OnUpgradeAsked() {
  pollfd waiting{upgrades_.fd(), POLLIN, 0};
  if (!asking_ && ::poll(&waiting, 1, 0) > 0) asking_ = upgrades_.Accept();
  if (!asking_) return;
  Result<HandoverMessage> request = asking_->Receive(false);
  if (!request && request.error().code == Code::kTimeout) return;
  if (request && request->kind == HandoverKind::kUpgrade && request->fd) {
    BeginUpgrade(std::move(*request));
  }
  asking_.reset();
}

void Supervisor::BeginUpgrade(HandoverMessage request) {
  const auto refuse = [&](const std::string& sentence) {
    spdlog::warn("an upgrade to forebay-mount {} was refused: {}", request.value, sentence);
    asking_->Tell(HandoverKind::kAnswer, "refused", sentence);
  };
  if (request.key != std::to_string(kHandoverFormat)) {
    return refuse(fmt::format(
        "{} cannot be handed over: forebay-mount {} has hand-over format {}, the one that serves "
        "has {}; unmount it and mount it again",
        options_.mountpoint, request.value, request.key, kHandoverFormat));
  }
  if (!ever_ready_ || stopping_ || resting_ || upgrade_) {
    return refuse(fmt::format(
        "{} is {}; try again later", options_.mountpoint,
        upgrade_ ? "being upgraded already" : (stopping_ ? "being unmounted" : "being mounted")));
  }
  Result<WorkerProcess> started = WorkerProcess::Start(request.fd.get(), options_.command);
  if (!started) return refuse(started.error().message);
  spdlog::info("forebay-mount {} is started to take over {}", request.value, options_.mountpoint);
  upgrade_ = Upgrade{.client = std::move(*asking_),
                     .program = std::move(request.fd),
                     .candidate = std::move(*started),
                     .prepared_by = Clock::now() + kPrepareTime};
  upgrade_->candidate->channel().Tell(HandoverKind::kHello, std::to_string(kHandoverFormat), "",
                                      slots_->fd());
}

void Supervisor::OnCandidatePrepared() {
  upgrade_->prepared = true;
  if (worker_) {
    AskToLeave();
  } else {
    PromoteCandidate();
  }
}

void Supervisor::PromoteCandidate() {
  restart_at_.reset();
  previous_program_ = std::exchange(program_, std::move(upgrade_->program));
  worker_.emplace(std::move(*upgrade_->candidate));
  upgrade_->candidate.reset();
  LetServe(*worker_);
}

void Supervisor::OnCandidateGone(int status) {
  const std::string how = WIFEXITED(status)
                              ? fmt::format("ended with code {}", WEXITSTATUS(status))
                              : fmt::format("was ended by signal {}", WTERMSIG(status));
  upgrade_->candidate.reset();
  EndUpgrade("refused",
             fmt::format("the new program {} before it could take over {}, which goes on with the "
                         "one before; its log says why",
                         how, options_.mountpoint));
  if (!worker_ && !stopping_) StartWorker();
}

void Supervisor::EndUpgrade(const char* answer, const std::string& sentence) {
  spdlog::info("upgrade {}: {}", answer, sentence);
  upgrade_->client.Tell(HandoverKind::kAnswer, answer, sentence);
  upgrade_.reset();
}

}  // namespace forebay
