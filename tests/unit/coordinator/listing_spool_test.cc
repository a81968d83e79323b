#include "coordinator/listing_spool.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <random>
#include <set>

#include "coordinator/range_lister.h"
#include "tests/fakes/memory_object_store.h"
#include "tests/fakes/temp_dir.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNow = 1'700'000'000;

ListedObject Object(std::string key) {
  ListedObject object;
  object.key = std::move(key);
  object.size = object.key.size();
  object.etag = "etag-of-" + object.key;
  object.mtime_s = kNow;
  object.storage_class = "STANDARD";
  return object;
}

std::unique_ptr<ListingSpool> Open(const std::string& folder, std::int64_t now = kNow,
                                   const std::string& identity = "this") {
  Result<std::unique_ptr<ListingSpool>> spool = ListingSpool::Open(folder, identity, now);
  EXPECT_TRUE(spool.has_value());
  return spool ? std::move(*spool) : nullptr;
}

std::vector<std::string> KeysOf(ListingSpool& spool, Status* status = nullptr) {
  std::vector<std::string> keys;
  const Status read = spool.ForEach([&](const ListedObject& object) -> Status {
    EXPECT_EQ(object.etag, "etag-of-" + object.key);
    EXPECT_EQ(object.size, object.key.size());
    keys.push_back(object.key);
    return {};
  });
  if (status != nullptr) {
    *status = read;
  } else {
    EXPECT_TRUE(read.has_value());
  }
  return keys;
}

/// Two ranges: (…, "m"] which is done, and ("m", …) which is not.
void FillTwoRanges(ListingSpool& spool) {
  ASSERT_TRUE(spool.Begin({.id = 0, .begin = "", .position = "", .until = std::nullopt}));
  ASSERT_TRUE(spool.Add(0, std::vector{Object("a"), Object("b")}));
  ASSERT_TRUE(spool.Begin({.id = 1, .begin = "m", .position = "m", .until = std::nullopt}));
  ASSERT_TRUE(spool.SetEnd(0, "m"));
  ASSERT_TRUE(spool.Add(0, std::vector{Object("m")}));
  ASSERT_TRUE(spool.Finish(0, "m"));
  ASSERT_TRUE(spool.Add(1, std::vector{Object("n"), Object("o")}));
}

TEST(ListingSpool, TellsWhereEachRangeGoesOn) {
  const fakes::TempDir dir;
  FillTwoRanges(*Open(dir.path()));
  const auto spool = Open(dir.path(), kNow + 60);
  ASSERT_EQ(spool->found().size(), 2u);
  EXPECT_TRUE(spool->found()[0].done);
  EXPECT_EQ(spool->found()[0].until, "m");
  EXPECT_FALSE(spool->found()[1].done);
  EXPECT_EQ(spool->found()[1].position, "o");
  EXPECT_EQ(spool->objects(), 5u);
  EXPECT_EQ(spool->bytes(), 5u);
  EXPECT_EQ(spool->begun_unix_s(), kNow);
  ASSERT_TRUE(spool->Finish(1, std::nullopt));
  EXPECT_EQ(KeysOf(*spool), (std::vector<std::string>{"a", "b", "m", "n", "o"}));
}

TEST(ListingSpool, GoesOnOnlyWithTheSameListingAndNotForEver) {
  const fakes::TempDir dir;
  FillTwoRanges(*Open(dir.path()));
  EXPECT_TRUE(Open(dir.path(), kNow, "another")->found().empty());
  FillTwoRanges(*Open(dir.path()));
  EXPECT_TRUE(Open(dir.path(), kNow + ListingSpool::kMaxAgeSeconds)->found().empty());
  FillTwoRanges(*Open(dir.path()));
  EXPECT_TRUE(Open(dir.path(), kNow - 1)->found().empty()) << "a clock that went back";
}

TEST(ListingSpool, APartThatACrashLeftBesideItsRangeIsDropped) {
  const fakes::TempDir dir;
  {
    const auto spool = Open(dir.path());
    ASSERT_TRUE(spool->Begin({.id = 0, .begin = "", .position = "", .until = std::nullopt}));
    ASSERT_TRUE(spool->Add(0, std::vector{Object("a")}));
    ASSERT_TRUE(spool->Begin({.id = 1, .begin = "m", .position = "m", .until = "t"}));
    ASSERT_TRUE(spool->Begin({.id = 2, .begin = "t", .position = "t", .until = std::nullopt}));
  }
  const auto spool = Open(dir.path());
  ASSERT_EQ(spool->found().size(), 1u);
  EXPECT_EQ(spool->found()[0].until, std::nullopt);
  EXPECT_EQ(spool->found()[0].position, "a");
}

TEST(ListingSpool, AGapBeginsTheListingAnew) {
  const fakes::TempDir dir;
  FillTwoRanges(*Open(dir.path()));
  fs::remove(dir / "1.range");
  const auto spool = Open(dir.path());
  EXPECT_TRUE(spool->found().empty());
  EXPECT_EQ(spool->objects(), 0u);
}

TEST(ListingSpool, AnUnfinishedOrDamagedListingIsNeverRead) {
  const fakes::TempDir dir;
  Status status;
  const auto unfinished = Open(dir.path());
  FillTwoRanges(*unfinished);
  KeysOf(*unfinished, &status);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  const fakes::TempDir other;
  const auto damaged = Open(other.path());
  FillTwoRanges(*damaged);
  ASSERT_TRUE(damaged->Finish(1, std::nullopt));
  fs::resize_file(other / "0.range", fs::file_size(other / "0.range") - 1);
  KeysOf(*damaged, &status);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kCorrupt);
}

// The listing is ended at any moment, as a kill does; then the files' ends are cut off, as a power
// cut does. It goes on until all is there, and lists little again.
TEST(ListingSpool, AListingGoesOnAfterItEndedAnywhere) {
  const std::uint64_t seed =
      static_cast<std::uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 1;
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    const fakes::TempDir dir;
    MemoryObjectStore store("bucket", random());
    std::set<std::string> keys;
    for (std::size_t i = random() % 2'000; i > 0; --i) {
      keys.insert("p/" + std::to_string(random() % 5'000));
    }
    for (const std::string& key : keys) {
      store.Put(key, key.size(), "etag-of-" + key);
    }
    RangeListerOptions options;
    options.page_keys = 5;
    options.pages_before_split = 1;
    bool ended = false;
    const std::uint64_t most = 2 * (keys.size() / 5 + 50);
    while (!ended) {
      const auto spool = Open(dir.path());
      asio::io_context context;
      RangeLister::Job job;
      job.origin.bucket = "bucket";
      job.prefix = "p/";
      job.ranges = spool->found();
      std::size_t live = 0;
      for (const ListedRange& range : job.ranges) live += range.done ? 0 : 1;
      const std::uint64_t before = store.lists();
      const std::uint64_t left = keys.size() - spool->objects();
      const bool resumed = !job.ranges.empty();
      std::shared_ptr<RangeLister> lister = RangeLister::Create(
          store, std::move(job), options, *spool, {}, [](std::uint64_t, std::uint64_t) {});
      std::uint64_t left_to_end = 1 + random() % most;
      store.SetListFault([&](const ListRequest&) -> std::optional<Error> {
        if (--left_to_end == 0) lister->Cancel();
        return std::nullopt;
      });
      const Status status = RunTask(context, lister->Run());
      ended = status.has_value();
      // Ranges that were done cost nothing more, others at most a page beyond what they lack.
      if (ended && resumed) {
        const std::uint64_t ranges = lister->ranges_used();
        EXPECT_LE(store.lists() - before, left / 5 + live + lister->probes() + 2 * ranges);
      }
      if (ended) {
        EXPECT_EQ(KeysOf(*spool), std::vector<std::string>(keys.begin(), keys.end()))
            << "seed " << seed << " round " << round;
      } else if (random() % 3 == 0) {
        for (const auto& file : fs::directory_iterator(dir.path())) {
          const std::uint64_t size = file.file_size();
          if (file.path().extension() != ".range" || random() % 2 == 0 || size == 0) continue;
          fs::resize_file(file.path(), size - random() % std::min<std::uint64_t>(size, 300));
        }
      }
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace forebay
