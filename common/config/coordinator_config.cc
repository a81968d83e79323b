#include "common/config/coordinator_config.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/base/config_values.h"
#include "common/base/host_port.h"

namespace forebay {
namespace {

/// "https://etcd1:2379": no path, no slash at its end.
Result<std::string> EtcdUrl(const std::string& text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme)) continue;
    const Result<HostPort> address = HostPort::Parse(text.substr(scheme.size()));
    if (address) return text;
  }
  return Fail(Code::kInvalid,
              '"' + text + "\" is no address of etcd; write it like https://etcd1:2379");
}

void AddEtcd(ConfigSection& section, CoordinatorConfig& config) {
  section
      .Add(
          "etcd",
          ListOf<std::string>(config.etcd, "URL", EtcdUrl,
                              [](const std::string& url) { return url; }),
          "Where etcd is, one URL or several separated by commas. With it up to a few coordinators "
          "stand in for one another: one leads, the others wait, and when it dies one of them "
          "takes "
          "over within 5 s. What they must not forget is in etcd then; `--state-dir` still keeps "
          "the listings. etcd 3.4 and later, of its own rather than one that others use "
          "(docs/DEPLOY.md). Empty: this coordinator is alone.")
      .Default("none");
  section.Add("etcd_prefix", Text(config.etcd_prefix, "PREFIX"),
              "What the keys in etcd begin with. Clusters that share an etcd need different ones.");
  section.Add("etcd_ca", Path(config.etcd_ca),
              "The certificates (PEM) of the authorities that etcd's certificate may be signed by. "
              "Empty: those of the system.");
  section.Add("etcd_cert", Path(config.etcd_cert),
              "This coordinator's certificate for etcd (PEM), where etcd wants one "
              "(--client-cert-auth).");
  section.Add("etcd_key", Path(config.etcd_key), "The private key of etcd_cert.");
  section.Add("etcd_user", Text(config.etcd_user, "NAME"),
              "The user of etcd's own authentication, where that is enabled.");
  section.Add("etcd_password_file", Path(config.etcd_password_file),
              "The file that holds the password of etcd_user, readable by this program's user "
              "alone.");
}

std::vector<std::string> CheckEtcd(const CoordinatorConfig& config) {
  std::vector<std::string> faults;
  const auto fault = [&faults](std::string text) { faults.push_back(std::move(text)); };
  if (config.etcd_cert.empty() != config.etcd_key.empty()) {
    fault("etcd_cert: a certificate and its private key belong together; give both or neither");
  }
  if (config.etcd_user.empty() != config.etcd_password_file.empty()) {
    fault("etcd_user: a user needs a password; give etcd_user and etcd_password_file, or neither");
  }
  if (config.etcd.empty()) return faults;
  if (config.etcd_prefix.empty() || !config.etcd_prefix.ends_with('/')) {
    fault("etcd_prefix: \"" + config.etcd_prefix + "\" does not end with '/'");
  }
  const bool any = config.listen.starts_with("0.0.0.0:") || config.listen.starts_with("[::]:");
  if (any && config.advertise.empty()) {
    fault("listen: \"" + config.listen +
          "\" is no address that others can use; name this machine's with --advertise HOST:PORT");
  }
  return faults;
}

}  // namespace

ConfigSection CoordinatorSection(CoordinatorConfig& config) {
  ConfigSection section("coordinator", "Options of the coordinator, forebay-coordinator.");
  section
      .Add("state_dir", Path(config.state_dir, "DIR"),
           "The directory that keeps what the coordinator must not forget: its links, the members "
           "of the ring and its epoch, and the listings of the links. It is made when it is not "
           "there, readable by this user alone. Plan about 100 bytes for each object of all linked "
           "prefixes, and while a link is listed 250 more for each of its own. Everything but the "
           "links themselves can be rebuilt from S3 and from the "
           "nodes.")
      .Required();
  section.Add("listen", Address(config.listen),
              "Where nodes, mounts and the forebay command reach the coordinator. Port 0 takes any "
              "free port; the ready line says which. One that other machines reach is only "
              "accepted with certificates, or with --insecure-plain-tcp.");
  section.Add("metrics_listen", OwnAddress(config.metrics_listen),
              "Where Prometheus finds /metrics, with /livez and /readyz beside it. An empty "
              "address switches it off. One that other machines reach is only accepted with "
              "--insecure-plain-metrics.");
  section.Add("background_fill", Switch(config.background_fill),
              "When a job reads much of a link within a minute (1,000 blocks or 1 %), what is not "
              "cached of the link is fetched, too: behind whatever readers and preloads want, only "
              "into room that is free, and only while some job reads the link. docs/PRELOAD.md has "
              "the rules. `forebay link --no-background-fill` switches it off for one link.");
  section.Add("fill_limit", Rate(config.fill_limit),
              "The most that each background fill fetches, over all nodes. What readers and "
              "preloads fetch does not count: `forebay limit s3` bounds all of it.");
  section.Add("drain_limit", Rate(config.drain_limit),
              "The most that each `forebay node drain` copies to other nodes. At 512 MiB/s a node "
              "of 4 TiB is empty in about 2.3 hours; what readers ask for moves at once, whatever "
              "this says.");
  section.Add(
      "s3_timeout", TimeOrNone(config.s3_timeout, std::chrono::seconds(1)),
      "How long a listing waits for an S3 that does not answer before it fails. At none it "
      "waits as long as it takes: the task says so, what it has listed is kept, also over a "
      "restart, and `forebay task cancel` or `forebay unlink` end it. A new link whose "
      "listing fails is removed.");
  section
      .Add("advertise", Address(config.advertise),
           "The address that others are told to use for this coordinator, when it is not the one "
           "that it listens on. Only with --etcd.")
      .Default("the address that it listens on");
  AddEtcd(section, config);
  section.finish = [&config](const Environment&) { return CheckEtcd(config); };
  return section;
}

}  // namespace forebay
