// A difference written by hand from docs/SNAPSHOT_FORMAT.md, without the structs of delta_format.h.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <initializer_list>
#include <string>

#include "common/base/files.h"
#include "common/snapshot/delta.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

std::string Numbers(std::initializer_list<std::uint64_t> values, std::size_t bytes) {
  std::string text;
  for (const std::uint64_t value : values) {
    for (std::size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  }
  return text;
}

std::string Bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text.push_back(static_cast<char>(value));
  return text;
}

// From {d/a, d/b, d/gone/x, p//x hidden} to {d/a, d/b of 300 bytes, d/c, e/ empty, q//x hidden}.
std::string HandMadeEntries() {
  std::string text;
  text += Bytes({1 | 32, 0, 3}) + "d/b" + Bytes({0xAC, 0x02}) + Numbers({1'700'000'009}, 4) +
          std::string(16, '\x11') + Bytes({3});  // a file: 300 bytes, ETag 11…11-3
  text += Bytes({1 | 8 | 16, 2, 1}) + "c" + Bytes({5}) + Numbers({1'700'000'000}, 4) + Bytes({3}) +
          "tag";                                                     // archived, opaque
  text += Bytes({0, 2, 4}) + "gone";                                 // with d/gone/x
  text += Bytes({2 | 4, 0, 1}) + "e" + Numbers({1'700'000'001}, 4);  // an empty folder
  return text;
}

std::string HandMadeFile(const DeltaEnds& ends, std::uint64_t listed, std::uint64_t format = 1,
                         const std::string& entries = HandMadeEntries(),
                         const std::string& hidden = Bytes({0, 0, 4}) + "p//x" + Bytes({1, 0, 4}) +
                                                     "q//x") {
  const std::string body = entries + hidden;
  std::string file = "FBDIFF\r\n" + Numbers({format, 136}, 4) + Numbers({136 + body.size()}, 8);
  file.append(reinterpret_cast<const char*>(ends.link.bytes.data()), 16);
  file += Numbers({7, 9, ends.before_digest.high, ends.before_digest.low, ends.after_digest.high,
                   ends.after_digest.low, listed, 4 << 20, entries.size(), hidden.size(),
                   XXH3_64bits(body.data(), body.size())},
                  8);
  file += Numbers({XXH3_64bits(file.data(), file.size())}, 8);
  return file + body;
}

TEST(DeltaFormat, IsWhatTheDocumentSays) {
  const TempDir dir;
  SnapshotOptions options = TestOptions();
  FinishedSnapshot finished;
  const auto before =
      Build(options, {{.key = "d/a"}, {.key = "d/b"}, {.key = "d/gone/x"}, {.key = "p//x"}},
            dir.Path("before"), &finished);
  ASSERT_NE(before, nullptr);
  DeltaEnds ends{.link = options.id.link,
                 .before = 7,
                 .after = 9,
                 .before_digest = finished.digest,
                 .after_digest = {}};
  options.id.generation = 9;
  options.listed_unix_s += 60;
  options.previous = before;
  const std::string parts = std::string(32, '1') + "-3";
  const auto after =
      Build(options,
            {{.key = "d/a"},
             {.key = "d/b", .size = 300, .etag = parts, .mtime = 1'700'000'009},
             {.key = "d/c", .size = 5, .etag = "tag", .mtime = 1'700'000'000, .archived = true},
             {.key = "e/", .size = 0, .mtime = 1'700'000'001},
             {.key = "q//x"}},
            dir.Path("after"), &finished);
  ASSERT_NE(after, nullptr);
  ends.after_digest = finished.digest;

  const std::string by_hand = HandMadeFile(ends, options.listed_unix_s);
  const auto merged = WriteFromDelta(before, by_hand, ends, dir.Path("merged"));
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(ReadWholeFile(dir.Path("merged")).value(), ReadWholeFile(dir.Path("after")).value());
  // And the writer writes it so.
  ASSERT_TRUE(WriteDelta(*before, *after, ends, 10'000, dir.Path("delta")));
  EXPECT_EQ(ReadWholeFile(dir.Path("delta")).value(), by_hand);
  const std::string unknown = HandMadeFile(ends, options.listed_unix_s, 3);
  const auto refused = WriteFromDelta(before, unknown, ends, dir.Path("merged"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("has format 3"), std::string::npos);
}

class DeltaLineFormat : public testing::Test {
 protected:
  void SetUp() override {
    SnapshotOptions options = TestOptions();
    FinishedSnapshot finished;
    before_ = Build(options,
                    {{.key = "a", .lines = {{.place = 2, .json = "{2}"}}},
                     {.key = "b", .lines = {{.place = 1, .json = "{1}"}}},
                     {.key = "c", .lines = {{.place = 3, .json = "{3}"}}}},
                    dir_.Path("before"), &finished);
    ASSERT_NE(before_, nullptr);
    ends_ = {.link = options.id.link,
             .before = 7,
             .after = 9,
             .before_digest = finished.digest,
             .after_digest = {}};
    options.id.generation = 9;
    options.previous = before_;
    listed_ = options.listed_unix_s;
    after_ =
        Build(options,
              {{.key = "a", .lines = {{.place = 2, .json = "{2}"}}},
               {.key = "b", .lines = {{.place = 1, .json = "{one}"}, {.place = 4, .json = "{4}"}}},
               {.key = "c", .lines = {{.place = 5, .json = "{3}"}}},
               {.key = "d", .lines = {{.place = 3, .json = "{}"}, {.place = 9, .json = "{9}"}}}},
              dir_.Path("after"), &finished);
    ASSERT_NE(after_, nullptr);
    ends_.after_digest = finished.digest;
  }
  // Before: {1} at 0, {2} at 19, {3} at 38; 57 bytes. After: {one} {2} {} {4} {3} {9}.
  static std::string File(int bits, std::initializer_list<int> lines, const std::string& name) {
    return Bytes({bits, 0, 1}) + name + Bytes({1}) + Numbers({1'700'000'000}, 4) +
           "\xd4\x1d\x8c\xd9\x8f" + std::string(1, '\0') +
           "\xb2\x04\xe9\x80\x09\x98\xec\xf8\x42\x7e" + Bytes(lines);
  }
  static std::string Lines() {
    return File(1 | 128, {2, 19, 0, 5}, "b") + "{one}" + Bytes({38, 1, 3}) + "{4}" +
           File(1 | 128, {2, 38, 0, 2}, "d") + "{}" + Bytes({57, 0, 3}) + "{9}";
  }
  Result<FinishedSnapshot> Merge(const std::string& entries, std::uint64_t format = 2) {
    return WriteFromDelta(before_, HandMadeFile(ends_, listed_, format, entries, ""), ends_,
                          dir_.Path("merged"));
  }
  static bool IsDamaged(const Result<FinishedSnapshot>& merged) {
    return !merged && merged.error().message.find("is damaged") != std::string::npos;
  }

  TempDir dir_;
  std::shared_ptr<const Snapshot> before_;
  std::shared_ptr<const Snapshot> after_;
  DeltaEnds ends_;
  std::uint64_t listed_ = 0;
};

TEST_F(DeltaLineFormat, IsWhatTheDocumentSays) {
  const auto merged = Merge(Lines());
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(ReadWholeFile(dir_.Path("merged")).value(), ReadWholeFile(dir_.Path("after")).value());
  ASSERT_TRUE(WriteDelta(*before_, *after_, ends_, 10'000, dir_.Path("delta")));
  EXPECT_EQ(ReadWholeFile(dir_.Path("delta")).value(),
            HandMadeFile(ends_, listed_, 2, Lines(), ""));
}

TEST_F(DeltaLineFormat, RefusesWhatNoWriterWrites) {
  EXPECT_TRUE(IsDamaged(Merge(Lines(), 1))) << "the first format has no lines";
  EXPECT_TRUE(IsDamaged(Merge(File(1 | 128, {0}, "b")))) << "none";
  EXPECT_TRUE(IsDamaged(Merge(File(1 | 128, {2, 0, 0, 1}, "b") + "x"))) << "fewer than it says";
  EXPECT_TRUE(IsDamaged(Merge(File(1 | 128, {1, 0, 0, 9}, "b") + "x"))) << "shorter than it says";
  EXPECT_TRUE(IsDamaged(Merge(File(1 | 128, {2, 0, 1, 0, 0, 0, 0}, "b")))) << "not in their order";
  EXPECT_TRUE(IsDamaged(Merge(File(1 | 128, {2, 0, 1, 0, 0, 1, 0}, "b")))) << "twice";
  EXPECT_TRUE(IsDamaged(Merge(File(1 | 128, {1, 0, 0xFF, 0xFF, 0xFF, 7, 0}, "b"))))
      << "a number that is the line's itself";
  std::string many = File(1 | 128, {0x81, 0x80, 0x40}, "b");
  for (int i = 0; i <= 1 << 20; ++i) {
    many += Bytes({0, 0x80 | (i & 0x7F), 0x80 | (i >> 7 & 0x7F), i >> 14, 0});
  }
  EXPECT_TRUE(IsDamaged(Merge(many))) << "too many";
  EXPECT_TRUE(IsDamaged(Merge(File(1 | 128, {1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0, 0}, "b"))))
      << "behind what a place can be";
  EXPECT_TRUE(IsDamaged(Merge(Bytes({128, 0, 1}) + "b" + Bytes({1, 0, 0, 0}))))
      << "of what is gone";
  EXPECT_TRUE(IsDamaged(Merge(Bytes({2 | 128, 0, 1}) + "b" + Bytes({1, 0, 0, 0}))))
      << "of a folder";
}

}  // namespace
}  // namespace forebay
