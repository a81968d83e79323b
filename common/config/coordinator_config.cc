#include "common/config/coordinator_config.h"

#include "common/base/config_values.h"

namespace forebay {

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
  section.Add("metrics_listen", LoopbackAddress(config.metrics_listen),
              "Where Prometheus finds /metrics, with /livez and /readyz beside it. An empty "
              "address switches it off.");
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
  return section;
}

}  // namespace forebay
