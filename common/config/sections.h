#pragma once

#include <vector>

#include "common/base/config_option.h"
#include "common/config/coordinator_config.h"
#include "common/config/log_config.h"
#include "common/config/mount_config.h"
#include "common/config/node_config.h"
#include "common/config/s3_config.h"
#include "common/config/trust_config.h"

namespace forebay {

/// A set of all config structs with their defaults: what the sections of other programs in the
/// shared file are checked against, and what the documentation is made of.
struct AllConfigs {
  CoordinatorConfig coordinator = {};
  NodeConfig node = {};
  MountConfig mount = {};
  S3Config s3 = {};
  TrustConfig trust = {};
  LogConfig log = {};

  /// All sections, in the order of the documentation. This object must outlive them.
  std::vector<ConfigSection> Sections();
  /// Those that are not in `own`: ProgramSpec::others.
  std::vector<ConfigSection> SectionsBeside(const std::vector<ConfigSection>& own);
};

}  // namespace forebay
