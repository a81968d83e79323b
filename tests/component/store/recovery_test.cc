#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "tests/component/store/store_fixture.h"

namespace forebay {
namespace {

constexpr std::uint64_t kBlocks = 300;

BlockId Sample(std::uint64_t number) {
  return BlockNumber(number, static_cast<std::uint32_t>(1 + number * 997));
}

class StoreRecoveryTest : public ::testing::Test {
 protected:
  StoreRecoveryTest() {
    TestStore store(options_);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      EXPECT_TRUE(store.Admit(LinkNumber(i % 3), Sample(i)).has_value());
    }
    used_ = store->Disks()[0].used_bytes;
    EXPECT_TRUE(store->Close(Patience()).has_value());
  }

  std::string index() const { return dir_ / "cache/index"; }

  void ExpectAllServed(const std::string& why) {
    TestStore store(options_);
    ASSERT_TRUE(store.open()) << why << ": " << store.error().message;
    EXPECT_EQ(store->counters().recovered_blocks.load(), kBlocks) << why;
    EXPECT_EQ(store->BlockCount(), kBlocks) << why;
    EXPECT_EQ(store->Disks()[0].used_bytes, used_) << why;
    EXPECT_EQ(store->UsageByLink().size(), 3U) << why;
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      ASSERT_TRUE(store.Serves(Sample(i))) << why << ", block " << i;
    }
    // And it goes on taking blocks, in segments that did not exist before.
    EXPECT_TRUE(store.Admit(LinkNumber(0), Sample(kBlocks)).has_value()) << why;
    EXPECT_TRUE(store.Serves(Sample(kBlocks))) << why;
    EXPECT_TRUE(store.Evict({Sample(kBlocks)}).has_value()) << why;
    EXPECT_TRUE(store->Close(Patience()).has_value()) << why;
  }

  fakes::TempDir dir_;
  const BlockStoreOptions options_ = OneDirectory(dir_ / "cache");
  std::uint64_t used_ = 0;
};

TEST_F(StoreRecoveryTest, RestartServesEveryBlock) { ExpectAllServed("after Close"); }

TEST_F(StoreRecoveryTest, DeletedIndexIsRebuiltFromTheSegments) {
  std::filesystem::remove_all(index());
  ExpectAllServed("the folder is gone");
}

TEST_F(StoreRecoveryTest, EveryDamagedFileOfTheIndexIsSurvived) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(index())) {
    names.push_back(file.path().filename());
  }
  std::size_t damaged = 0;
  for (const std::string& name : names) {
    const std::string path = index() + "/" + name;
    if (name == "LOCK" || name == "LOG" || !std::filesystem::exists(path) ||
        std::filesystem::file_size(path) == 0) {
      continue;
    }
    ++damaged;
    std::filesystem::remove(path);
    ExpectAllServed(name + " deleted");
    if (!std::filesystem::exists(path)) continue;  // the rebuilt index has other names
    std::ofstream(path, std::ios::binary | std::ios::in).write("\xFF\xFF\xFF\xFF\xFF\xFF", 6);
    ExpectAllServed(name + " overwritten");
  }
  EXPECT_GE(damaged, 2U);
}

TEST_F(StoreRecoveryTest, FlippedByteInATableOfTheIndexIsNoticed) {
  std::size_t tables = 0;
  for (const auto& file : std::filesystem::directory_iterator(index())) {
    if (file.path().extension() != ".sst") continue;
    ++tables;
    std::fstream table(file.path(), std::ios::binary | std::ios::in | std::ios::out);
    table.seekg(2000);
    const char was = static_cast<char>(table.get());
    table.seekp(2000);
    table.put(static_cast<char>(was ^ 0x10));
  }
  ASSERT_GE(tables, 1U);
  ExpectAllServed("a flipped byte");
}

TEST_F(StoreRecoveryTest, IndexOfAnotherDirectoryIsNotBelieved) {
  TestStore other(OneDirectory(dir_ / "other"));
  ASSERT_TRUE(other.Admit(LinkNumber(0), Sample(7777)).has_value());
  ASSERT_TRUE(other->Close(Patience()).has_value());
  std::filesystem::remove_all(index());
  std::filesystem::copy(dir_ / "other/index", index(), std::filesystem::copy_options::recursive);
  ExpectAllServed("a copied index");
}

TEST_F(StoreRecoveryTest, BlocksOfAMissingSegmentAreDroppedAndCounted) {
  const auto segments = SegmentsBelow(dir_ / "cache");
  ASSERT_GT(segments.size(), 3U);
  std::filesystem::remove(segments[1]);
  TestStore store(options_);
  ASSERT_TRUE(store.open());
  const std::uint64_t dropped = store->counters().dropped_at_recovery.load();
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(store->BlockCount(), kBlocks - dropped);
  std::uint64_t served = 0;
  for (std::uint64_t i = 0; i < kBlocks; ++i) served += store.Serves(Sample(i)) ? 1 : 0;
  EXPECT_EQ(served, kBlocks - dropped);
  EXPECT_EQ(store->counters().checksum_failures.load(), 0U);
}

TEST_F(StoreRecoveryTest, TornTailIsDropped) {
  for (const bool with_index : {true, false}) {
    const auto segments = SegmentsBelow(dir_ / "cache");
    const auto& torn = with_index ? segments.front() : segments.back();
    std::filesystem::resize_file(torn, std::filesystem::file_size(torn) - 1);
    if (!with_index) std::filesystem::remove_all(index());
    TestStore store(options_);
    ASSERT_TRUE(store.open());
    const std::uint64_t left = store->BlockCount();
    std::uint64_t served = 0;
    for (std::uint64_t i = 0; i < kBlocks; ++i) served += store.Serves(Sample(i)) ? 1 : 0;
    EXPECT_EQ(served, left);
    EXPECT_EQ(served, with_index ? kBlocks - 1 : kBlocks - 2);
    EXPECT_EQ(store->counters().checksum_failures.load(), 0U) << "found without reading the data";
    EXPECT_TRUE(store->Close(Patience()).has_value());
  }
}

TEST_F(StoreRecoveryTest, DamagedHeaderHidesOnlyItsOwnBlockFromARebuild) {
  const auto segments = SegmentsBelow(dir_ / "cache");
  {
    std::fstream segment(segments.front(), std::ios::binary | std::ios::in | std::ios::out);
    segment.seekp(8);
    segment.put('\x7F');
  }
  std::filesystem::remove_all(index());
  TestStore store(options_);
  ASSERT_TRUE(store.open());
  EXPECT_EQ(store->BlockCount(), kBlocks - 1);
}

TEST_F(StoreRecoveryTest, EvictedBlocksStayGoneAfterARestartAndARebuild) {
  {
    TestStore store(options_);
    ASSERT_TRUE(store.Evict({Sample(10), Sample(20), Sample(30)}).has_value());
    ASSERT_TRUE(store->Close(Patience()).has_value());
  }
  for (const bool rebuild : {false, true}) {
    if (rebuild) std::filesystem::remove_all(index());
    TestStore store(options_);
    EXPECT_EQ(store->BlockCount(), kBlocks - 3);
    EXPECT_FALSE(store.Serves(Sample(20)));
    EXPECT_TRUE(store->Close(Patience()).has_value());
  }
}

TEST_F(StoreRecoveryTest, SpaceThatNoIndexRowOwnsIsGivenBack) {
  const auto segment = SegmentsBelow(dir_ / "cache").front();
  const std::uint64_t size = std::filesystem::file_size(segment);
  {
    // As a kill between the record's write and the index commit leaves it.
    const int fd = ::open(segment.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const std::string junk(1 << 20, 'x');
    EXPECT_EQ(
        ::pwrite(fd, junk.data(), junk.size(), static_cast<off_t>((size + 4095) / 4096 * 4096)),
        static_cast<ssize_t>(junk.size()));
    ::close(fd);
  }
  const auto allocated = [&] {
    struct stat found{};
    EXPECT_EQ(::stat(segment.c_str(), &found), 0);
    return static_cast<std::uint64_t>(found.st_blocks) * 512;
  };
  const std::uint64_t before = allocated();
  ExpectAllServed("junk behind the last record");
  EXPECT_LE(allocated() + (1 << 20), before + 65536);
}

TEST_F(StoreRecoveryTest, SegmentNumbersAreNeverUsedAgain) {
  const auto before = SegmentsBelow(dir_ / "cache");
  TestStore store(options_);
  for (std::uint8_t link = 0; link < 3; ++link) {
    ASSERT_TRUE(store.EvictLink(LinkNumber(link)).has_value());
  }
  EXPECT_TRUE(SegmentsBelow(dir_ / "cache").empty()) << "empty segments are unlinked";
  EXPECT_EQ(store->Disks()[0].used_bytes, 0U);
  ASSERT_TRUE(store.Admit(LinkNumber(0), Sample(1)).has_value());
  const auto after = SegmentsBelow(dir_ / "cache");
  ASSERT_EQ(after.size(), 1U);
  for (const auto& old : before) EXPECT_LT(old.filename(), after[0].filename());
}

}  // namespace
}  // namespace forebay
