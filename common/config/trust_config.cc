#include "common/config/trust_config.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/config_values.h"
#include "common/base/host_port.h"

namespace forebay {
namespace {

bool ReachesBeyond(const std::string& address) {
  const Result<HostPort> place = HostPort::Parse(address);
  return place && !place->IsLoopback();
}

std::vector<std::string> Exposed(const TrustConfig& config,
                                 const std::vector<ListenOption>& listens) {
  std::vector<std::string> faults;
  std::error_code unseen;
  if (!config.dir.empty() && std::filesystem::exists(config.dir + "/ca.pem", unseen)) return faults;
  for (const ListenOption& listen : listens) {
    if (config.insecure_plain_tcp || !ReachesBeyond(*listen.address)) continue;
    faults.push_back(std::string(listen.flag) + ": \"" + *listen.address +
                     "\" is not a loopback address: without certificates everybody on the network "
                     "could read and change what goes over it; make a cluster with 'forebay init', "
                     "use 127.0.0.1, or accept that with --insecure-plain-tcp");
  }
  return faults;
}

}  // namespace

std::string DefaultNodeTrustDir() {
  std::error_code unseen;
  return std::filesystem::exists(kNodeTrustDir, unseen) ? kNodeTrustDir : kDefaultTrustDir;
}

Status ExpectNoCluster(const std::string& dir) {
  if (dir != kDefaultTrustDir || DefaultNodeTrustDir() == kDefaultTrustDir) return {};
  return Fail(Code::kInvalid,
              std::string("the node of this machine belongs to a cluster (") + kNodeTrustDir +
                  "), and there is no certificate for this program in " + dir +
                  ": get one with 'forebay join HOST:PORT --token T' and a token for its role");
}

ConfigSection TrustSection(TrustConfig& config, std::vector<ListenOption> listens,
                           const std::string* metrics) {
  ConfigSection section("trust", "Whom the programs believe, and what they risk.");
  section
      .Add("dir", Path(config.dir, "DIR"),
           "The certificates of this machine, as `forebay init` and `forebay join` write them. "
           "Where there are some, all TCP connections are encrypted, both ends prove who they "
           "are, and nobody else is let in; docs/SECURITY.md says who may do what. SIGHUP reads "
           "them again. A node of the Debian packages has a folder of its own: unless this is set, "
           "forebay-node takes /etc/forebay/node-trust where there is one.")
      .Flag("--trust-dir");
  section
      .Add("insecure_plain_tcp", Switch(config.insecure_plain_tcp),
           "Accepts that others on the network read and change what goes between machines: "
           "--listen may then be an address that other machines reach, over TCP without "
           "encryption. Who connects must still hold the secret of docs/SECURITY.md, the same on "
           "each machine. Only for a network that nobody else uses.")
      .Flag("--insecure-plain-tcp");
  section
      .Add(
          "insecure_plain_metrics", Switch(config.insecure_plain_metrics),
          "Accepts that others on the network read the metrics, which name links and nodes and say "
          "how much is read: --metrics-listen may then be an address that other machines reach, "
          "for a Prometheus elsewhere or the probes of a kubelet. It is HTTP without encryption "
          "and asks nobody who they are; nothing can be changed there.")
      .Flag("--insecure-plain-metrics");
  section.finish = [&config, listens = std::move(listens), metrics](const Environment&) {
    std::vector<std::string> faults = Exposed(config, listens);
    if (metrics != nullptr && !config.insecure_plain_metrics && ReachesBeyond(*metrics)) {
      faults.push_back("--metrics-listen: \"" + *metrics +
                       "\" is not a loopback address: everybody on the network could read the "
                       "metrics; use 127.0.0.1 or [::1], or accept that with "
                       "--insecure-plain-metrics");
    }
    return faults;
  };
  return section;
}

}  // namespace forebay
