#include "fuse-client/order/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A machine of 1,000 MiB with 600 of them available.
class FreeMemoryTest : public ::testing::Test {
 protected:
  FreeMemoryTest() {
    Write(files_.meminfo, "MemTotal: 1024000 kB\nMemFree: 1 kB\nMemAvailable: 614400 kB\n");
  }

  static void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  void OwnGroups(const std::string& text) const { Write(files_.own_cgroups, text); }
  void Version2(const std::string& path, const std::string& limit, std::uint64_t used_mib,
                std::uint64_t idle_mib) const {
    const std::string folder = files_.cgroup_root + path;
    Write(folder + "/memory.max", limit + "\n");
    Write(folder + "/memory.current", std::to_string(used_mib * kMiB) + "\n");
    Write(folder + "/memory.stat",
          "anon 5\ninactive_file " + std::to_string(idle_mib * kMiB) + "\nactive_file 7\n");
  }
  static std::string Mib(std::uint64_t mib) { return std::to_string(mib * kMiB); }

  fakes::TempDir dir_;
  const MemoryFiles files_ = {dir_ / "meminfo", dir_ / "cgroup", dir_ / "groups"};
  const FreeMemory machine_ = {1000 * kMiB, 600 * kMiB};
};

TEST_F(FreeMemoryTest, WithoutGroupsItIsTheMachines) {
  EXPECT_EQ(FreeMemoryNow(files_), machine_);
  OwnGroups("0::/\n");
  EXPECT_EQ(FreeMemoryNow(files_), machine_) << "the root has no limit";
  Version2("", "max", 300, 0);
  EXPECT_EQ(FreeMemoryNow(files_), machine_);
}

TEST_F(FreeMemoryTest, AGroupThatHasLessConfinesUs) {
  OwnGroups("0::/system.slice/mount.service\n");
  Version2("/system.slice/mount.service", Mib(256), 200, 50);
  EXPECT_EQ(FreeMemoryNow(files_), (FreeMemory{256 * kMiB, 106 * kMiB}));
  Version2("/system.slice/mount.service", Mib(256), 256, 0);
  EXPECT_EQ(FreeMemoryNow(files_), (FreeMemory{256 * kMiB, 0}));
  Version2("/system.slice/mount.service", Mib(10'000), 200, 0);
  EXPECT_EQ(FreeMemoryNow(files_), machine_) << "it may take more than there is";
}

TEST_F(FreeMemoryTest, SoDoesOneAboveIt) {
  OwnGroups("0::/pods/a/b\n");
  Version2("/pods/a/b", "max", 100, 0);
  Version2("/pods", Mib(300), 290, 0);
  EXPECT_EQ(FreeMemoryNow(files_), (FreeMemory{300 * kMiB, 10 * kMiB}));
  OwnGroups("0::/../not-seen-from-here\n");
  Version2("", Mib(100), 40, 0);
  EXPECT_EQ(FreeMemoryNow(files_), (FreeMemory{100 * kMiB, 60 * kMiB})) << "of a container";
}

TEST_F(FreeMemoryTest, AndOneOfTheFirstVersion) {
  OwnGroups("7:cpu,cpuacct:/job\n4:memory:/slurm/job_1\n1:name=systemd:/x\n");
  const std::string folder = files_.cgroup_root + "/memory/slurm/job_1";
  Write(folder + "/memory.limit_in_bytes", Mib(128));
  Write(folder + "/memory.usage_in_bytes", Mib(128));
  Write(folder + "/memory.stat", "inactive_file 1\ntotal_inactive_file " + Mib(32) + "\n");
  EXPECT_EQ(FreeMemoryNow(files_), (FreeMemory{128 * kMiB, 32 * kMiB}));
  Write(folder + "/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(FreeMemoryNow(files_), machine_) << "no limit";
}

}  // namespace
}  // namespace forebay
