#include "common/config/s3_config.h"

#include "common/base/config_values.h"

namespace forebay {

ConfigSection S3Section(S3Config& config) {
  constexpr std::size_t kMostConnections = 4096;
  constexpr std::chrono::milliseconds kShortest{100};
  constexpr std::chrono::minutes kLongest{5};
  ConfigSection section("s3",
                        "How the coordinator and the nodes reach S3. Credentials, region and "
                        "endpoint come from the standard AWS settings of their environment "
                        "(S3.md).");
  section
      .Add("ca_bundle", Path(config.ca_bundle, "FILE"),
           "The certificates that may vouch for an S3 endpoint, in PEM.")
      .Flag("--s3-ca-bundle")
      .Default(
          "AWS_CA_BUNDLE, else ca_bundle of the link's AWS profile, else of this program's, else "
          "the system's");
  section
      .Add("max_connections", Number(config.max_connections, 1, kMostConnections),
           "The most connections to S3 that this process has open at once. More requests wait. "
           "Many S3 servers are fastest with some tens of them for each node.")
      .Flag("--s3-max-connections");
  section
      .Add("first_byte_timeout", Time(config.first_byte_timeout, kShortest, kLongest),
           "How long a request may take until the first byte of its answer. Then it is made again "
           "on a fresh connection.")
      .Flag("--s3-first-byte-timeout");
  section
      .Add("stall_timeout", Time(config.stall_timeout, kShortest, kLongest),
           "How long an answer that has begun may stand still. Then the request is made again on a "
           "fresh connection.")
      .Flag("--s3-stall-timeout");
  return section;
}

}  // namespace forebay
