#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <random>

#include "common/snapshot/snapshot_format.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A snapshot with something in every section.
std::string SampleBytes(const TempDir& dir) {
  std::vector<TestObject> objects;
  for (int i = 0; i < 400; ++i) {
    objects.push_back({.key = "d" + std::to_string(i % 20) + "/e" + std::to_string(i % 3) + "/" +
                              std::to_string(i) + ".bin",
                       .etag = i % 4 == 0 ? "opaque" + std::to_string(i) : std::string(32, 'a')});
    if (i % 3 == 0) objects.back().posix = PosixAttributes{.mode = 0640, .uid = 1};
    const auto place = static_cast<std::uint64_t>(1000 - i);
    if (i % 5 == 0) objects.back().lines = {{.place = place, .json = "{\"a\":1}"}};
    if (i % 50 == 0) objects.back().lines.push_back({.place = place + 5000, .json = "{}"});
    if (i % 10 == 0) objects.push_back({.key = "bad//" + std::to_string(i)});
  }
  EXPECT_NE(Build(TestOptions(), objects, dir.Path("sample")), nullptr);
  return ReadFile(dir.Path("sample"));
}

void SignHeader(std::string& bytes) {
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), offsetof(SnapshotHeader, checksum));
  std::memcpy(bytes.data() + offsetof(SnapshotHeader, checksum), &checksum, sizeof checksum);
}

// Calls everything; that it returns, and reads nothing outside, is what the sanitizers check.
void UseAll(const Snapshot& snapshot) {
  const std::uint32_t rows = std::min<std::uint32_t>(snapshot.rows(), 700);
  for (std::uint32_t i = 0; i < rows; ++i) {
    const auto row = snapshot.RowAt(i);
    if (!row) continue;
    snapshot.PathOf(*row);
    snapshot.EtagOf(*row);
    snapshot.VersionOf(*row);
    snapshot.PosixOf(*row);
    snapshot.LinesOf(*row);
    snapshot.FindNodeid(row->nodeid);
    snapshot.Lookup(snapshot.ParentOf(*row), snapshot.NameOf(*row));
  }
  const std::uint32_t directories = std::min<std::uint32_t>(snapshot.directories(), 100);
  for (std::uint32_t d = 0; d < directories; ++d) {
    DirectoryCursor cursor = snapshot.ReadDirectory(d);
    for (int i = 0; i < 1'000 && cursor.Next(); ++i) snapshot.Lookup(d, cursor.name());
  }
  snapshot.FindNodeid(123'456'789);
  snapshot.Resolve("d1/e1/1.bin");
  int left = 2'000;
  const Status files = snapshot.ForEachFile(
      kRootDirectory, [&](const SnapshotRow&, std::string_view) { return --left > 0; });
  EXPECT_TRUE(files || files.error().code == Code::kCorrupt);
  left = 2'000;
  const Status hidden =
      snapshot.ForEachHidden([&](std::string_view, HiddenReason) { return --left > 0; });
  EXPECT_TRUE(hidden || hidden.error().code == Code::kCorrupt);
  left = 2'000;
  const Status lines =
      snapshot.ForEachLine([&](const SnapshotRow&, std::string_view) { return --left > 0; });
  EXPECT_TRUE(lines || lines.error().code == Code::kCorrupt);
}

TEST(SnapshotOpen, RefusesEveryTruncation) {
  const TempDir dir;
  const std::string bytes = SampleBytes(dir);
  for (std::size_t size = 0; size < bytes.size(); size += size < 1'000 ? 7 : 211) {
    WriteFile(dir.Path("s"), std::string_view(bytes).substr(0, size));
    const auto opened = Snapshot::Open(dir.Path("s"));
    ASSERT_FALSE(opened) << size;
    EXPECT_EQ(opened.error().code, Code::kCorrupt) << size;
  }
  WriteFile(dir.Path("s"), bytes + "x");
  EXPECT_EQ(Snapshot::Open(dir.Path("s")).error().code, Code::kCorrupt);
  WriteFile(dir.Path("s"), bytes);
  EXPECT_TRUE(Snapshot::Open(dir.Path("s")));
}

TEST(SnapshotOpen, RefusesOrDetectsEveryFlippedByte) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempDir dir;
  const std::string bytes = SampleBytes(dir);
  for (std::size_t i = 0; i < 1'500; ++i) {
    // Every byte of the header, then anywhere.
    const std::size_t at = i < sizeof(SnapshotHeader) ? i : random() % bytes.size();
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(static_cast<unsigned char>(flipped[at]) ^ (1 + random() % 255));
    WriteFile(dir.Path("s"), flipped);
    const auto opened = Snapshot::Open(dir.Path("s"));
    if (!opened) {
      EXPECT_EQ(opened.error().code, Code::kCorrupt);
      continue;
    }
    const Status verified = (*opened)->VerifyAll();
    ASSERT_FALSE(verified) << "byte " << at;
    EXPECT_EQ(verified.error().code, Code::kCorrupt);
    UseAll(**opened);
  }
}

// Worse than chance: the header's checksum is right and many bytes are wrong.
TEST(Snapshot, SurvivesAForgedFile) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempDir dir;
  const std::string bytes = SampleBytes(dir);
  int opened_files = 0;
  for (int round = 0; round < 800; ++round) {
    std::string forged = bytes;
    const std::size_t changes = 1 + random() % 40;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % (round % 4 == 0 ? sizeof(SnapshotHeader) : forged.size());
      forged[at] = static_cast<char>(random() % 3 == 0 ? 0xFF : random());
      if (round % 4 == 0 && i > 2) break;
    }
    if (round % 4 != 0) forged.replace(0, sizeof(SnapshotHeader), bytes, 0, sizeof(SnapshotHeader));
    SignHeader(forged);
    WriteFile(dir.Path("s"), forged);
    const auto opened = Snapshot::Open(dir.Path("s"));
    if (!opened) continue;
    ++opened_files;
    UseAll(**opened);
  }
  EXPECT_GT(opened_files, 400);
}

// Thirty levels, each of two directories that hold the same two below: 2^30 ways to the one file.
TEST(Snapshot, EntersADirectoryOfAForgedMazeOnce) {
  constexpr std::size_t kLevels = 30;
  const TempDir dir;
  std::vector<TestObject> objects;
  std::string path;
  for (std::size_t i = 0; i < kLevels; ++i) {
    objects.push_back({.key = path + "b/", .size = 0});
    path += "a/";
  }
  objects.push_back({.key = path + "x"});
  const auto honest = Build(TestOptions(), objects, dir.Path("honest"));
  ASSERT_NE(honest, nullptr);
  std::string bytes = ReadFile(dir.Path("honest"));
  SnapshotHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto place = [&](const std::string& directory) {
    return bytes.data() + header.section(SnapshotSection::kDirectories).offset +
           honest->Resolve(directory)->directory * sizeof(SnapshotDirectoryRecord);
  };
  for (path.clear(); path.size() < 2 * kLevels; path += "a/") {
    SnapshotDirectoryRecord a;
    SnapshotDirectoryRecord b;
    std::memcpy(&a, place(path + "a"), sizeof a);
    std::memcpy(&b, place(path + "b"), sizeof b);
    b.first_row = a.first_row;
    b.row_count = a.row_count;
    std::memcpy(place(path + "b"), &b, sizeof b);
  }
  WriteFile(dir.Path("s"), bytes);
  const auto opened = Snapshot::Open(dir.Path("s"));
  ASSERT_TRUE(opened);
  int visits = 0;
  const Status walked = (*opened)->ForEachFile(
      kRootDirectory, [&](const SnapshotRow&, std::string_view) { return ++visits < 1'000; });
  EXPECT_FALSE(walked);
  EXPECT_LT(visits, 10);
}

// The root is its own parent: only its number says that it is no entry of itself.
TEST(Snapshot, NeverEntersAForgedRootThatHoldsItself) {
  const TempDir dir;
  ASSERT_NE(Build(TestOptions(), {{.key = "a"}}, dir.Path("honest")), nullptr);
  std::string bytes = ReadFile(dir.Path("honest"));
  SnapshotHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  char* const place = bytes.data() + header.section(SnapshotSection::kDirectories).offset;
  SnapshotDirectoryRecord root;
  std::memcpy(&root, place, sizeof root);
  root.first_row = 0;
  std::memcpy(place, &root, sizeof root);
  WriteFile(dir.Path("s"), bytes);
  const auto opened = Snapshot::Open(dir.Path("s"));
  ASSERT_TRUE(opened);
  const Status walked = (*opened)->ForEachFile(
      kRootDirectory, [](const SnapshotRow&, std::string_view) { return true; });
  ASSERT_FALSE(walked);
  EXPECT_EQ(walked.error().code, Code::kCorrupt);
}

TEST(SnapshotOpen, RefusesWhatIsNotTheWantedGeneration) {
  const TempDir dir;
  SampleBytes(dir);
  SnapshotId wanted = TestOptions().id;
  EXPECT_TRUE(Snapshot::Open(dir.Path("sample"), wanted));
  wanted.generation = 8;
  const auto later = Snapshot::Open(dir.Path("sample"), wanted);
  EXPECT_EQ(later.error().code, Code::kCorrupt);
  EXPECT_THAT(later.error().message, HasSubstr("generation 7"));
  wanted = {.link = Uuid::Random(), .generation = 7};
  EXPECT_EQ(Snapshot::Open(dir.Path("sample"), wanted).error().code, Code::kCorrupt);
}

TEST(SnapshotOpen, SaysWhatAForeignFileIs) {
  const TempDir dir;
  EXPECT_EQ(Snapshot::Open(dir.Path("missing")).error().code, Code::kNotFound);
  EXPECT_EQ(Snapshot::Open(dir.path().string()).error().code, Code::kCorrupt);
  ASSERT_EQ(::mkfifo(dir.Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(Snapshot::Open(dir.Path("fifo")).error().code, Code::kCorrupt);
  WriteFile(dir.Path("text"), std::string(5'000, 't'));
  const auto text = Snapshot::Open(dir.Path("text"));
  EXPECT_EQ(text.error().code, Code::kCorrupt);
  EXPECT_THAT(text.error().message, HasSubstr("no snapshot"));
  std::string newer = SampleBytes(dir);
  newer[offsetof(SnapshotHeader, format)] = 3;
  SignHeader(newer);
  WriteFile(dir.Path("newer"), newer);
  const auto refused = Snapshot::Open(dir.Path("newer"));
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("format is 3"));
  std::filesystem::create_symlink(dir.Path("sample"), dir.Path("link"));
  EXPECT_FALSE(Snapshot::Open(dir.Path("link")));
}

}  // namespace
}  // namespace forebay
