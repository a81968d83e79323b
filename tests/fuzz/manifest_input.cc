#include <string>

#include "common/model/limits.h"
#include "common/s3/link_manifest.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

std::string Seed(int flags, const std::string& text) {
  return std::string(1, static_cast<char>(flags)) + text;
}

}  // namespace

// Every name is a key that may be asked for, below the prefix, once and in order; every line that
// is not is reported once.
void RunManifestInput(std::string_view input) {
  if (input.empty()) return;
  const auto flags = static_cast<unsigned char>(input.front());
  const S3Location root = (flags & 1U) != 0 ? S3Location{"bucket", "p/"} : S3Location{};
  const S3Location base{"bucket", (flags & 2U) != 0 ? "p/" : ""};
  const Result<LinkManifest> manifest = ParseLinkManifest(std::string(input.substr(1)), base, root);
  if (!manifest) {
    Require(manifest.error().code == Code::kInvalid && !manifest.error().message.empty());
    return;
  }
  Require(!manifest->names.empty() || !manifest->bad.empty());
  Require(manifest->prefix.empty() || manifest->prefix.ends_with('/'));
  Require(root.bucket.empty() || manifest->bucket == root.bucket);
  const std::string* last = nullptr;
  for (const LinkManifest::Name& name : manifest->names) {
    Require(!name.key.empty() && name.key.size() <= kMaxKeyBytes && name.line > 0);
    Require(name.key.starts_with(manifest->prefix));
    Require(last == nullptr || *last < name.key);
    last = &name.key;
  }
  std::uint64_t line = 0;
  for (const LinkManifest::Bad& bad : manifest->bad) {
    Require(bad.line > line && !bad.reason.empty());
    line = bad.line;
  }
}

Seeds ManifestSeeds() {
  return {
      {"sagemaker", Seed(0, R"([{"prefix": "s3://bucket/p/"}, "a/1.jpg", "a/2.jpg"])")},
      {"sagemaker-root", Seed(1, R"([{"prefix":"s3://bucket/p/"},"a",7,""])")},
      {"mid-name", Seed(0, R"([{"prefix":"s3://bucket/p/x"},"1","/2"])")},
      {"list", Seed(3, "a/1\r\na/2\ns3://bucket/p/b\n")},
      {"uris", Seed(0, "s3://bucket/p/a\ns3://other/p/b\ns3://bucket/\n")},
      {"keys", Seed(0, "\xef\xbb\xbfp/q/1\n\np/r/2")},
      {"augmented", Seed(0, R"({"source-ref": "s3://bucket/p/a", "label": 1})")},
      {"escapes", Seed(0, R"([{"prefix":"s3://bucket/p\u0000/"},"\ud83d\ude00","a\/b"])")},
  };
}

}  // namespace forebay
