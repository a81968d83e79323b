#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <vector>

#include "common/base/executors.h"
#include "tests/component/s3/s3_fixture.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kOddKeys = {"a b+c%20d",    "plus+",
                                           "//double",     "up/../down/./x",
                                           "/leading",     "trailing/",
                                           "é/ü\u2028",    "new\nline",
                                           "\xFF\xFE",     "q?x=1&y#z",
                                           "'quotes\"<&>", "tab\t",
                                           "~-._*!()",     std::string("ctl\x01")};

TEST_F(S3ClientTest, ARangeComesWithVersionAndSignature) {
  TextSink sink;
  const Status status = Get(Stored("dir/k", "0123456789", 3, 4), sink);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(sink.text, "3456");
  EXPECT_EQ(sink.attempts, 1);
  EXPECT_EQ(stats_.attempts, 1U);
  const fakes::S3RequestSeen seen = server_.requests().at(0);
  EXPECT_EQ(seen.Header("range"), "bytes=3-6");
  EXPECT_FALSE(seen.Header("if-match").empty());
  EXPECT_EQ(seen.Header("user-agent"), "forebay/test");
  EXPECT_THAT(seen.Header("authorization"),
              HasSubstr("SignedHeaders=host;if-match;range;x-amz-content-sha256;x-amz-date"));
  EXPECT_EQ(Client().counters().succeeded[0], 1U);
  EXPECT_EQ(Client().counters().get_bytes, 4U);
}

TEST_F(S3ClientTest, TheWholeObjectIsAskedForWithoutRange) {
  TextSink sink;
  const std::string body = Bytes(300'000);
  ASSERT_TRUE(Get(Stored("k", body, 0, body.size()), sink));
  EXPECT_EQ(sink.text, body);
  EXPECT_EQ(server_.requests().at(0).Header("range"), "");
}

TEST_F(S3ClientTest, AnonymousRequestsAreNotSigned) {
  GetRequest request = Stored("k", "0123", 0, 4);
  request.origin.sign = false;
  TextSink sink;
  Restart(FastOptions(), AwsEnvironment({}));
  ASSERT_TRUE(Get(request, sink));
  EXPECT_EQ(server_.requests().at(0).Header("authorization"), "");
}

TEST_F(S3ClientTest, OddKeysAreReadListedAndLookedUp) {
  for (const std::string& key : kOddKeys) {
    TextSink sink;
    const Status got = Get(Stored(key, "body of " + key, 0, 8), sink);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(sink.text, "body of ");
    const Result<ObjectHead> head = Head(key);
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_EQ(head->size, key.size() + 8);
  }
  std::vector<std::string> sorted = kOddKeys;
  std::ranges::sort(sorted, [](const std::string& a, const std::string& b) {
    return std::ranges::lexicographical_compare(a, b, [](char x, char y) {
      return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
    });
  });
  const Result<ListPage> page = List(Listing(""));
  ASSERT_TRUE(page) << page.error().message;
  std::vector<std::string> listed;
  for (const ListedObject& object : page->objects) listed.push_back(object.key);
  EXPECT_EQ(listed, sorted);
}

TEST_F(S3ClientTest, AListGoesPageByPage) {
  std::vector<std::string> keys;
  keys.reserve(25);
  for (int i = 0; i < 25; ++i) keys.push_back("p/" + std::string(1, static_cast<char>('a' + i)));
  for (const std::string& key : keys) server_.Put("data", key, key);
  server_.Put("data", "q", "not below the prefix");
  ListRequest request = Listing("p/");
  request.max_keys = 10;
  std::vector<std::string> listed;
  int pages = 0;
  do {
    const Result<ListPage> page = List(request);
    ASSERT_TRUE(page) << page.error().message;
    for (const ListedObject& object : page->objects) listed.push_back(object.key);
    request.continuation = page->next;
    ++pages;
  } while (!request.continuation.empty() && pages < 10);
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(listed, keys);
  request.continuation.clear();
  request.start_after = "p/w";
  const Result<ListPage> rest = List(request);
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->objects.size(), 2U);
  EXPECT_EQ(rest->objects.at(0).mtime_s, 1665597000);
}

TEST_F(S3ClientTest, ADelimiterGivesCommonPrefixes) {
  for (const char* key : {"d/a/1", "d/a/2", "d/b/1", "d/file"}) server_.Put("data", key, "x");
  ListRequest request = Listing("d/");
  request.delimiter = "/";
  const Result<ListPage> page = List(request);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_THAT(page->common_prefixes, ElementsAre("d/a/", "d/b/"));
  ASSERT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(page->objects[0].key, "d/file");
}

TEST_F(S3ClientTest, AHeadSaysWhatAListSays) {
  const std::string etag = server_.Put("data", "k", "12345", "GLACIER");
  const Result<ObjectHead> head = Head("k");
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->size, 5U);
  EXPECT_EQ(head->etag, etag);
  EXPECT_EQ(head->mtime_s, 1665597000);
  EXPECT_EQ(head->storage_class, "GLACIER");
}

TEST_F(S3ClientTest, OneConnectionServesOneRequestAfterTheOther) {
  const GetRequest request = Stored("k", Bytes(40'000), 0, 40'000);
  for (int i = 0; i < 20; ++i) {
    TextSink sink;
    ASSERT_TRUE(Get(request, sink));
    ASSERT_EQ(Head("absent").error().code, Code::kNotFound) << "an error keeps the connection too";
  }
  EXPECT_EQ(server_.connections(), 1U);
}

// `count` readers of one object, each of its own part, on two event loops.
void ReadInParallel(S3Client& client, const GetRequest& whole, const std::string& body,
                    std::size_t count) {
  const std::size_t part = body.size() / count;
  std::vector<TextSink> sinks(count);
  std::vector<std::optional<Status>> done(count);
  std::atomic<std::size_t> ended{0};
  IoPool pool("test", 2);
  for (std::size_t i = 0; i < count; ++i) {
    GetRequest request = whole;
    request.stats = nullptr;
    request.offset = i * part;
    request.length = part;
    asio::co_spawn(pool.Next(), client.Get(request, sinks[i], Deadline::After(30s)),
                   [&, i](std::exception_ptr failed, Status status) {
                     EXPECT_FALSE(failed);
                     done[i] = std::move(status);
                     ++ended;
                     ended.notify_one();
                   });
  }
  pool.Start();
  for (std::size_t n = ended; n < count; n = ended) ended.wait(n);
  pool.Stop();
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(done[i] && *done[i]) << (done[i] ? done[i]->error().message : "no end");
    ASSERT_EQ(sinks[i].text, body.substr(i * part, part));
  }
}

TEST_F(S3ClientTest, ManyReadersAtOnceGetTheirOwnBytes) {
  const std::string body = Bytes(6'400'000);
  ReadInParallel(Client(), Stored("big", body, 0, 1), body, 64);
  EXPECT_LE(server_.connections(), 64U);
  EXPECT_EQ(Client().counters().get_bytes, body.size());
}

TEST_F(S3ClientTest, NeverOpensMoreConnectionsThanItMay) {
  S3Options options = FastOptions();
  options.http.max_connections = 3;
  Restart(options);
  const std::string body = Bytes(400'000);
  ReadInParallel(Client(), Stored("big", body, 0, 1), body, 40);
  EXPECT_LE(server_.connections(), 3U);
}

}  // namespace
}  // namespace forebay
