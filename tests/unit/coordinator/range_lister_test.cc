#include "coordinator/range_lister.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
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

/// Takes every key, and holds the lister to what it promised about ranges.
class VectorSink final : public RangeSink {
 public:
  Status Begin(const ListedRange& range) override {
    EXPECT_TRUE(last_.emplace(range.id, range.begin).second);
    return {};
  }
  Status Drop(std::uint32_t range) override {
    EXPECT_EQ(last_.erase(range), 1u);
    return {};
  }
  Status SetEnd(std::uint32_t range, const std::string& until) override {
    EXPECT_LT(last_.at(range), until);
    return {};
  }
  Status Add(std::uint32_t range, std::span<const ListedObject> objects) override {
    for (const ListedObject& object : objects) {
      EXPECT_LT(last_.at(range), object.key);
      last_[range] = object.key;
      keys.push_back(object.key);
    }
    if (on_add) on_add();
    return {};
  }
  Status Pass(std::uint32_t, const std::string&) override {
    ADD_FAILURE() << "ranges end at keys";
    return {};
  }
  Status Finish(std::uint32_t range, const std::optional<std::string>& until) override {
    EXPECT_TRUE(!until || last_.at(range) <= *until);
    return {};
  }

  std::vector<std::string> keys;  // in the order in which they came
  std::function<void()> on_add;

 private:
  std::map<std::uint32_t, std::string> last_;
};

std::shared_ptr<RangeLister> MakeLister(MemoryObjectStore& store, const std::string& prefix,
                                        RangeListerOptions options, RangeSink& sink,
                                        std::vector<ListedRange> ranges = {}) {
  RangeLister::Job job;
  job.origin.bucket = "bucket";
  job.prefix = prefix;
  job.ranges = std::move(ranges);
  return RangeLister::Create(store, std::move(job), options, sink, {},
                             [](std::uint64_t, std::uint64_t) {});
}

Listed List(MemoryObjectStore& store, const std::string& prefix, RangeListerOptions options) {
  asio::io_context context;
  Listed listed;
  VectorSink sink;
  const auto lister = MakeLister(store, prefix, options, sink);
  listed.status = RunTask(context, lister->Run());
  listed.keys = std::move(sink.keys);
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
      "ab",
      "0123456789",
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./",
      "\x01\x20\x7e\x7f",
      "a\xc3\xa9\xe6\x97\xa5",
      "~\x80\x9f\xa0\xbd\xbe\xbf\xc2\xdf\xe0\xed\xef\xf0\xf4\xff"};
  const std::string_view alphabet = kAlphabets[random() % std::size(kAlphabets)];
  const std::string shared = RandomText(random, "abc/", random() % 3 == 0 ? 200 : 4);
  std::set<std::string> keys;
  for (std::size_t i = random() % 400; i > 0; --i) {
    keys.insert("p/" + shared + RandomText(random, alphabet, 1 + random() % 12));
  }
  return keys;
}

TEST(RangeLister, KeepsWhatTheFilterShowsAndCountsNoMore) {
  MemoryObjectStore store("bucket", 1);
  std::set<std::string> wanted;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "p/" + std::to_string(i) + (i % 3 == 0 ? ".jpg" : ".txt");
    store.Put(key, 10);
    if (i % 3 == 0 && i < 200) wanted.insert(key);
  }
  asio::io_context context;
  VectorSink sink;
  RangeLister::Job job;
  job.origin.bucket = "bucket";
  job.prefix = "p/";
  job.filter = *KeyFilter::Parse({"/*.jpg"}, {"2[0-9][0-9].*"});
  job.root_bytes = 2;
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  const auto lister = RangeLister::Create(store, std::move(job), Eager(), sink, {},
                                          [&](std::uint64_t of_page, std::uint64_t bytes_of_page) {
                                            objects += of_page;
                                            bytes += bytes_of_page;
                                          });
  lister->AlsoList({"p/1.txt", "p/3.jpg"});
  ASSERT_TRUE(RunTask(context, lister->Run()));
  EXPECT_GT(lister->ranges_used(), 1U) << "ranges are cut as ever";
  EXPECT_EQ(std::set<std::string>(sink.keys.begin(), sink.keys.end()), wanted);
  ASSERT_EQ(lister->single_objects().size(), 1U);
  EXPECT_EQ(lister->single_objects().front().key, "p/3.jpg");
  EXPECT_EQ(objects, wanted.size() + 1);
  EXPECT_EQ(bytes, 10 * objects);
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

std::string Utf8(char32_t c) {
  std::string text;
  const auto push = [&](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    push(0xe0 | c >> 12);
  } else {
    push(0xf0 | c >> 18);
    push(0x80 | (c >> 12 & 0x3f));
  }
  if (c >= 0x800) push(0x80 | (c >> 6 & 0x3f));
  if (c >= 0x80) push(0x80 | (c & 0x3f));
  return text;
}

/// By the rule of the standard alone: each character is what Utf8 makes of some code point.
bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (text.size() < bytes) return false;
    char32_t c = bytes == 1 ? lead : lead & (0x7fU >> bytes);
    for (std::size_t i = 1; i < bytes; ++i)
      c = c << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    if (surrogate || c > 0x10ffff || !text.starts_with(Utf8(c))) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

TEST(RangeLister, SplitsAFlatDirectoryOfNamesInAnyScript) {
  // Kanji; kana, whose first bytes are the same; emoji; letters that ASCII has not, alone and
  // mixed.
  const std::vector<std::pair<char32_t, char32_t>> scripts = {
      {0x4e00, 0x9fff}, {0x3041, 0x30ff}, {0x1f300, 0x1f6ff}, {0x430, 0x44f}, {0x61, 0x17f}};
  for (const auto& [first, last] : scripts) {
    SCOPED_TRACE(static_cast<std::uint32_t>(first));
    MemoryObjectStore store("bucket");
    std::set<std::string> keys;
    for (std::uint32_t i = 0; keys.size() < 2000; ++i) {
      const auto letter = [&](std::uint32_t n) {
        const char32_t c = first + n * 2654435761U % (last - first + 1);
        return Utf8(c >= 0x7f && c < 0xa0 ? U'_' : c);
      };
      keys.insert("p/" + Utf8(0x5199) + Utf8(0x771f) + letter(i) + letter(i / 7) + letter(i / 31) +
                  ".jpg");
    }
    for (const std::string& key : keys) store.Put(key, 1);
    store.SetListFault([](const ListRequest& request) -> std::optional<Error> {
      EXPECT_TRUE(IsUtf8(request.start_after)) << request.start_after;
      return std::nullopt;
    });
    const Listed listed = List(store, "p/", Eager());
    ASSERT_TRUE(listed.status.has_value());
    EXPECT_EQ(listed.keys.size(), keys.size());
    EXPECT_EQ(std::set(listed.keys.begin(), listed.keys.end()), keys);
    EXPECT_GE(listed.ranges, 8u);
  }
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

TEST(RangeLister, EmptyPagesThatPromiseMoreHideNoKey) {
  MemoryObjectStore store("bucket");
  std::set<std::string> wanted;
  for (int i = 0; i < 200; ++i) wanted.insert("p/" + std::to_string(1000 + i));
  for (const std::string& key : wanted) store.Put(key, 1);
  store.ListEmptyPages(2);
  Listed listed = List(store, "p/", Eager());
  ASSERT_TRUE(listed.status) << listed.status.error().message;
  std::ranges::sort(listed.keys);
  EXPECT_EQ(listed.keys, std::vector<std::string>(wanted.begin(), wanted.end()));
}

TEST(RangeLister, ASingleKeyBehindAnEmptyPageIsThere) {
  MemoryObjectStore store("bucket");
  store.Put("p/file", 5);
  store.ListEmptyPages(1);
  asio::io_context context;
  VectorSink sink;
  RangeLister::Job job;
  job.origin.bucket = "bucket";
  job.prefix = "p/file";
  job.keys_only = true;
  const auto lister =
      RangeLister::Create(store, std::move(job), {}, sink, {}, [](std::uint64_t, std::uint64_t) {});
  lister->AlsoList({"p/file", "p/none"});
  const Status status = RunTask(context, lister->Run());
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(lister->single_objects().size(), 1U);
  EXPECT_EQ(lister->single_objects().front().key, "p/file");
}

TEST(RangeLister, AThousandEmptyPagesInARowAreOutlastedAndNotOneMore) {
  MemoryObjectStore store("bucket");
  store.Put("p/file", 5);
  store.ListEmptyPages(1000);
  const Listed listed = List(store, "p/", {});
  ASSERT_TRUE(listed.status) << listed.status.error().message;
  EXPECT_EQ(listed.keys, std::vector<std::string>{"p/file"});
  EXPECT_EQ(store.lists(), 1001U);

  store.ListEmptyPages(1001);
  const Listed endless = List(store, "p/", {});
  ASSERT_FALSE(endless.status);
  EXPECT_EQ(endless.status.error().code, Code::kCorrupt);
  EXPECT_NE(endless.status.error().message.find("1000 empty pages"), std::string::npos);
  EXPECT_EQ(store.lists(), 2 * 1001U);
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
  VectorSink sink;
  std::shared_ptr<RangeLister> lister = MakeLister(store, "p/", Eager(), sink);
  sink.on_add = [&] {
    if (sink.keys.size() > 100) lister->Cancel();
  };
  const Status status = RunTask(context, lister->Run());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_LT(sink.keys.size(), 500u);
}

// What a listing costs S3 beyond its pages: probes, and the pages that ranges end in.
TEST(RangeLister, ManyKeysCostLittleMoreThanTheirPages) {
  for (const bool deep : {false, true}) {
    MemoryObjectStore store("bucket");
    constexpr int kKeys = 60'000;
    for (int i = 0; i < kKeys; ++i) {
      const std::string number = std::to_string(1'000'000 + i);
      store.Put(deep ? "p/" + number.substr(1, 1) + "/" + number.substr(2, 2) + "/" + number
                     : "p/" + number,
                1);
    }
    RangeListerOptions options;
    options.page_keys = 30;
    const Listed listed = List(store, "p/", options);
    ASSERT_TRUE(listed.status.has_value());
    EXPECT_EQ(listed.keys.size(), std::size_t{kKeys});
    EXPECT_GE(listed.ranges, 16u);
    EXPECT_LE(listed.probes, 64u + kKeys / 30 / 4 + 2 * 48);
    EXPECT_LE(store.lists(), kKeys / 30 + listed.probes + 2 * listed.ranges);
  }
}

/// Keys that nobody touches are listed; others may come and go meanwhile.
TEST(RangeLister, KeysThatComeAndGoMeanwhileDisturbNoOthers) {
  const std::uint64_t seed = Seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    MemoryObjectStore store("bucket", random());
    std::set<std::string> stay;
    std::vector<std::string> passing;
    for (int i = 0; i < 400; ++i) {
      const std::string key = "p/" + RandomText(random, "abc", 9);
      if (random() % 2 == 0) {
        stay.insert(key);
      } else {
        passing.push_back(key);
      }
      store.Put(key, 1);
    }
    std::erase_if(passing, [&](const std::string& key) { return stay.contains(key); });
    asio::io_context context;
    VectorSink sink;
    sink.on_add = [&] {
      if (passing.empty()) return;
      const std::string& key = passing[random() % passing.size()];
      if (random() % 2 == 0) {
        store.Put(key, 1);
      } else {
        store.Erase(key);
      }
    };
    const auto lister = MakeLister(store, "p/", Eager(), sink);
    const Status status = RunTask(context, lister->Run());
    ASSERT_TRUE(status.has_value()) << status.error().message;
    const std::set<std::string> got(sink.keys.begin(), sink.keys.end());
    ASSERT_EQ(got.size(), sink.keys.size()) << "a key came twice, seed " << seed;
    ASSERT_TRUE(std::ranges::includes(got, stay)) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace forebay
