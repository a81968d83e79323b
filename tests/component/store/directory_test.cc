#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

/// Every file below a directory with its bytes, to see that nothing was changed.
std::map<std::string, std::string> Everything(const std::string& directory) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    std::string& bytes = all[entry.path()];
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  return all;
}

class StoreDirectoryTest : public ::testing::Test {
 protected:
  void MakeCache(const Uuid& cluster = TestCluster()) {
    TestStore store(OneDirectory(path_), cluster);
    ASSERT_TRUE(store.open()) << store.error().message;
    ASSERT_TRUE(store.Admit(LinkNumber(1), block_).has_value());
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }

  void ExpectRefused(const BlockStoreOptions& options, const std::string& because,
                     const Uuid& cluster = TestCluster()) {
    const auto before = Everything(dir_.path());
    TestStore store(options, cluster);
    ASSERT_FALSE(store.open());
    EXPECT_EQ(store.error().code, Code::kInvalid);
    EXPECT_NE(store.error().message.find(because), std::string::npos) << store.error().message;
    EXPECT_EQ(Everything(dir_.path()), before) << "nothing may be changed";
  }

  const BlockId block_ = BlockNumber(1, 100'000);
  fakes::TempDir dir_;
  const std::string path_ = dir_ / "cache";
};

TEST_F(StoreDirectoryTest, FilesAreForThisUserAlone) {
  MakeCache();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
    if (entry.path().string().find("/index/") != std::string::npos) continue;
    struct stat found{};
    ASSERT_EQ(::lstat(entry.path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, entry.is_directory() ? 0700U : 0600U) << entry.path();
  }
  struct stat top{};
  ASSERT_EQ(::stat(path_.c_str(), &top), 0);
  EXPECT_EQ(top.st_mode & 0777, 0700U);
}

TEST_F(StoreDirectoryTest, AnotherClustersDirectoryIsRefused) {
  MakeCache();
  const Uuid other = Uuid::Parse("c0000000-0000-4000-8000-000000000002");
  ExpectRefused(OneDirectory(path_), "belongs to cluster", other);
  MakeCache();
}

TEST_F(StoreDirectoryTest, OneForeignDirectoryAmongSeveralChangesNone) {
  MakeCache();
  BlockStoreOptions options = OneDirectory(dir_ / "new");
  options.dirs.push_back({path_, 64ULL << 20});
  ExpectRefused(options, "belongs to cluster", Uuid::Parse("c0000000-0000-4000-8000-000000000002"));
}

TEST_F(StoreDirectoryTest, UnclaimedDirectoryIsClaimedByItsFirstClusterAndKeepsItsBlocks) {
  MakeCache(Uuid());
  {
    TestStore store(OneDirectory(path_));
    ASSERT_TRUE(store.open()) << store.error().message;
    EXPECT_TRUE(store.Serves(block_));
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  ExpectRefused(OneDirectory(path_), "belongs to cluster",
                Uuid::Parse("c0000000-0000-4000-8000-000000000002"));
  TestStore any(OneDirectory(path_), Uuid());
  EXPECT_TRUE(any.open()) << "zero takes any cluster's";
}

TEST_F(StoreDirectoryTest, NewerFormatIsRefused) {
  MakeCache();
  std::ofstream(path_ + "/FOREBAY") << "forebay cache directory\nformat 2\nsomething else\n";
  ExpectRefused(OneDirectory(path_), "format 2");
}

TEST_F(StoreDirectoryTest, DamagedIdentityIsRefused) {
  MakeCache();
  for (const char* text : {"", "hello", "forebay cache directory\nformat 1\ncluster x\n"}) {
    std::ofstream(path_ + "/FOREBAY") << text;
    ExpectRefused(OneDirectory(path_), "damaged file FOREBAY");
  }
}

TEST_F(StoreDirectoryTest, SegmentsWithoutAnIdentityAreNotOurs) {
  MakeCache();
  std::filesystem::remove(path_ + "/FOREBAY");
  ExpectRefused(OneDirectory(path_), "no file FOREBAY");
}

TEST_F(StoreDirectoryTest, DirectoryInUseIsRefusedAndNamed) {
  MakeCache();
  TestStore first(OneDirectory(path_));
  ASSERT_TRUE(first.open());
  TestStore second(OneDirectory(path_));
  ASSERT_FALSE(second.open());
  EXPECT_EQ(second.error().code, Code::kInvalid);
  EXPECT_NE(
      second.error().message.find(path_ + " is in use by process " + std::to_string(::getpid())),
      std::string::npos)
      << second.error().message;
  EXPECT_TRUE(first.Serves(block_));
}

TEST_F(StoreDirectoryTest, FileInItsPlaceIsRefused) {
  std::ofstream(path_) << "a file";
  ExpectRefused(OneDirectory(path_), "is a file");
  ExpectRefused(OneDirectory(path_ + "/below"), path_ + "/below");
}

TEST_F(StoreDirectoryTest, SymbolicLinkInPlaceOfItsFilesIsRefused) {
  MakeCache();
  std::filesystem::rename(path_ + "/FOREBAY", dir_ / "elsewhere");
  std::filesystem::create_symlink(dir_ / "elsewhere", path_ + "/FOREBAY");
  ExpectRefused(OneDirectory(path_), "FOREBAY");
}

TEST_F(StoreDirectoryTest, SymbolicLinkInPlaceOfASegmentIsNeitherReadNorEmptied) {
  MakeCache();
  TestStore store(OneDirectory(path_));
  ASSERT_TRUE(store.open()) << store.error().message;
  const auto segments = SegmentsBelow(path_);
  ASSERT_EQ(segments.size(), 1U);
  const std::string elsewhere = dir_ / "elsewhere";
  std::filesystem::rename(segments[0], elsewhere);
  std::filesystem::create_symlink(elsewhere, segments[0]);
  const auto size = std::filesystem::file_size(elsewhere);
  EXPECT_FALSE(store.Serves(block_)) << "its bytes would be right";
  EXPECT_TRUE(store.EvictLink(LinkNumber(1)).has_value());
  EXPECT_FALSE(std::filesystem::is_symlink(segments[0])) << "the segment is gone";
  EXPECT_EQ(std::filesystem::file_size(elsewhere), size);
}

TEST_F(StoreDirectoryTest, SizesThatCannotBeAreRefused) {
  MakeCache();
  ExpectRefused(OneDirectory(path_, 1ULL << 60), "choose a smaller size");
  ExpectRefused(OneDirectory(path_, 1ULL << 20), "are needed");
  ExpectRefused(BlockStoreOptions(), "cache directories");
}

TEST_F(StoreDirectoryTest, ReadOnlyFileSystemIsRefused) {
  const std::string mount = dir_ / "mount";
  std::filesystem::create_directory(mount);
  ASSERT_EQ(::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=64m"), 0) << "needs root";
  {
    TestStore store(OneDirectory(mount + "/cache", 32ULL << 20));
    EXPECT_TRUE(store.open());
  }
  EXPECT_EQ(::mount("tmpfs", mount.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
  ExpectRefused(OneDirectory(mount + "/cache", 32ULL << 20), "Read-only file system");
  ExpectRefused(OneDirectory(mount + "/new", 32ULL << 20), "Read-only file system");
  EXPECT_EQ(::umount(mount.c_str()), 0);
}

TEST_F(StoreDirectoryTest, DefaultCapacityIsFourFifthsOfTheFileSystem) {
  const std::string mount = dir_ / "mount";
  std::filesystem::create_directory(mount);
  ASSERT_EQ(::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=50m"), 0) << "needs root";
  {
    TestStore store(OneDirectory(mount + "/cache", 0));
    EXPECT_TRUE(store.open());
    if (store.open()) EXPECT_EQ(store->Disks()[0].capacity_bytes, 40ULL << 20);
  }
  EXPECT_EQ(::umount(mount.c_str()), 0);
}

}  // namespace
}  // namespace forebay
