#include "coordinator/state_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "coordinator/rocksdb_state_store.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

std::unique_ptr<RocksDbStateStore> MustOpen(const std::string& path) {
  Result<std::unique_ptr<RocksDbStateStore>> store = RocksDbStateStore::Open(path);
  if (!store) {
    ADD_FAILURE() << store.error().message;
    return nullptr;
  }
  return std::move(*store);
}

TEST(StateStore, KeepsWhatItAcceptedOverARestart) {
  const TempDir dir;
  {
    const auto store = MustOpen(dir.Path("state"));
    const std::uint64_t fence = *store->Claim();
    StateBatch batch;
    batch.Put("a/1", "one");
    batch.Put("a/2", std::string("t\0wo", 4));
    batch.Put("b", "three");
    ASSERT_TRUE(store->Write(batch, fence).has_value());
    StateBatch removal;
    removal.Delete("a/1");
    ASSERT_TRUE(store->Write(removal, fence).has_value());
  }
  const auto store = MustOpen(dir.Path("state"));
  EXPECT_EQ(*store->Get("a/1"), std::nullopt);
  EXPECT_EQ(*store->Get("b"), "three");
  const auto rows = store->Scan("a/");
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->front().second, std::string("t\0wo", 4));
}

TEST(StateStore, RefusesTheWritesOfAReplacedCoordinatorAsAWhole) {
  const TempDir dir;
  const auto store = MustOpen(dir.Path("state"));
  const std::uint64_t old_fence = *store->Claim();
  const std::uint64_t new_fence = *store->Claim();
  EXPECT_GT(new_fence, old_fence);
  StateBatch batch;
  batch.Put("x", "1");
  batch.Put("y", "2");
  const Status refused = store->Write(batch, old_fence);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_EQ(*store->Get("x"), std::nullopt);
  EXPECT_EQ(*store->Get("y"), std::nullopt);
  EXPECT_TRUE(store->Write(batch, new_fence).has_value());
}

TEST(StateStore, AFenceOutlivesTheProcess) {
  const TempDir dir;
  const std::uint64_t before = *MustOpen(dir.Path("state"))->Claim();
  EXPECT_GT(*MustOpen(dir.Path("state"))->Claim(), before);
}

TEST(StateStore, ASecondCoordinatorIsKeptOut) {
  const TempDir dir;
  const auto first = MustOpen(dir.Path("state"));
  const auto second = RocksDbStateStore::Open(dir.Path("state"));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kInvalid);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos);
  EXPECT_NE(second.error().message.find(dir.Path("state")), std::string::npos);
}

TEST(StateStore, NobodyElseMayLookIntoTheStateDirectory) {
  const TempDir dir;
  const auto store = MustOpen(dir.Path("state"));
  struct stat info{};
  ASSERT_EQ(::stat(dir.Path("state").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(StateStore, DamageIsNamedAndNeverReplacedByAnEmptyState) {
  for (const char* victim : {"CURRENT", "MANIFEST-"}) {
    const TempDir dir;
    {
      const auto store = MustOpen(dir.Path("state"));
      StateBatch batch;
      batch.Put("a", "1");
      ASSERT_TRUE(store->Write(batch, *store->Claim()).has_value());
    }
    int hit = 0;
    for (const auto& file : std::filesystem::directory_iterator(dir.Path("state/db"))) {
      if (!file.path().filename().string().starts_with(victim)) continue;
      std::ofstream(file.path(), std::ios::trunc) << "rubbish";
      ++hit;
    }
    ASSERT_GT(hit, 0);
    const auto opened = RocksDbStateStore::Open(dir.Path("state"));
    ASSERT_FALSE(opened.has_value()) << victim;
    EXPECT_EQ(opened.error().code, Code::kCorrupt);
    EXPECT_NE(opened.error().message.find(dir.Path("state")), std::string::npos);
  }
}

TEST(StateStore, ALostDatabaseFileIsDamageNotAFreshStart) {
  const TempDir dir;
  ASSERT_TRUE(MustOpen(dir.Path("state"))->Claim().has_value());
  std::filesystem::remove(dir.Path("state/db/CURRENT"));
  const auto opened = RocksDbStateStore::Open(dir.Path("state"));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Code::kCorrupt);
}

TEST(StateStore, ACrashWhileTheDatabaseIsMadeIsNoDamage) {
  const TempDir dir;
  std::filesystem::create_directories(dir.Path("state/db.new"));
  std::ofstream(dir.Path("state/db.new/MANIFEST-000001")) << "half";
  EXPECT_NE(MustOpen(dir.Path("state")), nullptr);
}

TEST(StateStore, AFileInPlaceOfTheDirectoryIsRefused) {
  const TempDir dir;
  std::ofstream(dir.Path("state")) << "x";
  const auto opened = RocksDbStateStore::Open(dir.Path("state"));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace forebay
