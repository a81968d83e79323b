#include <algorithm>
#include <fstream>
#include <string>

#include "common/s3/aws_settings.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

void Write(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// Both files, the credentials' first.
std::string Seed(const std::string& credentials, const std::string& config) {
  return std::string(1, static_cast<char>(credentials.size())) + credentials + config;
}

}  // namespace

// Whatever stands in the files, a profile is read, or the message names a file and a line and
// nothing that stands there.
void RunAwsFilesInput(std::string_view input) {
  if (input.empty()) return;
  static const fakes::TempDir dir;
  const std::size_t first =
      std::min<std::size_t>(static_cast<unsigned char>(input.front()), input.size() - 1);
  const std::string keys = dir / "credentials";
  const std::string config = dir / "config";
  Write(keys, input.substr(1, first));
  Write(config, input.substr(1 + first));
  const AwsEnvironment environment(
      {{"AWS_SHARED_CREDENTIALS_FILE", keys}, {"AWS_CONFIG_FILE", config}});
  for (const char* name : {"", "x"}) {
    const Result<AwsProfile> profile = LoadAwsProfile(environment, name);
    if (!profile) {
      const std::string& message = profile.error().message;
      const std::size_t file = std::min(message.find(" of " + keys), message.find(" of " + config));
      Require(profile.error().code == Code::kInvalid && message.starts_with("line "));
      Require(file != std::string::npos);
      Require(message.find_first_not_of("0123456789", 5) == file);
      continue;
    }
    Require(profile->found || profile->settings.empty());
    for (const auto& [key, value] : profile->settings) {
      Require(!key.empty() && key.find_first_of("\n=") == std::string::npos);
      Require(value.find('\n') == std::string::npos);
    }
    (void)ConfiguredEndpoint(environment, *profile, "s3");
    (void)ConfiguredRegion(environment, *profile);
  }
}

Seeds AwsFilesSeeds() {
  return {
      {"keys", Seed("[default]\naws_access_key_id = AK\naws_secret_access_key=s\n",
                    "[profile x]\nregion = eu-west-1\n")},
      {"nested", Seed("", "[default]\ns3 =\n  addressing_style = path\n  max = 1 # note\n")},
      {"services", Seed("",
                        "[profile x]\nservices = s\n[services s]\ns3 =\n"
                        "  endpoint_url = http://h\n")},
      {"role",
       Seed("[x]\nrole_arn = arn:x\nsource_profile = default\n", "; note\r\n[ default ]\r\n")},
      {"no-section", Seed("key = value\n", "")},
      {"no-end", Seed("[default\n", "")},
      {"no-equals", Seed("", "[default]\nwords\n")},
      {"indented", Seed("[x]\n  a = b\n", "[profile \"x\"]\n\ta\n")},
  };
}

}  // namespace forebay
