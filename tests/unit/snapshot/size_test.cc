#include <gtest/gtest.h>

#include <cstdio>
#include <iostream>
#include <random>

#include "common/snapshot/snapshot_builder.h"
#include "tests/unit/snapshot/testing.h"

namespace forebay {
namespace {

TEST(Snapshot, TakesAtMost56BytesAnObjectOfImageNet) {
  constexpr int kClasses = 1'000;
  constexpr int kImages = 200;  // of each class
  const TempDir dir;
  std::mt19937_64 random(7);
  SnapshotBuilder builder(TestOptions("train/"), dir.Path("s"));
  for (int c = 0; c < kClasses; ++c) {
    char name[16];
    std::snprintf(name, sizeof name, "n%08d", 1'440'764 + c * 7'919);
    for (int i = 0; i < kImages; ++i) {
      const std::string key = std::string("train/") + name + "/" + name + "_" +
                              std::to_string(i * 70 + static_cast<int>(random() % 70)) + ".JPEG";
      char etag[48];
      std::snprintf(etag, sizeof etag, "%016lx%016lx%s", random(), random(),
                    i % 2 == 0 ? "-12" : "");
      ASSERT_TRUE(builder.Add({.key = key,
                               .size = 20'000 + random() % 200'000,
                               .etag = etag,
                               .mtime_unix_s = 1'600'000'000}));
    }
  }
  const auto built = builder.Finish();
  ASSERT_TRUE(built);
  ASSERT_EQ(built->totals.objects, 200'000u);
  const double bytes = static_cast<double>(built->file_bytes) / 200'000;
  std::cout << "snapshot bytes an object: " << bytes << "\n";
  RecordProperty("bytes_per_object", std::to_string(bytes));
  EXPECT_LE(bytes, 56.0);
}

}  // namespace
}  // namespace forebay
