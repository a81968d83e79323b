#include "common/base/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/base/executors.h"
#include "tests/unit/base/http_client.h"

namespace forebay {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    EXPECT_TRUE(server_.Listen("127.0.0.1:0"));
    pool_.Start();
  }
  ~HttpServerTest() override { pool_.Stop(); }

  IoPool pool_{"http", 1};
  HttpServer server_{pool_.At(0),
                     {{"/hello", [] { return HttpReply{.body = "world\n"}; }},
                      {"/busy", [] { return HttpReply{.status = 503, .body = "not yet\n"}; }}}};
};

TEST_F(HttpServerTest, AnswersKnownPaths) {
  const HttpAnswer answer = HttpRequest(server_.address(), "GET", "/hello?from=test");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "world\n");
  EXPECT_THAT(answer.headers, HasSubstr("Content-Length: 6"));
  EXPECT_THAT(answer.headers, HasSubstr("Content-Type: text/plain; charset=utf-8"));
  EXPECT_EQ(HttpRequest(server_.address(), "GET", "/busy").status, 503);
}

TEST_F(HttpServerTest, UnknownPathsAndMethodsAreTold) {
  const HttpAnswer missing = HttpRequest(server_.address(), "GET", "/");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.body, HasSubstr("/hello"));
  const HttpAnswer refused = HttpRequest(server_.address(), "DELETE", "/hello");
  EXPECT_EQ(refused.status, 405);
  EXPECT_THAT(refused.headers, HasSubstr("Allow: GET, HEAD"));
}

TEST_F(HttpServerTest, HeadHasTheLengthAndNoBody) {
  const HttpAnswer answer = HttpRequest(server_.address(), "HEAD", "/hello");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.headers, HasSubstr("Content-Length: 6"));
  EXPECT_EQ(answer.body, "");
}

TEST_F(HttpServerTest, AConnectionIsUsedAgain) {
  HttpConnection connection(server_.address());
  connection.Send(
      "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n"
      "GET /busy HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  const std::string text = connection.ReadAll();
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(text, HasSubstr("HTTP/1.1 503 "));
}

TEST_F(HttpServerTest, BadRequestsAreRefusedAndClosed) {
  const std::string header(9000, 'x');
  for (const auto& [request, status] : std::vector<std::pair<std::string, std::string>>{
           {"GARBAGE\r\n\r\n", "400"},
           {"GET /hello HTTP/1.1\r\nX: " + header + "\r\n\r\n", "431"},
           {"GET /hello HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", "413"}}) {
    HttpConnection connection(server_.address());
    connection.Send(request);
    EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 " + status + " "));
  }
  EXPECT_EQ(HttpRequest(server_.address(), "GET", "/hello").status, 200);
}

TEST_F(HttpServerTest, SilentConnectionsAreBoundedInNumberAndTime) {
  std::vector<std::unique_ptr<HttpConnection>> silent;
  for (int i = 0; i < 64; ++i) {
    silent.push_back(std::make_unique<HttpConnection>(server_.address()));
    EXPECT_TRUE(silent.back()->Send("GET /hel"));
  }
  EXPECT_EQ(HttpRequest(server_.address(), "GET", "/hello").status, 0) << "the 65th is turned away";
  EXPECT_EQ(silent.front()->ReadAll(), "") << "closed by the server when it is still silent";
  silent.clear();
  // The server notices the closed connections in its own time: wait for it, with a bound.
  int status = 0;
  for (int i = 0; i < 1000 && status != 200; ++i) {
    status = HttpRequest(server_.address(), "GET", "/hello").status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, ListensAtAllAddressesWhenItIsToldTo) {
  HttpServer server(pool_.At(0), {{"/hello", [] { return HttpReply{.body = "hello"}; }}});
  ASSERT_TRUE(server.Listen("0.0.0.0:0"));
  const std::string port = server.address().substr(server.address().rfind(':'));
  EXPECT_EQ(HttpRequest("127.0.0.1" + port, "GET", "/hello").status, 200);
}

TEST_F(HttpServerTest, LooksUpNoNameToListenAt) {
  HttpServer server(pool_.At(0), {});
  for (const char* address : {"example.org:80", "nonsense"}) {
    const Status status = server.Listen(address);
    ASSERT_FALSE(status) << address;
    EXPECT_EQ(status.error().code, Code::kInvalid);
  }
}

TEST_F(HttpServerTest, AnAddressInUseIsAnErrorThatNamesTheFlag) {
  HttpServer second(pool_.At(0), {});
  const Status status = second.Listen(server_.address());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInternal);
  EXPECT_THAT(status.error().message,
              testing::AllOf(HasSubstr("cannot listen on " + server_.address()),
                             HasSubstr("Address already in use"), HasSubstr("--metrics-listen")));
}

}  // namespace
}  // namespace forebay
