#include "coordinator/solo_keeper.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace forebay {

Result<std::unique_ptr<SoloKeeper>> SoloKeeper::Start(CoordinatorOptions options,
                                                      const S3Config& s3,
                                                      ProgramServices& services) {
  std::unique_ptr<SoloKeeper> keeper(new SoloKeeper(std::move(options), s3, services));
  keeper->options_.begin_again = [self = keeper.get()] {
    const std::scoped_lock lock(self->mutex_);
    self->again_ = true;
    self->changed_.notify_all();
  };
  Status begun = keeper->Begin();
  if (!begun) return Fail(begun.error());
  keeper->options_.listen = keeper->serving_->address();
  keeper->thread_ = std::thread([self = keeper.get()] {
    pthread_setname_np(pthread_self(), "role");
    self->Run();
  });
  return keeper;
}

SoloKeeper::~SoloKeeper() { Stop(); }

Status SoloKeeper::Begin() {
  Result<std::unique_ptr<ServingCoordinator>> serving =
      ServingCoordinator::Start(options_, s3_, services_.metrics);
  if (!serving) return Fail(serving.error());
  const std::scoped_lock lock(mutex_);
  serving_ = std::move(*serving);
  return {};
}

void SoloKeeper::Run() {
  for (;;) {
    std::unique_ptr<ServingCoordinator> ended;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return again_ || stopping_; });
      if (stopping_) return;
      again_ = false;
      ended = std::move(serving_);
    }
    services_.watch_loops({});
    ended.reset();
    Status begun = Begin();
    if (!begun) {
      spdlog::critical("the coordinator cannot begin again: {}", begun.error().message);
      services_.request_stop();
      return;
    }
    services_.watch_loops(Loops());
  }
}

std::vector<IoPool*> SoloKeeper::Loops() {
  const std::scoped_lock lock(mutex_);
  return serving_ ? serving_->Loops() : std::vector<IoPool*>();
}

void SoloKeeper::ReloadCredentials() {
  const std::scoped_lock lock(mutex_);
  if (serving_) serving_->ReloadCredentials();
}

void SoloKeeper::Stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  services_.watch_loops({});
  serving_.reset();
}

}  // namespace forebay
