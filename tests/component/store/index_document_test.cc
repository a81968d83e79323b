#include <rocksdb/db.h>

#include <memory>

#include "tests/component/store/store_fixture.h"

// Writes index rows as docs/STORE_FORMAT.md says, with nothing of ours that encodes one.
namespace forebay {
namespace {

std::string Big(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::string KeyByHand(char kind, const BlockId& block) {
  return kind + Big(block.version.high, 8) + Big(block.version.low, 8) + Big(block.offset, 8) +
         Big(block.length, 4);
}

/// A cache of four small blocks in one segment, closed; then its index in the test's hands.
class StoreIndexDocument : public ::testing::Test {
 protected:
  StoreIndexDocument() {
    TestStore store(OneDirectory(dir_ / "cache"));
    for (std::uint64_t i = 0; i < 4; ++i)
      EXPECT_TRUE(store.Admit(LinkNumber(1), Block(i)).has_value());
    EXPECT_TRUE(store->Close(Patience()).has_value());
  }

  /// Each lies in a unit of its own, in the order of its admission.
  static BlockId Block(std::uint64_t i) { return BlockNumber(i, 1000); }

  /// Opens the closed cache's index.
  std::unique_ptr<rocksdb::DB> Index() {
    rocksdb::DB* db = nullptr;
    const auto status = rocksdb::DB::Open(rocksdb::Options(), dir_ / "cache/index", &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }

  fakes::TempDir dir_;
};

TEST_F(StoreIndexDocument, RowsAreAsTheDocumentSays) {
  const auto db = Index();
  std::string value;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(db->Get({}, KeyByHand('b', Block(i)), &value).ok()) << i;
    EXPECT_EQ(value, std::string("\1\0\0\0\0", 5) + static_cast<char>(i) + std::string(3, '\0'));
  }
  ASSERT_TRUE(db->Get({}, "m/next_segment", &value).ok());
  EXPECT_EQ(value, std::string("\1\0\0\0", 4));
  ASSERT_TRUE(db->Get({}, "m/complete", &value).ok());
  EXPECT_EQ(value.size(), 36U) << "a uuid as text";
}

TEST_F(StoreIndexDocument, RowThatIsUnknownOrPointsElsewhereIsAMiss) {
  {
    const auto db = Index();
    const std::string first(8, '\0');  // segment 0, place 0
    const rocksdb::WriteOptions now;
    ASSERT_TRUE(db->Put(now, KeyByHand('b', Block(1)), '\2' + first).ok()) << "another format";
    ASSERT_TRUE(db->Put(now, KeyByHand('b', Block(2)), '\1' + first).ok()) << "another's record";
    ASSERT_TRUE(db->Put(now, KeyByHand('b', Block(3)), '\1' + std::string(8, '\xFF')).ok());
    ASSERT_TRUE(db->Put(now, "b", "\1").ok()) << "no block at all";
    ASSERT_TRUE(db->Put(now, "zzz", "from the future").ok());
  }
  TestStore store(OneDirectory(dir_ / "cache"));
  ASSERT_TRUE(store.open()) << store.error().message;
  EXPECT_TRUE(store.Serves(Block(0)));
  for (std::uint64_t i = 1; i < 4; ++i) EXPECT_FALSE(store.Serves(Block(i))) << i;
  for (std::uint64_t i = 1; i < 4; ++i) {
    ASSERT_TRUE(store.Admit(LinkNumber(1), Block(i)).has_value());
    EXPECT_TRUE(store.Serves(Block(i))) << "fetched again";
  }
}

TEST_F(StoreIndexDocument, PinRowPinsItsBlock) {
  {
    const auto db = Index();
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), KeyByHand('p', Block(1)), "\1").ok());
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), KeyByHand('p', Block(2)), "\2").ok());
  }
  TestStore store(OneDirectory(dir_ / "cache"));
  ASSERT_TRUE(store.open()) << store.error().message;
  EXPECT_EQ(store->UsageByLink().at(LinkNumber(1)).pinned_bytes, Block(1).length);
  const Result<Evicted> evicted = store.Evict({Block(0), Block(1), Block(2), Block(3)});
  ASSERT_TRUE(evicted.has_value());
  EXPECT_EQ(evicted->blocks, 3U) << "a pin of an unknown format is none";
  EXPECT_TRUE(store.Serves(Block(1)));
}

}  // namespace
}  // namespace forebay
