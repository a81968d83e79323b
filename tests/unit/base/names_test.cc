// Names that people write: what they were probably meant to be, and addresses.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/host_port.h"
#include "common/base/nearest.h"

namespace forebay {
namespace {

const std::vector<std::string> kKeys = {"listen", "advertise", "cache_dir"};

TEST(Nearest, CountsInsertedDroppedChangedAndSwappedLetters) {
  EXPECT_EQ(EditDistance("listen", "listen"), 0U);
  EXPECT_EQ(EditDistance("", "abc"), 3U);
  EXPECT_EQ(EditDistance("listn", "listen"), 1U);
  EXPECT_EQ(EditDistance("liisten", "listen"), 1U);
  EXPECT_EQ(EditDistance("lusten", "listen"), 1U);
  EXPECT_EQ(EditDistance("lsiten", "listen"), 1U);
  EXPECT_EQ(EditDistance("Cache-Dir", "cache_dir"), 0U);
}

TEST(Nearest, NamesTheNearestOrAllThatAreKnown) {
  EXPECT_EQ(Suggest("listn", kKeys), "did you mean listen?");
  EXPECT_EQ(Suggest("cache-dirs", kKeys), "did you mean cache_dir?");
  EXPECT_EQ(Suggest("zzzzzz", kKeys), "known are listen, advertise and cache_dir");
}

TEST(HostPort, ReadsNamesAndLiterals) {
  EXPECT_EQ(HostPort::Parse("127.0.0.1:7440").value(), (HostPort{"127.0.0.1", 7440}));
  EXPECT_EQ(HostPort::Parse("cache-3.local:1").value(), (HostPort{"cache-3.local", 1}));
  EXPECT_EQ(HostPort::Parse("[::1]:65535").value(), (HostPort{"::1", 65535}));
  EXPECT_EQ(HostPort::Parse("[::1]:0").value().ToString(), "[::1]:0");
  EXPECT_EQ(HostPort::Parse("a:80").value().ToString(), "a:80");
}

TEST(HostPort, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "host", ":80", "host:", "host:x", "host:65536", "::1:80", "[::1]",
                           "[::1:80", "[]:80", "[host]:80", "a b:80", "a,b:80", "http://a:80"}) {
    const Result<HostPort> parsed = HostPort::Parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().message, "\"" + std::string(text) +
                                          "\" is not an address; write HOST:PORT, such as "
                                          "127.0.0.1:7440");
  }
}

TEST(HostPort, KnowsWhatOtherMachinesCannotReach) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(HostPort::Parse(text).value().IsLoopback()) << text;
  }
  for (const char* text :
       {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fe80::1]:1", "localhost.evil:1"}) {
    EXPECT_FALSE(HostPort::Parse(text).value().IsLoopback()) << text;
  }
}

}  // namespace
}  // namespace forebay
