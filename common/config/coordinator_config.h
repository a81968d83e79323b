#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/units.h"

namespace forebay {

struct ConfigSection;

/// Options of forebay-coordinator, [coordinator] in the file. What each means is in
/// CoordinatorSection (coordinator_config.cc) and docs/CONFIGURATION.md.
struct CoordinatorConfig {
  std::string state_dir;  ///< Required.
  std::string listen = "127.0.0.1:7440";
  std::string metrics_listen = "127.0.0.1:7450";
  bool background_fill = true;
  std::uint64_t fill_limit = 0;              ///< Bytes a second; 0 = none.
  std::uint64_t drain_limit = 512ULL << 20;  ///< Likewise.
  std::chrono::milliseconds s3_timeout = kForever;
  std::string advertise;          ///< "" = `listen`.
  std::vector<std::string> etcd;  ///< Empty = this coordinator is alone.
  std::string etcd_prefix = "/forebay/";
  std::string etcd_ca;
  std::string etcd_cert;
  std::string etcd_key;
  std::string etcd_user;
  std::string etcd_password_file;
};

/// The table of the members of `config`, which must outlive it.
ConfigSection CoordinatorSection(CoordinatorConfig& config);

}  // namespace forebay
