#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/config/coordinator_config.h"
#include "common/config/s3_config.h"
#include "common/s3/auth/default_chain.h"
#include "common/s3/s3_client.h"
#include "coordinator/coordinator.h"
#include "coordinator/own_requests.h"

namespace forebay {

/// A coordinator that serves, with the S3 client that belongs to it.
class ServingCoordinator {
 public:
  /// Blocks. Errors as Coordinator::Start; nothing is left running then.
  static Result<std::unique_ptr<ServingCoordinator>> Start(CoordinatorOptions options,
                                                           const S3Config& s3, Metrics& metrics);
  ~ServingCoordinator();  ///< Calls Stop().
  ServingCoordinator(const ServingCoordinator&) = delete;
  ServingCoordinator& operator=(const ServingCoordinator&) = delete;

  /// As Coordinator::Stop.
  void Stop();
  void ReloadCredentials() { s3_.ReloadCredentials(); }
  std::vector<IoPool*> Loops() { return coordinator_->Loops(); }
  const std::string& address() const { return coordinator_->address(); }

 private:
  explicit ServingCoordinator(const S3Config& s3);
  CoordinatorOrigin Origin();

  const AwsEnvironment environment_;
  const std::string ca_bundle_;  // "" = as the environment and the profiles say
  OwnRequests requests_;
  S3Client s3_;
  std::unique_ptr<Coordinator> coordinator_;
  Metrics::Registration coordinator_metrics_;
  Metrics::Registration s3_metrics_;
};

}  // namespace forebay
