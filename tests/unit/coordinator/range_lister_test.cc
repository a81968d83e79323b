#include "coordinator/range_lister.h"

#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <set>

#include "tests/fakes/memory_object_store.h"
#include "tests/unit/coordinator/testing.h"

namespace forebay {
namespace {

struct Listed {
  Status status;
  std::vector<std::string> keys;  // in the order in which they came
  std::size_t ranges = 0;
  std::uint64_t probes = 0;
};

Listed List(MemoryObjectStore& store, const std::string& prefix, RangeListerOptions options) {
  asio::io_context context;
  Listed listed;
  auto sink = [&listed](const std::vector<ListedObject>& objects) -> Status {
    for (const ListedObject& object : objects) listed.keys.push_back(object.key);
    return {};
  };
  LinkOrigin origin;
  origin.bucket = "bucket";
  const auto lister = RangeLister::Create(store, origin, prefix, options, sink);
  listed.status = RunTask(context, lister->Run());
  listed.ranges = lister->ranges_used();
  listed.probes = lister->probes();
  return listed;
}

/// Small pages and eager splits, so that a few hundred keys do what millions do in earnest.
RangeListerOptions Eager() {
  RangeListerOptions options;
  options.page_keys = 3;
  options.pages_before_split = 1;
  return options;
}

std::uint64_t Seed() {
  const int asked = testing::UnitTest::GetInstance()->random_seed();
  const std::uint64_t seed =
      asked != 0 ? static_cast<std::uint64_t>(asked) : std::random_device()();
  std::cout << "seed " << seed << '\n';
  return seed;
}

std::string RandomText(std::mt19937_64& random, std::string_view alphabet, std::size_t most) {
  std::string text;
  for (std::size_t i = random() % (most + 1); i > 0; --i) {
    text.push_back(alphabet[random() % alphabet.size()]);
  }
  return text;
}

/// Key sets of very different shapes, all below "p/".
std::set<std::string> RandomKeys(std::mt19937_64& random) {
  static constexpr std::string_view kAlphabets[] = {
      "ab", "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./",
      "\x01\x20\x7e\x7f", "a\xc3\xa9\xe6\x97\xa5"};
  const std::string_view alphabet = kAlphabets[random() % std::size(kAlphabets)];
  const std::string shared = RandomText(random, "abc/", random() % 3 == 0 ? 200 : 4);
  std::set<std::string> keys;
  for (std::size_t i = random() % 400; i > 0; --i) {
    keys.insert("p/" + shared + RandomText(random, alphabet, 1 + random() % 12));
  }
  return keys;
}

TEST(RangeLister, GivesExactlyTheSetOfASequentialListing) {
  const std::uint64_t seed = Seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::set<std::string> keys = RandomKeys(random);
    MemoryObjectStore store("bucket", random());
    for (const std::string& key : keys) store.Put(key, 1);
    store.Put("o", 1);
    store.Put("p", 1);
    store.Put("p0", 1);  // the first key behind the prefix
    RangeListerOptions options = Eager();
    options.page_keys = static_cast<std::uint32_t>(1 + random() % 7);
    options.pages_before_split = static_cast<std::uint32_t>(1 + random() % 3);
    options.ranges = 1 + random() % 16;
    const Listed listed = List(store, "p/", options);
    ASSERT_TRUE(listed.status.has_value()) << listed.status.error().message;
    const std::set<std::string> got(listed.keys.begin(), listed.keys.end());
    ASSERT_EQ(got.size(), listed.keys.size()) << "a key came twice, seed " << seed;
    ASSERT_EQ(got, keys) << "seed " << seed << " round " << round;
  }
}

TEST(RangeLister, SplitsOneFlatDirectoryBehindALongSharedPrefix) {
  MemoryObjectStore store("bucket");
  const std::string folder = "p/" + std::string(300, 'x') + "/";
  for (int i = 0; i < 2000; ++i) store.Put(folder + std::to_string(100000 + i), 1);
  const Listed listed = List(store, "p/", Eager());
  ASSERT_TRUE(listed.status.has_value());
  EXPECT_EQ(std::set(listed.keys.begin(), listed.keys.end()).size(), 2000u);
  EXPECT_GE(listed.ranges, 8u);
}

TEST(RangeLister, SplitsWhereTheKeysAreAndNotWhereTheyAreFew) {
  MemoryObjectStore store("bucket");
  for (int i = 0; i < 3000; ++i) store.Put("p/train/" + std::to_string(100000 + i), 1);
  store.Put("p/val/1", 1);
  RangeListerOptions options = Eager();
  const Listed listed = List(store, "p/", options);
  ASSERT_TRUE(listed.status.has_value());
  EXPECT_EQ(listed.keys.size(), 3001u);
  EXPECT_GE(listed.ranges, 8u);
}

TEST(RangeLister, ASmallPrefixCostsOneRequestAndNoProbe) {
  MemoryObjectStore store("bucket");
  for (int i = 0; i < 900; ++i) store.Put("p/" + std::to_string(i), 1);
  const Listed listed = List(store, "p/", RangeListerOptions());
  ASSERT_TRUE(listed.status.has_value());
  EXPECT_EQ(listed.keys.size(), 900u);
  EXPECT_EQ(store.lists(), 1u);
  EXPECT_EQ(listed.probes, 0u);
}

TEST(RangeLister, AnEmptyPrefixIsAnEmptyListing) {
  MemoryObjectStore store("bucket");
  const Listed listed = List(store, "p/", Eager());
  EXPECT_TRUE(listed.status.has_value());
  EXPECT_TRUE(listed.keys.empty());
}

TEST(RangeLister, AStoreThatListsOutOfOrderIsRefused) {
  MemoryObjectStore store("bucket");
  for (int i = 0; i < 10; ++i) store.Put("p/" + std::to_string(i), 1);
  store.ListBackwards();
  const Listed listed = List(store, "p/", RangeListerOptions());
  ASSERT_FALSE(listed.status.has_value());
  EXPECT_EQ(listed.status.error().code, Code::kCorrupt);
}

TEST(RangeLister, AFailedPageFailsTheListingWithItsReason) {
  MemoryObjectStore store("bucket");
  for (int i = 0; i < 500; ++i) store.Put("p/" + std::to_string(1000 + i), 1);
  int calls = 0;
  store.SetListFault([&calls](const ListRequest&) -> std::optional<Error> {
    if (++calls != 40) return std::nullopt;
    return Error{Code::kDenied, "the token expired"};
  });
  const Listed listed = List(store, "p/", Eager());
  ASSERT_FALSE(listed.status.has_value());
  EXPECT_EQ(listed.status.error(), (Error{Code::kDenied, "the token expired"}));
}

TEST(RangeLister, CancelEndsItSoon) {
  MemoryObjectStore store("bucket");
  for (int i = 0; i < 5000; ++i) store.Put("p/" + std::to_string(10000 + i), 1);
  asio::io_context context;
  std::shared_ptr<RangeLister> lister;
  std::size_t taken = 0;
  auto sink = [&](const std::vector<ListedObject>& objects) -> Status {
    taken += objects.size();
    if (taken > 100) lister->Cancel();
    return {};
  };
  LinkOrigin origin;
  origin.bucket = "bucket";
  lister = RangeLister::Create(store, origin, "p/", Eager(), sink);
  const Status status = RunTask(context, lister->Run());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_LT(taken, 500u);
}

}  // namespace
}  // namespace forebay
