#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/component/s3/s3_fixture.h"

namespace forebay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

// A variable of this process, which libcurl reads itself, for the length of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread of this test runs yet
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the client has stopped
    ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class S3ClientNetworkTest : public S3ClientTest {
 protected:
  // Asks for a page of a bucket at `endpoint`, which cannot be had.
  std::string Refused(const std::string& endpoint, S3Options options = FastOptions()) {
    ListRequest request = Listing("");
    request.origin.endpoint = endpoint;
    Restart(std::move(options));
    const Result<ListPage> page = List(request, 2s);
    client_.reset();
    return page ? "" : page.error().message;
  }
};

TEST_F(S3ClientNetworkTest, TheProxyOfTheEnvironmentLeadsToFarPlacesAlone) {
  server_.SetHandler([](const fakes::S3RequestSeen&) {
    fakes::S3Answer answer;
    answer.status = 407;
    return answer;
  });
  const Variable proxy("HTTPS_PROXY", server_.endpoint());
  EXPECT_NE(Refused("https://s3.forebay.invalid"), "");
  ASSERT_FALSE(server_.requests().empty());
  const fakes::S3RequestSeen seen = server_.requests().at(0);
  EXPECT_EQ(seen.method, "CONNECT");
  EXPECT_EQ(seen.target, "s3.forebay.invalid:443");
  EXPECT_EQ(seen.Header("authorization"), "") << "the proxy learns nothing";

  const std::size_t before = server_.connections();
  const Variable none("NO_PROXY", "forebay.invalid");
  EXPECT_NE(Refused("https://s3.forebay.invalid"), "");
  EXPECT_NE(Refused("https://127.0.0.1:1"), "") << "this machine needs no NO_PROXY";
  EXPECT_EQ(server_.connections(), before);
}

TEST_F(S3ClientNetworkTest, ANameThatDoesNotResolveIsTriedAgainAndCountedByItself) {
  S3Options options = FastOptions();
  options.http.connect_timeout = 300ms;  // a name service that does not answer is one failure too
  Restart(std::move(options));
  ListRequest request = Listing("");
  request.origin.endpoint = "http://s3.forebay.invalid:1";  // RFC 2606: no such name, ever
  const Result<ListPage> page = List(request, 2s);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::kUnavailable) << "unknown is not absent";
  EXPECT_THAT(page.error().message,
              AllOf(HasSubstr("s3.forebay.invalid"), HasSubstr("the name service")));
  EXPECT_GT(Retries(RetryReason::kDns), 0U);
  EXPECT_EQ(Retries(RetryReason::kNetwork), 0U);

  // A name that does, where nobody listens, is no fault of the name service.
  const std::uint64_t unresolved = Retries(RetryReason::kDns);
  request.origin.endpoint = "http://127.0.0.1:1";
  EXPECT_FALSE(List(request, 1s));
  EXPECT_GT(Retries(RetryReason::kNetwork), 0U);
  EXPECT_EQ(Retries(RetryReason::kDns), unresolved);
}

TEST_F(S3ClientNetworkTest, ABundleThatCannotBeReadIsNamed) {
  S3Options options = FastOptions();
  options.http.ca_bundle = CaBundleOf("", AwsEnvironment({{"AWS_CA_BUNDLE", "/no/such/ca.pem"}}));
  const std::string said = Refused("https" + server_.endpoint().substr(4), options);
  EXPECT_THAT(said, HasSubstr("/no/such/ca.pem"));
  EXPECT_THAT(said, HasSubstr("--s3-ca-bundle"));
}

TEST_F(S3ClientNetworkTest, TheBundleOfALinksProfileIsTakenAndNamed) {
  S3Options options = FastOptions();
  options.ca_bundle_of = [](const std::string& profile) { return "/no/such/" + profile + ".pem"; };
  Restart(std::move(options));
  ListRequest request = Listing("");
  request.origin.endpoint = "https" + server_.endpoint().substr(4);
  request.origin.profile = "lab";
  request.origin.sign = false;  // also where no keys are looked for
  const Result<ListPage> page = List(request, 2s);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::kInvalid);
  EXPECT_THAT(page.error().message,
              AllOf(HasSubstr("/no/such/lab.pem"), HasSubstr("ca_bundle of profile 'lab'"),
                    HasSubstr("the file of certificates cannot be used; correct it")));
  request.origin.profile = "";
  EXPECT_THAT(List(request, 2s).error().message, Not(HasSubstr("/no/such/")));
}

}  // namespace
}  // namespace forebay
