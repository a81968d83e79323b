#include "coordinator/name_lister.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <iostream>
#include <random>
#include <set>

#include "tests/fakes/memory_object_store.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

struct Found {
  Status status;
  std::vector<std::string> keys;
  std::vector<std::string> missing;
  std::uint64_t counted = 0;
};

Found Find(MemoryObjectStore& store, std::vector<std::string> keys,
           NameListerOptions options = {}) {
  asio::io_context context;
  Found found;
  NameLister::Job job;
  job.origin.bucket = "bucket";
  job.prefix = "p/";
  job.keys = keys;
  const auto lister =
      NameLister::Create(store, std::move(job), options,
                         [&](std::uint64_t objects, std::uint64_t) { found.counted += objects; });
  found.status = RunTask(context, lister->Run());
  for (const ListedObject& object : lister->TakeObjects()) found.keys.push_back(object.key);
  for (const std::size_t place : lister->Missing()) found.missing.push_back(keys[place]);
  return found;
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
  // Each of the 16 lanes begins and ends with a page of its own.
  EXPECT_LE(store.lists(), 20U + 2 * 16);
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

}  // namespace
}  // namespace forebay
