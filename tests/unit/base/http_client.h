#pragma once

#include <string>

namespace forebay {

struct HttpAnswer {
  int status = 0;  ///< 0 = the connection ended without a status line.
  std::string headers;
  std::string body;
};

/// A connection to "127.0.0.1:port" that sends what a test wants, well-formed or not. Each wait
/// ends after 10 s.
class HttpConnection {
 public:
  explicit HttpConnection(const std::string& address);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool Send(const std::string& bytes);
  /// Everything until the server closes; nothing more after a reset.
  std::string ReadAll();

 private:
  int fd_ = -1;
};

/// One request whose answer closes the connection.
HttpAnswer HttpRequest(const std::string& address, const std::string& method,
                       const std::string& path);

}  // namespace forebay
