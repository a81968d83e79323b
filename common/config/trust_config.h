#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace forebay {

struct ConfigSection;

/// Also of the forebay command.
inline constexpr const char* kDefaultTrustDir = "/etc/forebay/trust";
/// Of the packages' node, whose user owns it (docs/adr/0050).
inline constexpr const char* kNodeTrustDir = "/etc/forebay/node-trust";

/// What forebay-node looks into by itself: kNodeTrustDir where that is there.
std::string DefaultNodeTrustDir();

/// Of a program that has found no certificates in `dir`. kInvalid: that is kDefaultTrustDir, and
/// the node of this machine has some: who belongs to a cluster does not go on without.
Status ExpectNoCluster(const std::string& dir);

/// Whom a program believes, [trust] in the file. What each means is in TrustSection
/// (trust_config.cc) and docs/CONFIGURATION.md; the whole of it is in docs/SECURITY.md.
struct TrustConfig {
  std::string dir = kDefaultTrustDir;  ///< "" = no certificates.
  bool insecure_plain_tcp = false;
  bool insecure_plain_metrics = false;
};

/// An address that a program listens on for other programs of the cluster.
struct ListenOption {
  std::string_view flag;       ///< "--listen".
  const std::string* address;  ///< Of the program's own config struct.
};

/// The table of the members of `config`, which must outlive it. An address of `listens` that other
/// machines reach is a fault without certificates, and one of `metrics` (--metrics-listen) always,
/// unless the risk was accepted.
ConfigSection TrustSection(TrustConfig& config, std::vector<ListenOption> listens = {},
                           const std::string* metrics = nullptr);

}  // namespace forebay
