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

std::string HandMadeFile(const DeltaEnds& ends, std::uint64_t listed) {
  const std::string entries = HandMadeEntries();
  const std::string hidden = Bytes({0, 0, 4}) + "p//x" + Bytes({1, 0, 4}) + "q//x";
  const std::string body = entries + hidden;
  std::string file = "FBDIFF\r\n" + Numbers({1, 136}, 4) + Numbers({136 + body.size()}, 8);
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
}

}  // namespace
}  // namespace forebay
