// A difference and the generation before it make the generation behind it, byte for byte.
#include "common/snapshot/delta.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "common/base/files.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

using Objects = std::map<std::string, TestObject>;

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

std::vector<TestObject> ListOf(const Objects& objects) {
  std::vector<TestObject> list;
  list.reserve(objects.size());
  for (const auto& [key, object] : objects) list.push_back(object);
  return list;
}

/// Two generations of one link and what leads from the first to the second.
class DeltaTest : public testing::Test {
 protected:
  void Build(const Objects& before, const Objects& after, const std::string& prefix = "") {
    SnapshotOptions options = TestOptions(prefix);
    FinishedSnapshot finished;
    before_ = forebay::Build(options, ListOf(before), dir_.Path("before"), &finished);
    ASSERT_NE(before_, nullptr);
    ends_ = {.link = options.id.link,
             .before = 7,
             .after = 9,
             .before_digest = finished.digest,
             .after_digest = {}};
    options.id.generation = 9;
    options.listed_unix_s += 77;
    options.previous = before_;
    after_ = forebay::Build(options, ListOf(after), dir_.Path("after"), &finished);
    ASSERT_NE(after_, nullptr);
    ends_.after_digest = finished.digest;
  }

  WrittenDelta Write(std::uint64_t bytes_max = kNoLimit) {
    const auto written = WriteDelta(*before_, *after_, ends_, bytes_max, dir_.Path("delta"));
    EXPECT_TRUE(written) << written.error().message;
    if (!written || written->bytes == 0) return written.value_or(WrittenDelta{});
    delta_ = ReadWholeFile(dir_.Path("delta")).value();
    EXPECT_EQ(written->bytes, delta_.size());
    return *written;
  }

  Result<FinishedSnapshot> Merge() {
    return WriteFromDelta(before_, delta_, ends_, dir_.Path("merged"));
  }

  void ExpectTheSameFile() {
    ASSERT_GT(Write().bytes, 0u);
    const auto merged = Merge();
    ASSERT_TRUE(merged) << merged.error().message;
    EXPECT_EQ(ReadWholeFile(dir_.Path("merged")).value(),
              ReadWholeFile(dir_.Path("after")).value());
  }

  TempDir dir_;
  std::shared_ptr<const Snapshot> before_;
  std::shared_ptr<const Snapshot> after_;
  DeltaEnds ends_;
  std::string delta_;
};

void Put(Objects& objects, TestObject object) {
  const std::string key = object.key;
  objects.insert_or_assign(key, std::move(object));
}

class RandomChanges {
 public:
  RandomChanges(std::uint64_t seed, std::string prefix)
      : random_(seed), prefix_(std::move(prefix)) {}

  Objects Some() {
    Objects objects;
    const std::size_t count = Below(60);
    for (std::size_t i = 0; i < count; ++i) Put(objects, Object());
    return objects;
  }

  Objects Changed(Objects objects) {
    for (std::size_t i = Below(12); i > 0; --i) Change(objects);
    return objects;
  }

 private:
  std::size_t Below(std::size_t limit) { return random_() % limit; }

  std::string Key() {
    static constexpr std::string_view kLetters("ab/.\xff\0\n", 7);
    std::string key = prefix_;
    if (Below(3) == 0) {
      for (std::size_t i = Below(12); i > 0; --i) key.push_back(static_cast<char>(Below(256)));
    } else {
      for (std::size_t i = Below(8); i > 0; --i) key.push_back(kLetters[Below(kLetters.size())]);
    }
    if (Below(10) == 0) key += "/";
    return key;
  }

  TestObject Object() {
    TestObject object{.key = Key()};
    object.size = Below(4) == 0 ? 0 : random_() >> (20 + Below(40));
    object.mtime = static_cast<std::int64_t>(1'000 + Below(6));
    object.archived = Below(6) == 0;
    if (Below(3) == 0) object.etag = std::string(Below(60), 'x');
    if (Below(3) == 0) object.etag = std::string(32, 'c') + "-" + std::to_string(Below(70'000));
    return object;
  }

  void Change(Objects& objects) {
    const auto some =
        std::next(objects.begin(), objects.empty() ? 0 : static_cast<long>(Below(objects.size())));
    switch (Below(objects.empty() ? 1 : 7)) {
      case 0:
        return Put(objects, Object());
      case 1:
        objects.erase(some);
        return;
      case 2:
        ++some->second.mtime;
        return;
      case 3:
        some->second.etag = std::string(32, 'e');
        return;
      case 4: {  // a whole folder
        const std::string folder = some->first.substr(0, some->first.find('/', prefix_.size()));
        std::erase_if(objects, [&](const auto& each) { return each.first.starts_with(folder); });
        return;
      }
      case 5:  // a folder where a file was, or the other way round
        return Put(objects, {.key = some->first + "/in"});
      default:
        objects.erase(Below(2) == 0 ? objects.begin() : std::prev(objects.end()));
    }
  }

  std::mt19937_64 random_;
  const std::string prefix_;
};

TEST_F(DeltaTest, LeadsToTheSameBytesOverRandomListings) {
  const std::uint64_t seed = TestSeed();
  for (std::uint64_t round = 0; round < 1'500; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    const std::string prefix = round % 2 == 0 ? "" : "data/train/";
    RandomChanges changes(seed + round, prefix);
    const Objects before = changes.Some();
    const Objects after = round % 5 == 0 ? changes.Some() : changes.Changed(before);
    ASSERT_NO_FATAL_FAILURE(Build(before, after, prefix));
    ASSERT_NO_FATAL_FAILURE(ExpectTheSameFile());
  }
}

TEST_F(DeltaTest, LeadsFromNothingToAllAndBack) {
  Objects all;
  for (int i = 0; i < 2'000; ++i)
    Put(all, {.key = "d" + std::to_string(i % 13) + "/" + std::to_string(i)});
  Build({}, all);
  ExpectTheSameFile();
  Build(all, {});
  ExpectTheSameFile();
}

TEST_F(DeltaTest, ChangesTheFirstAndTheLastKey) {
  Objects before;
  for (int i = 0; i < 100; ++i) Put(before, {.key = "k" + std::to_string(i)});
  Objects after = before;
  after.erase(after.begin());
  after.erase(std::prev(after.end()));
  Put(after, {.key = std::string("\x01", 1)});
  Put(after, {.key = "\xff\xff"});
  Build(before, after);
  ExpectTheSameFile();
  Build(after, before);
  ExpectTheSameFile();
}

// Their times and that they are there at all come from markers, which a snapshot does not keep.
TEST_F(DeltaTest, KeepsAndChangesWhatMarkersSayOfFolders) {
  const PosixAttributes own{.mode = 0750, .uid = 7};
  Objects before;
  Put(before, {.key = "empty/", .size = 0, .mtime = 5});
  Put(before, {.key = "newer/", .size = 0, .mtime = 2'000});
  Put(before, {.key = "newer/x", .mtime = 1'000});
  Put(before, {.key = "older/", .size = 0, .mtime = 10});
  Put(before, {.key = "older/x", .mtime = 1'000});
  Put(before, {.key = "owned/", .size = 0, .mtime = 10, .posix = own});
  Put(before, {.key = "owned/x", .mtime = 1'000, .posix = own});
  Objects after = before;
  after.erase("older/x");  // the marker's time shows
  after["newer/"].mtime = 3'000;
  after["owned/"].posix->uid = 8;
  Put(after, {.key = "empty too/", .size = 0, .mtime = 0});
  Build(before, after);
  ExpectTheSameFile();
  Build(after, before);
  ExpectTheSameFile();
}

TEST_F(DeltaTest, TellsHiddenKeysThatComeGoAndChangeTheirReason) {
  Objects before;
  Put(before, {.key = "a//b"});
  Put(before, {.key = "a//c"});
  Put(before, {.key = "dir", .mtime = 9});
  Put(before, {.key = "dir/x"});
  Put(before, {.key = "m/", .size = 3});
  Objects after = before;
  after.erase("a//b");
  after.erase("dir/x");  // `dir` is shown now
  Put(after, {.key = "..", .size = 1});
  after["m/"].size = 0;
  Build(before, after);
  ExpectTheSameFile();
}

TEST_F(DeltaTest, LeadsFromOneVersionOfASingleObjectToTheNext) {
  Objects before;
  Put(before, {.key = "p/one.bin"});
  Objects after = before;
  after["p/one.bin"].etag = std::string(32, 'a');
  Build(before, after, "p/one.bin");
  ExpectTheSameFile();
}

TEST_F(DeltaTest, IsNotLargerThanTwiceTheRowsThatChanged) {
  Objects before;
  for (int i = 0; i < 220'000; ++i) {
    Put(before, {.key = "train/n" + std::to_string(10'000 + i % 1'000) + "/n" +
                        std::to_string(10'000 + i % 1'000) + "_" + std::to_string(i) + ".JPEG",
                 .size = 100'000 + static_cast<std::uint64_t>(i)});
  }
  constexpr std::uint64_t kHeaderBytes = 136;
  for (const auto count : std::initializer_list<std::size_t>{1, 1'000, 200'000}) {
    Objects after = before;
    auto object = after.begin();
    for (std::size_t i = 0; i < count; ++i, ++object) {
      object->second.etag = std::string(32, 'f');
      object->second.mtime += 5;
    }
    Build(before, after);
    const double row = static_cast<double>(after_->file_bytes()) / after_->rows();
    const WrittenDelta written = Write();
    EXPECT_LE(static_cast<double>(written.bytes - kHeaderBytes),
              2 * row * static_cast<double>(count))
        << count << " changes";
    std::cout << count << " changes: " << written.bytes << " bytes, rows of " << row << "\n";
    // A folder that goes is one name, whatever it held.
    std::erase_if(after, [](const auto& each) { return each.first.starts_with("train/n10007/"); });
    if (count == 1'000) continue;
    const std::uint64_t with_all = written.bytes;
    Build(before, after);
    EXPECT_LE(Write().bytes, with_all + 100);
  }
}

TEST_F(DeltaTest, IsNotWrittenWhereItIsTooLarge) {
  Objects before;
  for (int i = 0; i < 100; ++i) Put(before, {.key = std::to_string(i)});
  Build(before, {});
  EXPECT_EQ(Write(200).why_none, "too much has changed");
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("delta")));
}

/// Listings of augmented manifests, whose lines are mixed.
class RandomLines {
 public:
  explicit RandomLines(std::uint64_t seed) : random_(seed) {}

  void AddSome(Objects& objects) {
    for (auto& [key, object] : objects) {
      if (random_() % 3 != 0) Renew(object);
    }
  }
  /// To lines that no file had: the same ones elsewhere would have moved.
  void ChangeSome(Objects& objects) {
    repeats_ = false;
    unique_ += 3;
    for (std::size_t i = random_() % 6; i > 0 && !objects.empty(); --i) {
      const auto some = std::next(objects.begin(), static_cast<long>(random_() % objects.size()));
      Renew(some->second);
    }
  }
  /// The lines of one file come elsewhere.
  void Move(Objects& objects) {
    for (auto& [key, object] : objects) {
      if (object.lines.empty()) continue;
      for (AttributeLine& line : object.lines) line.place = random_() % kPlaces;
      return Sort(object);
    }
  }

 private:
  static constexpr std::uint64_t kPlaces = 300;

  static void Sort(TestObject& object) {
    std::ranges::sort(object.lines, {},
                      [](const AttributeLine& line) { return std::pair(line.place, line.json); });
  }
  /// Some texts are those of other lines.
  void Renew(TestObject& object) {
    object.lines.clear();
    for (std::size_t i = random_() % 4; i > 0; --i) {
      texts_.push_back("{\"a\": " + std::to_string(unique_ + random_() % (repeats_ ? 3 : 1)) + "}");
      if (!repeats_) ++unique_;
      object.lines.push_back({.place = random_() % kPlaces, .json = texts_.back()});
    }
    Sort(object);
  }

  std::mt19937_64 random_;
  std::deque<std::string> texts_;  // that the lines point into
  std::uint64_t unique_ = 0;
  bool repeats_ = true;
};

TEST_F(DeltaTest, LeadsToTheSameBytesOverRandomManifests) {
  const std::uint64_t seed = TestSeed();
  int moved = 0;
  for (std::uint64_t round = 0; round < 1'500; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    RandomChanges changes(seed + round, "");
    RandomLines lines(seed + round);
    Objects before = changes.Some();
    if (round % 11 != 0) lines.AddSome(before);
    Objects after = round % 5 == 0 ? changes.Some() : changes.Changed(before);
    lines.ChangeSome(after);
    const bool moves = round % 4 == 0;
    if (moves) lines.Move(after);
    ASSERT_NO_FATAL_FAILURE(Build(before, after));
    const std::string_view why_none = Write().why_none;
    if (moves && why_none == "lines of the manifest have another order") {
      ++moved;
      continue;
    }
    if (after_->has_lines() && after_->line_bytes() == 0) continue;
    EXPECT_EQ(why_none, "");
    ASSERT_NO_FATAL_FAILURE(ExpectTheSameFile());
  }
  EXPECT_GT(moved, 0);
}

TEST_F(DeltaTest, LinesComeGoAndChangeAtTheBeginningInTheMiddleAndAtTheEnd) {
  Objects before;
  for (int i = 0; i < 9; ++i) {
    Put(before, {.key = std::string(1, static_cast<char>('i' - i)),
                 .lines = {{.place = 10 * static_cast<std::uint64_t>(i), .json = "{\"a\": 1}"}}});
  }
  Objects after = before;
  after["i"].lines[0].json = "{\"a\": 2}";                             // the first
  after["a"].lines = {};                                               // the last
  after["e"].lines.push_back({.place = 90, .json = "{\"a\": 3}"});     // twice
  after["d"].etag = std::string(32, 'f');                              // another version
  Put(after, {.key = "new", .lines = {{.place = 41, .json = "{}"}}});  // next to one that is new
  after.erase("b");
  for (int round = 0; round < 2; ++round) {
    Build(before, after);
    ExpectTheSameFile();
    EXPECT_EQ(delta_[8], 2) << "the format";
    std::swap(before, after);
  }
  Objects none = before;
  for (auto& [key, object] : none) object.lines.clear();
  Build(before, none);
  ExpectTheSameFile();
  Build(none, before);
  ExpectTheSameFile();
}

TEST_F(DeltaTest, OfAManifestItIsNotLargerThanTwiceTheRowsAndLinesThatChanged) {
  const std::string json =
      "{\"source-ref\": \"s3://bucket/key\", \"a\": \"" + std::string(400, 'x') + "\"}";
  Objects before;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    Put(before, {.key = "d" + std::to_string(i % 100) + "/" + std::to_string(i),
                 .lines = {{.place = i * 7919 % 20'000, .json = json}}});
  }
  for (const auto count : std::initializer_list<std::size_t>{1, 1'000}) {
    Objects after = before;
    auto object = after.begin();
    for (std::size_t i = 0; i < count; ++i, ++object) object->second.etag = std::string(32, 'f');
    Build(before, after);
    const double row = static_cast<double>(after_->file_bytes()) / after_->rows();
    const WrittenDelta written = Write();
    std::cout << count << " changes: " << written.bytes << " bytes, rows of " << row << "\n";
    EXPECT_GT(written.bytes, 0u);
    EXPECT_LE(static_cast<double>(written.bytes - 136), 2 * row * static_cast<double>(count));
  }
}

// What a builder makes of lines that it is not given is a file without them.
TEST_F(DeltaTest, IsNotWrittenWhereNoFileShowsALine) {
  Objects before;
  Put(before, {.key = "a"});
  Objects after = before;
  Put(after, {.key = "d/", .size = 0, .lines = {{.place = 1, .json = "{}"}}});
  Build(before, after);
  EXPECT_EQ(Write().why_none, "the manifest has lines, and no file shows one");
}

TEST_F(DeltaTest, RefusesEveryDamagedByteAndEveryTruncation) {
  Objects before;
  for (int i = 0; i < 40; ++i) Put(before, {.key = "d/" + std::to_string(i)});
  Objects after = before;
  after.erase("d/7");
  Put(after, {.key = "e//f"});
  Put(after, {.key = "e/f", .etag = "opaque"});
  after["d/8"].lines = {{.place = 1, .json = "{}"}, {.place = 3, .json = "{\"a\": 1}"}};
  Build(before, after);
  ASSERT_GT(Write().bytes, 0u);
  const std::string sound = delta_;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    delta_ = sound;
    delta_[i] = static_cast<char>(delta_[i] ^ 1);
    const auto merged = Merge();
    ASSERT_FALSE(merged) << "byte " << i;
    ASSERT_EQ(merged.error().code, Code::kCorrupt) << "byte " << i;
    delta_ = sound.substr(0, i);
    ASSERT_FALSE(Merge()) << "of " << i << " bytes";
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("merged")));
}

TEST_F(DeltaTest, RefusesWhatIsBetweenOtherGenerations) {
  Build({{"a", {.key = "a"}}}, {{"b", {.key = "b"}}});
  ASSERT_GT(Write().bytes, 0u);
  const DeltaEnds sound = ends_;
  ends_.after = 10;
  EXPECT_FALSE(Merge());
  ends_ = sound;
  ends_.before_digest.low ^= 1;
  EXPECT_FALSE(Merge());
  ends_ = sound;
  before_ = after_;
  EXPECT_FALSE(Merge());
}

// The header's checksums are right and its end is not: what was built proves it.
TEST_F(DeltaTest, RefusesWhatLeadsToAnotherFile) {
  Objects before;
  Put(before, {.key = "a"});
  Objects after = before;
  Put(after, {.key = "b"});
  Build(before, after);
  ++ends_.after_digest.high;
  ASSERT_GT(Write().bytes, 0u);
  const auto merged = Merge();
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code, Code::kCorrupt);
  EXPECT_NE(merged.error().message.find("another file"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("merged")));
}

}  // namespace
}  // namespace forebay
