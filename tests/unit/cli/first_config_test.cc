// What join and init write into forebay.toml, and what they leave alone.
#include "cli/first_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/membership.h"
#include "common/base/config_loader.h"
#include "common/base/files.h"
#include "common/config/node_config.h"
#include "tests/fakes/temp_dir.h"

namespace forebay::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kBy = "By a test.";

Setting Of(std::string section, std::string key, std::string value) {
  return {.section = std::move(section), .key = std::move(key), .value = std::move(value)};
}

std::vector<SettingGroup> OfNode() {
  return MemberSettings("/etc/forebay/trust", proto::ROLE_NODE, "c1:7440", "10.0.0.2:7441");
}

std::string Completed(const std::string& text, const std::vector<SettingGroup>& wanted) {
  const Result<CompletedConfig> done = CompleteConfig(text, "forebay.toml", wanted, kBy);
  return done ? done->text : done.error().message;
}

TEST(FirstConfig, AnEmptyOneGetsTheSection) {
  EXPECT_EQ(Completed("", OfNode()),
            "[node]\n"
            "# By a test.\n"
            "coordinator = [\"c1:7440\"]\n"
            "listen = \"0.0.0.0:7441\"\n"
            "advertise = \"10.0.0.2:7441\"\n");
  EXPECT_EQ(
      Completed("# mine", MemberSettings("/etc/forebay/trust", proto::ROLE_CLIENT, "c1:7440", "")),
      "# mine\n\n[mount]\n# By a test.\ncoordinator = [\"c1:7440\"]\n");
}

TEST(FirstConfig, OfThePackageIsKeptLineByLineAndMakesANodeThatOthersReach) {
  const std::string package =
      ReadWholeFile(std::string(FOREBAY_SOURCE_DIR) + "/ops/debian/forebay.toml").value();
  const fakes::TempDir temp;
  const std::string file = temp / "forebay.toml";
  ASSERT_TRUE(WriteFileAtomically(file, package).has_value());
  ASSERT_TRUE(CompleteConfigFile(file, OfNode(), kBy).has_value());
  ASSERT_TRUE(CompleteConfigFile(file, CoordinatorSettings("/etc/forebay/trust", {"c1", 7440}), kBy)
                  .has_value());
  NodeConfig node;
  std::vector<ConfigSection> own;
  own.push_back(NodeSection(node));
  ConfigSources sources;
  sources.default_file = file;
  std::vector<ConfigSection> others;
  LoadConfig(sources, own, others);
  EXPECT_THAT(node.coordinator, ElementsAre("c1:7440"));
  EXPECT_EQ(node.listen, "0.0.0.0:7441");
  EXPECT_EQ(node.advertise, "10.0.0.2:7441");
  EXPECT_THAT(node.cache_dir, ElementsAre(CacheDir{.path = "/var/cache/forebay"}));
  std::string text = ReadWholeFile(file).value();
  for (const std::string added :
       {"# By a test.\ncoordinator = [\"c1:7440\"]\nlisten = \"0.0.0.0:7441\"\n"
        "advertise = \"10.0.0.2:7441\"\n",
        "# By a test.\nlisten = \"0.0.0.0:7440\"\n"}) {
    ASSERT_NE(text.find(added), std::string::npos) << text;
    text.erase(text.find(added), added.size());
  }
  EXPECT_EQ(text, package);
}

TEST(FirstConfig, WhatIsSetStaysAndIsSaid) {
  const std::string mine = "[node]  # mine\nlisten = \"10.1.1.1:9\"\n";
  const CompletedConfig done = CompleteConfig(mine, "f", OfNode(), kBy).value();
  EXPECT_EQ(done.text,
            "[node]  # mine\n# By a test.\ncoordinator = [\"c1:7440\"]\nlisten = "
            "\"10.1.1.1:9\"\n")
      << "an address to listen on is not joined by another one to tell";
  EXPECT_THAT(done.kept, ElementsAre(Of("node", "listen", "\"10.1.1.1:9\"")));
  EXPECT_EQ(DescribeCompleted(done),
            "f says now [node] coordinator = [\"c1:7440\"]; it keeps its own [node] listen = "
            "\"10.1.1.1:9\"");
}

TEST(FirstConfig, ASecondTimeAddsNothingAndSaysNothing) {
  const std::string once = Completed("", OfNode());
  const CompletedConfig again = CompleteConfig(once, "f", OfNode(), kBy).value();
  EXPECT_EQ(again.text, once);
  EXPECT_THAT(again.added, IsEmpty());
  EXPECT_EQ(DescribeCompleted(again), "");
}

TEST(FirstConfig, WhatNoLineCanBeAddedToIsLeftAlone) {
  EXPECT_THAT(Completed("[node\n", OfNode()), HasSubstr("forebay.toml:1: not TOML"));
  for (const char* text : {"node = {zone = \"a\"}\n", "node.zone = \"a\"\n", "node = 1\n"}) {
    EXPECT_THAT(Completed(text, OfNode()), HasSubstr("[node] does not stand on a line")) << text;
  }
}

TEST(FirstConfig, AFileKeepsItsPermissionsAndALinkItsPlace) {
  const fakes::TempDir temp;
  const std::string real = temp / "real.toml";
  const std::string link = temp / "forebay.toml";
  std::ofstream(real) << "[node]";
  std::filesystem::create_symlink(real, link);
  ASSERT_EQ(::chmod(real.c_str(), 0640), 0);
  ASSERT_TRUE(CompleteConfigFile(link, OfNode(), kBy).has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  struct stat seen{};
  ASSERT_EQ(::stat(real.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777u, 0640u);
  EXPECT_TRUE(ReadWholeFile(real)->starts_with("[node]\n# By a test.\ncoordinator"));
  const std::string fresh = temp / "fresh.toml";
  ASSERT_TRUE(CompleteConfigFile(fresh, OfNode(), kBy).has_value());
  ASSERT_EQ(::stat(fresh.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777u, 0644u) << "the services have a user of their own";
}

TEST(MemberSettings, OfEachRole) {
  const auto shown = [](const std::vector<SettingGroup>& groups) {
    std::vector<Setting> all;
    for (const SettingGroup& group : groups) all.insert(all.end(), group.begin(), group.end());
    return ShowSettings(all);
  };
  const std::string trust = "/etc/forebay/trust";
  EXPECT_EQ(shown(MemberSettings(trust, proto::ROLE_ADMIN, "c1:7440", "")), "");
  EXPECT_EQ(shown(MemberSettings("/home/me/trust", proto::ROLE_CLIENT, "c1:7440", "")),
            "[trust] dir = \"/home/me/trust\", [mount] coordinator = [\"c1:7440\"]");
  EXPECT_EQ(shown(MemberSettings(trust, proto::ROLE_NODE, "127.0.0.1:7440", "")),
            "[node] coordinator = [\"127.0.0.1:7440\"]");
  EXPECT_EQ(shown(MemberSettings(trust, proto::ROLE_NODE, "c1:7440", "[fd00::2]:9")),
            "[node] coordinator = [\"c1:7440\"], listen = \"[::]:9\", advertise = "
            "\"[fd00::2]:9\"");
  EXPECT_EQ(shown(MemberSettings(trust, proto::ROLE_NODE, "c1:7440", "127.0.0.1:9")),
            "[node] coordinator = [\"c1:7440\"], listen = \"127.0.0.1:9\"");
  EXPECT_EQ(shown(CoordinatorSettings(trust, {"localhost", 7440})), "");
  EXPECT_EQ(shown(CoordinatorSettings(trust, {"c1", 7000})),
            "[coordinator] listen = \"0.0.0.0:7000\"");
}

TEST(HostForOthers, IsNoneOnLoopbackAndTheHostThatIsNamedOnItsOwnMachine) {
  EXPECT_EQ(HostForOthers("127.0.0.1:7440").value(), "");
  EXPECT_EQ(HostForOthers("localhost:7440").value(), "");
  // By its name it is not, as that of a machine that /etc/hosts of Debian gives 127.0.1.1.
  EXPECT_EQ(HostForOthers("127.1:7440").value(), "127.1");
  EXPECT_EQ(HostForOthers("nowhere.invalid:7440").error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay::testing
