// The real option tables of the programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "common/base/config_loader.h"
#include "common/base/config_text.h"
#include "common/config/sections.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::size_t kMaxFields = 40;

/// Loads as the program does whose section is `make(config)`, with [s3] and [log].
template <typename Config, typename Make>
std::vector<std::string> Load(Config& config, Make make, std::vector<std::string> arguments,
                              Environment environment = {}, std::string file = "/absent") {
  AllConfigs all;
  S3Config s3;
  LogConfig log;
  std::vector<ConfigSection> own = {make(config), S3Section(s3), LogSection(log)};
  std::vector<ConfigSection> others = all.SectionsBeside(own);
  const ConfigSources sources{std::move(arguments), std::move(environment), std::move(file)};
  return LoadConfig(sources, own, others).faults;
}

TEST(Options, ACacheThatIsLargerThanTheFileSystemIsADoubtWithBothSizes) {
  const fakes::TempDir dir;
  NodeConfig config;
  config.cache_dir = {{.path = dir / "small", .bytes = 64ULL << 20},
                      {.path = dir / "not/yet/there", .bytes = 1ULL << 60},
                      {.path = dir / "all of it", .bytes = 0}};
  const std::vector<std::string> doubts = CacheDirDoubts(config);
  ASSERT_EQ(doubts.size(), 1U);
  EXPECT_THAT(doubts[0], HasSubstr("not/yet/there may take 1.00 EiB, and the file system that"));
}

TEST(Options, EachHasAParagraphAndAnUnambiguousName) {
  AllConfigs all;
  std::set<std::string> shared_flags;
  for (const ConfigSection& section : all.Sections()) {
    EXPECT_LE(section.options.size(), kMaxFields) << section.name;
    std::set<std::string> flags;
    for (const ConfigOption& option : section.options) {
      SCOPED_TRACE(section.name + "." + option.key);
      EXPECT_TRUE(flags.insert(option.flag).second);
      EXPECT_THAT(option.help, EndsWith("."));
      EXPECT_GT(option.help.size(), 20U);
      EXPECT_EQ(option.required, option.default_text.empty());
      // What Kubernetes makes of a service's name must not be taken for an option.
      EXPECT_FALSE(option.key.starts_with("service") || option.key.starts_with("port"));
      const bool in_every_program = section.name == "s3" || section.name == "log";
      if (in_every_program) EXPECT_THAT(option.flag, StartsWith("--" + section.name + "-"));
    }
  }
}

TEST(Options, DefaultsAreReadBackAsTheyAreShown) {
  AllConfigs all;
  for (const ConfigSection& section : all.Sections()) {
    for (const ConfigOption& option : section.options) {
      if (option.required) continue;
      SCOPED_TRACE(section.name + "." + option.key);
      const std::string shown = option.value.show();
      std::string text = shown;
      std::erase_if(text, [](char c) { return c == '"' || c == '[' || c == ']'; });
      const std::vector<std::string> texts =
          option.value.is_list && text.empty() ? std::vector<std::string>() : std::vector{text};
      const Status set = option.value.set(texts);
      EXPECT_TRUE(set) << set.error().message;
      EXPECT_EQ(option.value.show(), shown);
    }
  }
}

TEST(Options, OfACoordinator) {
  CoordinatorConfig config;
  EXPECT_THAT(Load(config, CoordinatorSection, {}),
              ElementsAre(StartsWith("state_dir is not set")));
  EXPECT_THAT(Load(config, CoordinatorSection, {"--state-dir", "relative"}),
              ElementsAre(EndsWith("\"relative\" is not an absolute path; begin it with /")));
  EXPECT_THAT(Load(config, CoordinatorSection, {"--state-dir", "/state", "--listen", "[::1]:0"}),
              IsEmpty());
  EXPECT_EQ(config.listen, "[::1]:0");
  EXPECT_EQ(config.metrics_listen, "127.0.0.1:7450");
}

TEST(Options, OfANode) {
  NodeConfig config;
  EXPECT_THAT(Load(config, NodeSection,
                   {"--cache-dir", "/a=1.5TiB", "--cache-dir", "/b", "--coordinator", "h:1,h:2",
                    "--accept-new-disk", "/b"},
                   {{"HOME", "/home/u"}}),
              IsEmpty());
  EXPECT_EQ(config.state_dir,
            ::geteuid() == 0 ? "/var/lib/forebay/node" : "/home/u/.local/state/forebay/node");
  EXPECT_THAT(config.accept_new_disk, ElementsAre("/b"));
  EXPECT_THAT(config.cache_dir, ElementsAre(CacheDir{"/a", 3ULL << 39}, CacheDir{"/b", 0}));
  EXPECT_THAT(config.coordinator, ElementsAre("h:1", "h:2"));
  EXPECT_GE(config.threads, 1U);
  EXPECT_LE(config.threads, kMaxThreads);
  EXPECT_GT(config.memory_limit, 64ULL << 20);
  EXPECT_EQ(config.s3_timeout, std::chrono::seconds(300));

  config = NodeConfig();
  config.state_dir = "/state";
  EXPECT_THAT(Load(config, NodeSection, {"--cache-dir", "/a", "--accept-new-disk", "/b"}),
              ElementsAre("accept_new_disk: /b is none of the directories of cache_dir"));
  config = NodeConfig();
  config.state_dir = "/state";
  EXPECT_THAT(Load(config, NodeSection, {"--cache-dir", "/a", "--cache-dir", "/a=1GiB"}),
              ElementsAre("cache_dir: /a is given twice; name each directory once"));
  EXPECT_THAT(Load(config, NodeSection, {"--cache-dir", "a=1GiB"}),
              ElementsAre(HasSubstr("\"a=1GiB\" is not DIR[=SIZE]; write an absolute path")));
  EXPECT_THAT(Load(config, NodeSection, {"--cache-dir", "/a=1MiB"}),
              ElementsAre(EndsWith("\"/a=1MiB\" is too small for a cache; give at least 64MiB")));
  EXPECT_THAT(Load(config, NodeSection, {"--cache-dir", "/a=lots"}),
              ElementsAre(HasSubstr("\"lots\" is not a size; ")));
}

TEST(Options, ACacheDirectoryMayHaveAnEqualsSignWhenItsSizeIsGiven) {
  EXPECT_EQ(ParseCacheDir("/mnt/a=b=1GiB").value(), (CacheDir{"/mnt/a=b", 1ULL << 30}));
  EXPECT_EQ(FormatCacheDir({"/mnt/a", 1ULL << 30}), "/mnt/a=1GiB");
  EXPECT_EQ(FormatCacheDir({"/mnt/a", 0}), "/mnt/a");
}

TEST(Options, WhereLocalCopiesAreKept) {
  EXPECT_EQ(ParseLocalCopy("/mnt/a").value(), (LocalCopyFolder{"/mnt/a", 0}));
  EXPECT_EQ(ParseLocalCopy("/mnt/a=b=2GiB").value(), (LocalCopyFolder{"/mnt/a=b", 2ULL << 30}));
  EXPECT_EQ(ParseLocalCopy("").value(), LocalCopyFolder());
  MountConfig config;
  config.state_dir = "/state";
  EXPECT_THAT(Load(config, MountSection, {"a", "/m", "--local-copy", "copies"}),
              ElementsAre(HasSubstr("\"copies\" is not DIR[=SIZE]; write an absolute path")));
  EXPECT_THAT(Load(config, MountSection, {"a", "/m", "--local-copy", "/c=0"}),
              ElementsAre(HasSubstr("has no room for a copy")));
  EXPECT_THAT(Load(config, MountSection, {"a", "/m", "--local-copy", "/c=lots"}),
              ElementsAre(HasSubstr("\"lots\" is not a size; ")));
}

TEST(Options, OfAMount) {
  MountConfig config;
  EXPECT_THAT(Load(config, MountSection, {}),
              ElementsAre(StartsWith("source is not set: give LINK[/sub/path], "),
                          StartsWith("mountpoint is not set: give MOUNTPOINT, ")));
  EXPECT_THAT(Load(config, MountSection,
                   {"imagenet/train", "/mnt/data", "-f", "--file-mode", "0400", "--s3-timeout",
                    "none", "--failover-timeout=500ms", "--uid=1000"},
                   {{"HOME", "/home/u"}, {"XDG_STATE_HOME", "/home/u/state"}}),
              IsEmpty());
  EXPECT_EQ(config.source, "imagenet/train");
  EXPECT_EQ(config.mountpoint, "/mnt/data");
  EXPECT_TRUE(config.foreground);
  EXPECT_EQ(config.file_mode, 0400U);
  EXPECT_EQ(config.s3_timeout, kForever);
  EXPECT_EQ(config.failover_timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(config.uid, 1000U);
  EXPECT_EQ(config.metrics_listen, "");
  EXPECT_EQ(config.state_dir,
            ::geteuid() == 0 ? "/var/lib/forebay/mount" : "/home/u/state/forebay");

  EXPECT_THAT(Load(config, MountSection, {"/", "/mnt/data"}, {{"HOME", "/home/u"}}), IsEmpty());
  EXPECT_EQ(config.source, "/");
  EXPECT_THAT(Load(config, MountSection, {"/train", "/mnt/data"}, {{"HOME", "/home/u"}}),
              ElementsAre(StartsWith("argument LINK: \"/train\" begins with /; ")));
  EXPECT_THAT(Load(config, MountSection, {"s3://data/train", "/mnt/data"}, {{"HOME", "/home/u"}}),
              ElementsAre(HasSubstr("link it first: forebay link s3://data/train --as NAME")));
}

TEST(Options, OneFileServesAllPrograms) {
  const fakes::TempDir dir;
  const std::string file = dir / "forebay.toml";
  std::ofstream(file) << "[coordinator]\nstate_dir = \"/state\"\n"
                         "[node]\ncache_dir = [\"/a=1TiB\"]\nmemory_limit = \"8GiB\"\n"
                         "[mount]\nfile_mode = 0o440\n"
                         "[s3]\nmax_connections = 64\n"
                         "[log]\nformat = \"json\"\n";
  NodeConfig node;
  EXPECT_THAT(Load(node, NodeSection, {}, {}, file), IsEmpty());
  EXPECT_EQ(node.memory_limit, 8ULL << 30);
  CoordinatorConfig coordinator;
  EXPECT_THAT(Load(coordinator, CoordinatorSection, {}, {}, file), IsEmpty());
  EXPECT_EQ(coordinator.state_dir, "/state");
  MountConfig mount;
  EXPECT_THAT(Load(mount, MountSection, {"link", "/mnt"}, {{"HOME", "/h"}}, file), IsEmpty());
  EXPECT_EQ(mount.file_mode, 0440U);
}

TEST(Options, AMistakeInAnotherProgramsSectionIsAFaultToo) {
  const fakes::TempDir dir;
  const std::string file = dir / "forebay.toml";
  std::ofstream(file) << "[mount]\nfile-mode = \"0644\"\ns3_timeout = \"1ms\"\n";
  NodeConfig node;
  EXPECT_THAT(Load(node, NodeSection, {"--cache-dir", "/a"}, {}, file),
              testing::UnorderedElementsAre(
                  file + ":2: no option file-mode in [mount]; did you mean file_mode?",
                  testing::StartsWith(file + ":3: s3_timeout: \"1ms\"")));
}

// Of a cache node that is asked to listen as `arguments` say.
std::vector<std::string> ListenFaults(const std::vector<std::string>& arguments) {
  NodeConfig node;
  S3Config s3;
  LogConfig log;
  TrustConfig trust;
  AllConfigs all;
  std::vector<ConfigSection> own = {
      NodeSection(node), S3Section(s3),
      TrustSection(trust, {{"--listen", &node.listen}}, &node.metrics_listen), LogSection(log)};
  std::vector<ConfigSection> others = all.SectionsBeside(own);
  ConfigSources sources{{"--cache-dir", "/cache"}, {}, "/absent"};
  sources.arguments.insert(sources.arguments.end(), arguments.begin(), arguments.end());
  return LoadConfig(sources, own, others).faults;
}

TEST(Options, WhatOthersCanReachNamesItsRisk) {
  EXPECT_THAT(ListenFaults({"--listen", "127.0.0.1:1"}), IsEmpty());
  for (const char* address : {"10.0.0.1:7441", "[fd00::1]:7441", "cache.example.org:1"}) {
    EXPECT_THAT(ListenFaults({"--listen", address}),
                ElementsAre(testing::AllOf(HasSubstr(address), HasSubstr("--insecure-plain-tcp"))));
    EXPECT_THAT(ListenFaults({"--listen", address, "--insecure-plain-tcp"}), IsEmpty());
  }
  EXPECT_THAT(ListenFaults({"--listen", "0.0.0.0:7441", "--insecure-plain-tcp"}),
              ElementsAre(HasSubstr("--advertise")));
  EXPECT_THAT(
      ListenFaults({"--listen", "0.0.0.0:7441", "--insecure-plain-tcp", "--advertise", "h:1"}),
      IsEmpty());
}

TEST(Options, MetricsForOthersMustBeAccepted) {
  EXPECT_THAT(ListenFaults({"--metrics-listen", ""}), IsEmpty());
  for (const char* address : {"0.0.0.0:7451", "[::]:7451", "10.1.2.3:7451"}) {
    EXPECT_THAT(ListenFaults({"--metrics-listen", address}),
                ElementsAre(testing::AllOf(HasSubstr(address), HasSubstr("--metrics-listen"),
                                           HasSubstr("--insecure-plain-metrics"))));
    EXPECT_THAT(ListenFaults({"--metrics-listen", address, "--insecure-plain-tcp"}),
                ElementsAre(HasSubstr("--insecure-plain-metrics")));
    EXPECT_THAT(ListenFaults({"--metrics-listen", address, "--insecure-plain-metrics"}), IsEmpty());
  }
}

TEST(Options, HalfOfWhatEtcdNeedsIsAFault) {
  const auto faults = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--state-dir", "/s"});
    CoordinatorConfig config;
    return Load(config, CoordinatorSection, std::move(arguments));
  };
  const std::string url = "https://etcd1:2379";
  EXPECT_THAT(faults({"--etcd", url + ",https://etcd2:2379"}), IsEmpty());
  for (const char* wrong : {"etcd1:2379", "https://etcd1", "ftp://etcd1:1", "https://e:1/path"}) {
    EXPECT_THAT(faults({"--etcd", wrong}),
                ElementsAre(testing::AllOf(HasSubstr(wrong), HasSubstr("like https://"))));
  }
  EXPECT_THAT(faults({"--etcd", url, "--etcd-cert", "/c"}), ElementsAre(HasSubstr("etcd_cert")));
  EXPECT_THAT(faults({"--etcd", url, "--etcd-key", "/k"}), ElementsAre(HasSubstr("etcd_cert")));
  EXPECT_THAT(faults({"--etcd", url, "--etcd-user", "u"}), ElementsAre(HasSubstr("etcd_user")));
  EXPECT_THAT(faults({"--etcd", url, "--etcd-prefix", "/f"}),
              ElementsAre(HasSubstr("etcd_prefix")));
  EXPECT_THAT(faults({"--etcd", url, "--listen", "0.0.0.0:7440"}),
              ElementsAre(HasSubstr("--advertise")));
  EXPECT_THAT(faults({"--etcd", url, "--listen", "0.0.0.0:7440", "--advertise", "c1:7440"}),
              IsEmpty());
}

}  // namespace
}  // namespace forebay
