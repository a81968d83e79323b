#include "coordinator/name_lister.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <iostream>
#include <random>
#include <set>

#include "coordinator/listing_feed.h"
#include "coordinator/listing_spool.h"
#include "tests/fakes/memory_object_store.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;

std::unique_ptr<ListingSpool> Open(const std::string& folder) {
  Result<std::unique_ptr<ListingSpool>> spool = ListingSpool::Open(folder, "these keys", kNow);
  EXPECT_TRUE(spool.has_value());
  return spool ? std::move(*spool) : nullptr;
}

struct Found {
  Status status;
  std::vector<std::string> keys;
  std::vector<std::string> missing;
  std::uint64_t counted = 0;
};

/// Goes on with what `folder` holds of the same keys.
Found FindInto(const std::string& folder, MemoryObjectStore& store, std::vector<std::string> keys,
               NameListerOptions options = {}, bool each_alone = false) {
  asio::io_context context;
  Found found;
  const std::unique_ptr<ListingSpool> spool = Open(folder);
  found.counted = spool->objects();
  NameLister::Job job{.origin = {},
                      .prefix = "p/",
                      .keys = keys,
                      .ranges = spool->found(),
                      .each_alone = each_alone};
  job.origin.bucket = "bucket";
  const auto lister =
      NameLister::Create(store, std::move(job), options, *spool, {},
                         [&](std::uint64_t objects, std::uint64_t) { found.counted += objects; });
  found.status = RunTask(context, lister->Run());
  if (!found.status) return found;
  const Result<std::vector<std::size_t>> missing = FindMissing(*spool, keys);
  EXPECT_TRUE(missing.has_value());
  if (missing) {
    for (const std::size_t place : *missing) found.missing.push_back(keys[place]);
  }
  EXPECT_TRUE(spool->ForEach([&](const ListedObject& object) -> Status {
    found.keys.push_back(object.key);
    return {};
  }));
  return found;
}

Found Find(MemoryObjectStore& store, std::vector<std::string> keys, NameListerOptions options = {},
           bool each_alone = false) {
  const TempDir dir;
  return FindInto(dir.Path("spool"), store, std::move(keys), std::move(options), each_alone);
}

std::vector<std::string> Numbered(int from, int to, int step) {
  std::vector<std::string> keys;
  for (int i = from; i < to; i += step) keys.push_back("p/" + std::to_string(100'000 + i));
  return keys;
}

TEST(NameLister, FindsExactlyWhatThereIs) {
  const auto seed = std::random_device()();
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random(seed);
  const auto text = [&](std::string_view alphabet) {
    std::string key = "p/";
    for (std::size_t i = 1 + random() % 5; i > 0; --i) key += alphabet[random() % alphabet.size()];
    return key;
  };
  for (int round = 0; round < 300; ++round) {
    const std::string_view alphabet = round % 2 == 0 ? "ab/" : "\x01z\xc3\xa9\x7f";
    std::set<std::string> there;
    for (std::size_t i = random() % 200; i > 0; --i) there.insert(text(alphabet));
    std::set<std::string> wanted;
    for (std::size_t i = 1 + random() % 100; i > 0; --i) wanted.insert(text(alphabet));
    MemoryObjectStore store("bucket", random());
    for (const std::string& key : there) store.Put(key, 1);
    store.Put("o", 1);
    store.Put("p0", 1);
    NameListerOptions options;
    options.lanes = 1 + random() % 5;
    options.page_keys = static_cast<std::uint32_t>(1 + random() % 9);
    const Found found = Find(store, {wanted.begin(), wanted.end()}, options);
    ASSERT_TRUE(found.status) << found.status.error().message;
    std::vector<std::string> present;
    std::vector<std::string> absent;
    std::ranges::set_intersection(wanted, there, std::back_inserter(present));
    std::ranges::set_difference(wanted, there, std::back_inserter(absent));
    ASSERT_EQ(found.keys, present) << "seed " << seed << " round " << round;
    ASSERT_EQ(found.missing, absent) << "seed " << seed << " round " << round;
    ASSERT_EQ(found.counted, present.size());
  }
}

TEST(NameLister, KeysSideBySideCostAPageForAThousand) {
  MemoryObjectStore store("bucket");
  for (const std::string& key : Numbered(0, 20'000, 1)) store.Put(key, 1);
  const Found found = Find(store, Numbered(0, 20'000, 2));
  EXPECT_EQ(found.keys.size(), 10'000U);
  // Each of the 64 lanes begins and ends with a page of its own.
  EXPECT_LE(store.lists(), 20U + 2 * 64);
}

TEST(NameLister, KeysFarApartCostAFewRequestsEachWhateverLiesBetween) {
  MemoryObjectStore store("bucket");
  for (const std::string& key : Numbered(0, 50'000, 1)) store.Put(key, 1);
  const Found found = Find(store, Numbered(5, 50'000, 5'000));
  EXPECT_EQ(found.keys.size(), 10U);
  EXPECT_LE(store.lists(), 20U);
}

TEST(NameLister, EmptyPagesDoNotMakeKeysMissing) {
  for (const int empty : {1, 3}) {
    MemoryObjectStore store("bucket");
    for (const std::string& key : Numbered(0, 1000, 1)) store.Put(key, 1);
    store.ListEmptyPages(empty);
    NameListerOptions options;
    options.page_keys = 50;
    const Found found = Find(store, Numbered(0, 1000, 7), options);
    ASSERT_TRUE(found.status) << found.status.error().message;
    EXPECT_EQ(found.keys, Numbered(0, 1000, 7));
    EXPECT_EQ(found.missing, std::vector<std::string>());
  }
}

TEST(NameLister, AStoreThatListsOutOfOrderIsRefusedAndNothingIsMissing) {
  MemoryObjectStore store("bucket");
  for (const std::string& key : Numbered(0, 100, 1)) store.Put(key, 1);
  store.ListBackwards();
  const Found found = Find(store, Numbered(0, 100, 1));
  ASSERT_FALSE(found.status);
  EXPECT_EQ(found.status.error().code, Code::kCorrupt);
  EXPECT_NE(found.status.error().message.find("out of order"), std::string::npos);
  EXPECT_EQ(found.missing, std::vector<std::string>());
}

TEST(NameLister, AnErrorOfS3EndsItWithItsReason) {
  MemoryObjectStore store("bucket");
  store.SetListFault([](const ListRequest&) {
    return std::optional<Error>(Error{Code::kDenied, "S3 answered 403"});
  });
  const Found found = Find(store, Numbered(0, 1000, 1));
  ASSERT_FALSE(found.status);
  EXPECT_EQ(found.status.error().message, "S3 answered 403");
}

TEST(NameLister, KeysThatAreAskedForAloneCostOneRequestEach) {
  MemoryObjectStore store("bucket");
  for (const std::string& key : Numbered(0, 5'000, 1)) store.Put(key, 1);
  for (const std::size_t count : {1U, 16U, 100U}) {
    std::vector<std::string> keys = Numbered(5, 5 + static_cast<int>(count) * 40, 40);
    keys.back() += "gone";
    const std::uint64_t before = store.lists();
    const Found found = Find(store, keys, {}, true);
    EXPECT_EQ(store.lists() - before, count);
    EXPECT_EQ(found.keys.size(), count - 1);
    EXPECT_EQ(found.missing, std::vector{keys.back()});
  }
}

TEST(NameLister, GoesOnWhereItWasWhereverItWasStopped) {
  const auto seed = std::random_device()();
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random(seed);
  const std::vector<std::string> all = Numbered(0, 20'000, 1);
  for (int round = 0; round < 60; ++round) {
    MemoryObjectStore store("bucket", random());
    std::vector<std::string> wanted;
    std::vector<std::string> present;
    const std::size_t step = round % 3 == 0 ? 1 : 40;  // side by side, or far apart
    for (std::size_t i = random() % 7; i < all.size() / (step == 1 ? 20 : 1); i += step) {
      wanted.push_back(all[i]);
      // Also long runs of names that are not there.
      if ((i / 1'000) % 3 == 1 || random() % 8 == 0) continue;
      present.push_back(all[i]);
    }
    for (const std::string& key : all) {
      if (!std::ranges::binary_search(wanted, key)) store.Put(key, 1);
    }
    for (const std::string& key : present) store.Put(key, 1);
    NameListerOptions options;
    options.lanes = 1 + random() % 16;
    options.page_keys = static_cast<std::uint32_t>(5 + random() % 50);
    const Found whole = Find(store, wanted, options);
    const std::uint64_t without = store.lists();

    const TempDir dir;
    int stops = 0;
    Found found;
    for (;;) {
      std::uint64_t left = 1 + random() % (without / 2);
      store.SetListFault([&](const ListRequest&) -> std::optional<Error> {
        if (stops >= 3 || left-- > 0) return std::nullopt;
        left = 0;
        return Error{Code::kDenied, "stopped"};
      });
      found = FindInto(dir.Path("spool"), store, wanted, options);
      if (found.status) break;
      ++stops;
    }
    ASSERT_EQ(found.keys, present) << "seed " << seed << " round " << round;
    ASSERT_EQ(found.missing, whole.missing) << "seed " << seed << " round " << round;
    ASSERT_EQ(found.counted, present.size());
    // What was refused counts as well. A lane begins anew with large pages, which shrink.
    const std::uint64_t again = options.lanes * (options.kept_together + 5);
    ASSERT_LE(store.lists(), 2 * without + static_cast<std::uint64_t>(stops) * again)
        << "seed " << seed << " round " << round;
  }
}

TEST(NameLister, WhatIsKeptOfOtherKeysIsNotTakenForAnAnswer) {
  const TempDir dir;
  MemoryObjectStore store("bucket");
  for (const std::string& key : Numbered(0, 10, 1)) store.Put(key, 1);
  const Found found = FindInto(dir.Path("spool"), store, Numbered(0, 10, 1));
  ASSERT_EQ(found.keys.size(), 10U);
  const std::unique_ptr<ListingSpool> spool = Open(dir.Path("spool"));
  const std::vector<std::string> others = Numbered(1, 10, 1);
  const Result<std::vector<std::size_t>> missing = FindMissing(*spool, others);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace forebay
