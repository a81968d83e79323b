#include <future>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/cachenode/reader_rig.h"

namespace forebay {
namespace {

using fakes::GetScript;

/// Replies have room for eight cells, one peer's for four.
class ReplyLimit : public ReaderRig {
 protected:
  ReplyLimit() : ReaderRig({}, 2, kBlock, 8 * kCellBytes) {}

  CheckedRead CellOf(const std::string& key, ReplyRoom::Payer payer) const {
    CheckedRead read = ReadOf(TestObject(key, kBlock), 0, {0, kCellBytes});
    read.payer = payer;
    return read;
  }
  /// Until the block is in the store.
  void Fill(const std::string& key) {
    ASSERT_TRUE(AreRight(Read(CellOf(key, 1)), CellOf(key, 1)));
    ASSERT_TRUE(Eventually([this] { return IsIdle(); }));
  }
};

TEST_F(ReplyLimit, HitsKeepTheirPlaceAsLongAsTheirBytes) {
  Fill("data/a");
  std::vector<Result<Cells>> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(Read(CellOf("data/a", 1)));
    ASSERT_TRUE(AreRight(held.back(), CellOf("data/a", 1)));
  }
  EXPECT_EQ(replies_.taken(), 4 * kCellBytes);
  const std::uint64_t reads = count().reads;
  const Result<Cells> fifth = Read(CellOf("data/a", 1));
  ASSERT_FALSE(fifth.has_value());
  EXPECT_EQ(fifth.error().code, Code::kOverloaded);
  EXPECT_EQ(count().reads, reads) << "what is refused is no read";
  EXPECT_TRUE(AreRight(Read(CellOf("data/a", 2)), CellOf("data/a", 2))) << "others have room";
  held.pop_back();
  EXPECT_TRUE(AreRight(Read(CellOf("data/a", 1)), CellOf("data/a", 1)));
}

TEST_F(ReplyLimit, ReadsThatWaitForTheStoreHaveTheirPlaceAlready) {
  Fill("data/a");
  constexpr int kReaders = 100;
  std::vector<std::future<Result<Cells>>> readers;
  readers.reserve(kReaders);
  for (int i = 0; i < kReaders; ++i) readers.push_back(Start(CellOf("data/a", 1)));
  std::vector<Result<Cells>> answers;
  int refused = 0;
  for (std::future<Result<Cells>>& reader : readers) {
    answers.push_back(reader.get());
    refused += answers.back() ? 0 : 1;
  }
  EXPECT_EQ(refused, kReaders - 4);
  EXPECT_EQ(replies_.refused(), static_cast<std::uint64_t>(refused));
}

TEST_F(ReplyLimit, WhoWaitsForS3TakesNoRoomFromHits) {
  Fill("data/a");
  s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
  std::vector<std::future<Result<Cells>>> waiting;
  waiting.reserve(20);
  for (std::uint64_t i = 0; i < 20; ++i) {
    waiting.push_back(Start(CellOf("data/cold" + std::to_string(i), 1)));
    ASSERT_TRUE(s3_.WaitForHeld(i + 1));
  }
  Settle();
  EXPECT_EQ(replies_.taken(), 0u);
  EXPECT_TRUE(AreRight(Read(CellOf("data/a", 1)), CellOf("data/a", 1)));
  s3_.Release();
  // As they come their bytes are counted, too.
  std::vector<Result<Cells>> answers;
  int refused = 0;
  for (std::future<Result<Cells>>& reader : waiting) {
    answers.push_back(reader.get());
    refused += answers.back() ? 0 : 1;
  }
  EXPECT_EQ(refused, 16);
}

}  // namespace
}  // namespace forebay
