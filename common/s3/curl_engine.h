#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/s3/response_checks.h"

namespace forebay {

struct HttpRequest {
  bool head_only = false;            ///< HEAD, else GET.
  std::string url;                   ///< Encoded; sent as it is.
  std::vector<std::string> headers;  ///< "name: value"
  bool fresh_connection = false;     ///< After a connection failed: do not take a waiting one.
  bool loopback = false;             ///< Never through a proxy.
  std::string ca_bundle;             ///< "" = CurlOptions::ca_bundle.
};

/// How a request ended.
struct TransportEnd {
  enum class Kind : std::uint8_t {
    kComplete,      ///< The whole answer came; what it says is another matter.
    kRefused,       ///< The listener did not want it.
    kNoName,        ///< The host's name was not resolved, or not in time.
    kNoConnection,  ///< No route, refused, no TLS, or all of that too slow.
    kUntrusted,     ///< The server's certificate is not accepted.
    kNoBundle,      ///< The file of certificates that would vouch for it cannot be used.
    kNoFirstByte,   ///< Nothing came after the request was sent.
    kStalled,       ///< The body stopped.
    kBroken,        ///< The connection ended or said something that is no HTTP.
    kUnusable,      ///< The request cannot be sent at all.
    kQueueFull,     ///< Too many requests wait already.
    kStopped,       ///< The engine stopped.
  };
  Kind kind = Kind::kComplete;
  std::string detail;  ///< For messages: "connection refused", with host and port.
};

/// Hears of one request, on the engine's thread, one call at a time: OnHead, OnBody any number of
/// times, OnEnd exactly once and last. Must not block.
class HttpListener {
 public:
  virtual ~HttpListener() = default;
  /// All headers of the final answer are there. False = unwanted: the connection is closed.
  virtual bool OnHead(const ResponseHead& head) = 0;
  virtual bool OnBody(ByteView bytes) = 0;
  virtual void OnEnd(TransportEnd end) = 0;
};

struct CurlOptions {
  std::size_t max_connections = 256;
  Duration connect_timeout = std::chrono::seconds(5);     ///< Name, TCP and TLS together.
  Duration first_byte_timeout = std::chrono::seconds(5);  ///< From the request sent to its headers.
  Duration stall_timeout = std::chrono::seconds(5);       ///< See kStallBytes.
  std::string ca_bundle;  ///< Of requests that name none; "" = the system's.
  std::string user_agent;
};

/// HTTP/1.1 over libcurl: one thread owns all connections and keeps them open for the next request.
/// Redirects are not followed; proxies are those of the environment (http_proxy, NO_PROXY …).
class CurlEngine {
 public:
  /// A body is stalled when fewer bytes than this came within the stall timeout.
  static constexpr std::size_t kStallBytes = std::size_t{16} * 1024;
  /// Requests that wait for a connection; callers bound their own far below.
  static constexpr std::size_t kMaxWaiting = 65536;

  explicit CurlEngine(CurlOptions options);
  ~CurlEngine();  ///< Calls Stop().
  CurlEngine(const CurlEngine&) = delete;
  CurlEngine& operator=(const CurlEngine&) = delete;

  void Start();
  /// Ends every request with kStopped and joins; later ones end so at once. Idempotent.
  void Stop();

  struct TransferState;
  struct Shared;

  /// The caller's hold on a request. May outlive the engine.
  class Transfer {
   public:
    Transfer(std::shared_ptr<TransferState> state, std::shared_ptr<Shared> shared);
    ~Transfer() { Detach(); }
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    /// When it returns, the listener is not being called and never will be again; a request that
    /// has not ended is dropped. From any thread but the engine's own. Idempotent.
    void Detach();

   private:
    std::shared_ptr<TransferState> state_;
    std::shared_ptr<Shared> shared_;
  };

  /// From any thread. `listener` must live until OnEnd or Detach.
  Transfer Submit(HttpRequest request, HttpListener& listener);

 private:
  const CurlOptions options_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace forebay
