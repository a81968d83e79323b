#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/program.h"
#include "common/base/result.h"
#include "coordinator/serving_coordinator.h"

namespace forebay {

/// A coordinator that is alone. Where a restored backup has taken the place of its state it is
/// stopped, and another one begins at the same address, in the same process.
class SoloKeeper {
 public:
  /// Blocks. Errors as Coordinator::Start. `s3` and `services` outlive it.
  static Result<std::unique_ptr<SoloKeeper>> Start(CoordinatorOptions options, const S3Config& s3,
                                                   ProgramServices& services);
  ~SoloKeeper();  ///< Calls Stop().
  SoloKeeper(const SoloKeeper&) = delete;
  SoloKeeper& operator=(const SoloKeeper&) = delete;

  void Stop();
  void ReloadCredentials();
  std::vector<IoPool*> Loops();
  const std::string& address() const { return options_.listen; }

 private:
  SoloKeeper(CoordinatorOptions options, const S3Config& s3, ProgramServices& services)
      : options_(std::move(options)), s3_(s3), services_(services) {}
  Status Begin();
  void Run();

  CoordinatorOptions options_;  // `listen` is the address in use, since Start
  const S3Config& s3_;
  ProgramServices& services_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unique_ptr<ServingCoordinator> serving_;
  bool again_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace forebay
