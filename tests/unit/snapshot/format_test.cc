// A snapshot written by hand from docs/SNAPSHOT_FORMAT.md, without the builder and without the
// structs of snapshot_format.h: what the document says is what the reader reads.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <fstream>
#include <initializer_list>
#include <string>

#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

void Put(std::string& out, std::size_t bytes, std::uint64_t value) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::string Row(std::uint64_t nodeid, std::uint64_t packed, std::uint64_t mtime, int etag_byte) {
  std::string row;
  Put(row, 8, nodeid);
  Put(row, 8, packed);
  Put(row, 4, mtime);
  return row.append(16, static_cast<char>(etag_byte));
}

std::string Numbers(std::initializer_list<std::uint64_t> values, std::size_t bytes) {
  std::string text;
  for (const std::uint64_t value : values) Put(text, bytes, value);
  return text;
}

// s3://b/p/a.bin: 5 bytes, ETag 11…11-3, one hidden key.
std::string HandMadeFile() {
  const std::uint64_t hash = XXH3_64bits_withSeed("a.bin", 5, 0);
  const std::uint64_t slot = hash >= (1ULL << 63) ? 1 : 0;  // floor(hash * 2 / 2^64)
  std::string tags(2, '\0');
  tags[slot] = static_cast<char>((hash & 0xFF) == 0 ? 1 : hash & 0xFF);
  const std::string sections[11] = {
      "http://hbp/",
      Numbers({0}, 4) + Numbers({0, 0}, 2) + Numbers({0, 0, 1, 1, 1}, 4),
      "",
      Numbers({0}, 4),
      std::string("\0\0\0\x05"
                  "a.bin",
                  9),
      Row(1, 1ULL << 44, 99, 0) + Row(5'000, 5 | 3ULL << 48, 98, 0x11),
      tags,
      slot == 0 ? Numbers({1, 0}, 4) : Numbers({0, 1}, 4),
      Numbers({1, 0}, 4),
      "",
      Numbers({1}, 1) + Numbers({4}, 2) + "p//x"};
  std::string places;
  std::string body;  // from byte 456 on
  const auto pad = [&] {
    while ((456 + body.size()) % 64 != 0) body.push_back('\0');
  };
  for (const std::string& section : sections) {
    pad();
    Put(places, 8, 456 + body.size());
    Put(places, 8, section.size());
    body += section;
  }
  pad();
  const std::uint64_t cells = 456 + body.size();
  Put(places, 8, cells);
  Put(places, 8, 8);
  std::string header = "FBSNAP\r\n" + Numbers({1, 456}, 4) + Numbers({cells + 8}, 8);
  header += std::string(16, '\x22') + std::string(16, '\x33');
  header += Numbers({7, 4 << 20, 1'750'000'000}, 8) + Numbers({0, 8, 1, 2, 2, 1, 2, 0}, 4);
  header += Numbers({5, 0}, 8) + Numbers({0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 8);
  header += places;
  Put(header, 8, XXH3_64bits(header.data(), header.size()));
  std::string file = header + body;
  Put(file, 8, XXH3_64bits(file.data(), file.size()));
  return file;
}

TEST(SnapshotFormat, IsWhatTheDocumentSays) {
  const TempDir dir;
  std::ofstream(dir.Path("s"), std::ios::binary) << HandMadeFile();
  const auto opened = Snapshot::Open(dir.Path("s"));
  ASSERT_TRUE(opened) << opened.error().message;
  const Snapshot& snapshot = **opened;
  EXPECT_TRUE(snapshot.VerifyAll());
  EXPECT_EQ(snapshot.id().link.ToString(), "22222222-2222-2222-2222-222222222222");
  EXPECT_EQ(snapshot.id().generation, 7u);
  EXPECT_EQ(snapshot.domain().ToString(), "33333333-3333-3333-3333-333333333333");
  EXPECT_EQ(snapshot.source(), (SnapshotSource{"http://h", "b", "p/"}));
  EXPECT_EQ(snapshot.block_bytes(), 4u << 20);
  EXPECT_EQ(snapshot.listed_unix_s(), 1'750'000'000u);
  EXPECT_EQ(snapshot.totals().objects, 1u);
  EXPECT_EQ(snapshot.totals().bytes, 5u);
  const auto row = snapshot.Lookup(kRootDirectory, "a.bin");
  ASSERT_TRUE(row);
  EXPECT_EQ(*row, (SnapshotRow{.nodeid = 5'000, .size = 5, .index = 1, .mtime_unix_s = 98}));
  EXPECT_EQ(snapshot.FindNodeid(5'000), row);
  EXPECT_EQ(snapshot.EtagOf(*row), std::string(32, '1') + "-3");
  EXPECT_EQ(snapshot.KeyOf(*row), "p/a.bin");
  EXPECT_EQ(snapshot.RowAt(0)->mtime_unix_s, 99u);
  EXPECT_EQ(NamesIn(snapshot, kRootDirectory), std::vector<std::string>{"a.bin"});
  EXPECT_TRUE(snapshot.ForEachHidden([](std::string_view key, HiddenReason reason) {
    EXPECT_EQ(key, "p//x");
    EXPECT_EQ(reason, HiddenReason::kEmptyComponent);
    return true;
  }));
}

}  // namespace
}  // namespace forebay
