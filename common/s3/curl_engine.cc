#include "common/s3/curl_engine.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/s3/list_parser.h"

namespace forebay {

// The lock is held during every call to the listener: whoever takes it and removes the listener
// knows that no call is running.
struct CurlEngine::TransferState {
  TransferState(HttpRequest r, HttpListener* l) : request(std::move(r)), listener(l) {}

  bool Detached() {
    std::scoped_lock lock(mutex);
    return listener == nullptr;
  }
  bool Head(const ResponseHead& head) {
    std::scoped_lock lock(mutex);
    return listener != nullptr && listener->OnHead(head);
  }
  bool Body(ByteView bytes) {
    std::scoped_lock lock(mutex);
    return listener != nullptr && listener->OnBody(bytes);
  }
  void End(TransportEnd end) {
    std::scoped_lock lock(mutex);
    HttpListener* last = std::exchange(listener, nullptr);
    if (last != nullptr) last->OnEnd(std::move(end));
  }

  const HttpRequest request;
  std::mutex mutex;
  HttpListener* listener;  // null = ended or detached
};

// What callers and the thread both touch.
struct CurlEngine::Shared {
  void Wake() {
    std::scoped_lock lock(mutex);
    if (multi != nullptr) curl_multi_wakeup(multi);
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<TransferState>> submitted;
  std::size_t waiting = 0;  // submitted and not yet begun
  bool stopping = false;
  CURLM* multi = nullptr;  // null before Start and once the thread has ended
  std::atomic<bool> some_detached{false};
};

namespace {

using State = CurlEngine::TransferState;

// 64 KiB of receive buffer: 16 MiB at 256 connections, and a 40 KB object in one or two reads.
constexpr long kReceiveBufferBytes = 64L * 1024;

TransportEnd Stopped() { return {TransportEnd::Kind::kStopped, "the S3 client is stopping"}; }

long Milliseconds(Duration d) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(d).count());
}

// One request in the hands of libcurl.
struct Exchange {
  std::shared_ptr<State> state;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  ResponseHead head;
  bool head_done = false;
  std::optional<TimePoint> sent_at;  // nothing = still connecting
  std::uint64_t received = 0;
  std::uint64_t mark_received = 0;  // `received` at `mark_at`
  TimePoint mark_at;                // kStallBytes before this moment had come by then
  std::array<char, CURL_ERROR_SIZE> error{};

  // The end that the watch has decided on.
  std::optional<TransportEnd> Overdue(const CurlOptions& options, TimePoint now) const {
    if (!head_done) {
      if (!sent_at || now - *sent_at < options.first_byte_timeout) return std::nullopt;
      return TransportEnd{TransportEnd::Kind::kNoFirstByte,
                          fmt::format("no answer within {} ms after the request was sent",
                                      Milliseconds(options.first_byte_timeout))};
    }
    if (now - mark_at < options.stall_timeout) return std::nullopt;
    return TransportEnd{TransportEnd::Kind::kStalled,
                        fmt::format("the body stopped for {} ms after {} bytes",
                                    Milliseconds(options.stall_timeout), received)};
  }

  void Received(std::size_t bytes) {
    received += bytes;
    if (received - mark_received < CurlEngine::kStallBytes) return;
    mark_received = received;
    mark_at = Clock::now();
  }
};

// What S3 has not acknowledged when its answer is given up is not sent again behind our back, when
// the way to S3 is back: by then somebody else may have asked.
int OnSocket(void* user, curl_socket_t socket, curlsocktype purpose) {
  const auto most_ms = static_cast<unsigned>(*static_cast<const long*>(user));
  if (purpose == CURLSOCKTYPE_IPCXN)
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof(most_ms));
  return CURL_SOCKOPT_OK;
}

// Called when the connection stands and the request goes out.
int OnRequest(void* user, char* /*ip*/, char* /*local_ip*/, int /*port*/, int /*local_port*/) {
  static_cast<Exchange*>(user)->sent_at = Clock::now();
  return CURL_PREREQFUNC_OK;
}

// "HTTP/1.1 206 Partial Content"; 0 when there is no number, which no check accepts.
int StatusOf(std::string_view line) {
  const std::size_t blank = std::min(line.find(' '), line.size() - 1);
  const std::optional<std::uint64_t> status = ParseDecimal(line.substr(blank + 1, 3));
  return status ? static_cast<int>(*status) : 0;
}

std::size_t OnHeaderLine(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::size_t bytes = size * count;
  std::string_view line(data, bytes);
  if (exchange.head_done) return bytes;  // a trailer
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    exchange.head = ResponseHead{};
    exchange.head.status = StatusOf(line);
  } else if (!line.empty()) {
    exchange.head.AddLine(line);
  } else if (exchange.head.status >= 200) {  // 1xx announces the real answer
    exchange.head_done = true;
    exchange.mark_at = Clock::now();
    if (!exchange.state->Head(exchange.head)) return 0;
  }
  return bytes;
}

std::size_t OnBodyBytes(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::size_t bytes = size * count;
  exchange.Received(bytes);
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  return exchange.state->Body({begin, bytes}) ? bytes : CURL_WRITEFUNC_ERROR;
}

/// Only connecting has a time limit of libcurl's. Before it comes looking up the name, which has
/// not ended as long as it has no time.
TransportEnd::Kind KindOfTimeout(CURL* easy) {
  curl_off_t looked_up_us = 0;
  const bool known = curl_easy_getinfo(easy, CURLINFO_NAMELOOKUP_TIME_T, &looked_up_us) == CURLE_OK;
  return known && looked_up_us == 0 ? TransportEnd::Kind::kNoName
                                    : TransportEnd::Kind::kNoConnection;
}

TransportEnd::Kind KindOf(CURLcode code, CURL* easy) {
  switch (code) {
    case CURLE_OK:
      return TransportEnd::Kind::kComplete;
    case CURLE_WRITE_ERROR:
      return TransportEnd::Kind::kRefused;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return TransportEnd::Kind::kNoName;
    case CURLE_OPERATION_TIMEDOUT:
      return KindOfTimeout(easy);
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
      return TransportEnd::Kind::kNoConnection;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return TransportEnd::Kind::kUntrusted;
    case CURLE_SSL_CACERT_BADFILE:
      return TransportEnd::Kind::kNoBundle;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_NOT_BUILT_IN:
    case CURLE_BAD_FUNCTION_ARGUMENT:
    case CURLE_SSL_ENGINE_NOTFOUND:
      return TransportEnd::Kind::kUnusable;
    default:  // a hundred ways for a connection to break, and more with each libcurl
      return TransportEnd::Kind::kBroken;
  }
}

// The thread: everything of libcurl happens here.
class Loop {
 public:
  Loop(const CurlOptions& options, std::shared_ptr<CurlEngine::Shared> shared, CURLM* multi)
      : options_(options), shared_(std::move(shared)), multi_(multi) {
    // Stalls are seen at most an eighth of their bound late.
    const Duration shortest = std::min(options_.first_byte_timeout, options_.stall_timeout);
    watch_every_ = std::clamp<Duration>(shortest / 8, std::chrono::milliseconds(5),
                                        std::chrono::milliseconds(500));
  }

  void Run() {
    while (TakeSubmitted()) {
      BeginWaiting();
      int running = 0;
      curl_multi_perform(multi_, &running);
      Reap();
      DropDetached();
      Watch();
      BeginWaiting();
      const Duration sleep = running_.empty() ? std::chrono::seconds(60) : watch_every_;
      curl_multi_poll(multi_, nullptr, 0, static_cast<int>(Milliseconds(sleep)), nullptr);
    }
    EndEverything();
  }

 private:
  // False when the engine is to stop.
  bool TakeSubmitted() {
    std::scoped_lock lock(shared_->mutex);
    for (std::shared_ptr<State>& state : shared_->submitted) waiting_.push_back(std::move(state));
    shared_->submitted.clear();
    return !shared_->stopping;
  }

  void BeginWaiting() {
    std::size_t begun = 0;
    while (!waiting_.empty() && running_.size() < options_.max_connections) {
      std::shared_ptr<State> state = std::move(waiting_.front());
      waiting_.pop_front();
      ++begun;
      if (!state->Detached()) Begin(std::move(state));
    }
    if (begun == 0) return;
    std::scoped_lock lock(shared_->mutex);
    shared_->waiting -= begun;
  }

  void Begin(std::shared_ptr<State> state) {
    CURL* easy = nullptr;
    if (idle_.empty()) {
      easy = curl_easy_init();
    } else {
      easy = idle_.back();
      idle_.pop_back();
    }
    if (easy == nullptr) {
      state->End({TransportEnd::Kind::kBroken, "no memory for a connection"});
      return;
    }
    auto exchange = std::make_unique<Exchange>();
    exchange->state = std::move(state);
    exchange->easy = easy;
    Configure(*exchange);
    const CURLMcode added = curl_multi_add_handle(multi_, easy);
    Exchange& kept = *exchange;
    running_.emplace(easy, std::move(exchange));
    if (added != CURLM_OK) End(kept, {TransportEnd::Kind::kBroken, curl_multi_strerror(added)});
  }

  void Configure(Exchange& exchange) {
    const HttpRequest& request = exchange.state->request;
    CURL* easy = exchange.easy;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);  // keys may hold "..", and are signed so
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    // A proxy's own answer to CONNECT is none of S3's.
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_NOBODY, request.head_only ? 1L : 0L);
    for (const std::string& header : request.headers) {
      exchange.headers = curl_slist_append(exchange.headers, header.c_str());
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange.headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, options_.user_agent.c_str());
    // A connection is used again only by requests with the same file: libcurl compares its name.
    const std::string& bundle = request.ca_bundle.empty() ? options_.ca_bundle : request.ca_bundle;
    if (!bundle.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, bundle.c_str());
    if (request.loopback) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request.fresh_connection ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // a drop must not wait for a slow DNS
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBufferBytes);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(options_.connect_timeout));
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &OnSocket);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, &first_byte_ms_);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange.error.data());
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &OnRequest);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, &exchange);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeaderLine);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBodyBytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  }

  void Reap() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const auto found = running_.find(message->easy_handle);
      if (found == running_.end()) continue;
      Exchange& exchange = *found->second;
      const CURLcode code = message->data.result;
      std::string detail =
          exchange.error[0] != '\0' ? exchange.error.data() : curl_easy_strerror(code);
      TransportEnd end{KindOf(code, message->easy_handle), std::move(detail)};
      // libcurl calls an answer without a single header line complete when it is HTTP/0.9.
      if (end.kind == TransportEnd::Kind::kComplete && !exchange.head_done) {
        end.kind = TransportEnd::Kind::kBroken;
      }
      End(exchange, std::move(end));
    }
  }

  void DropDetached() {
    if (!shared_->some_detached.exchange(false, std::memory_order_acq_rel)) return;
    EndWhere([](Exchange& exchange) -> std::optional<TransportEnd> {
      if (!exchange.state->Detached()) return std::nullopt;
      return TransportEnd{TransportEnd::Kind::kStopped, "dropped"};
    });
  }

  void Watch() {
    const TimePoint now = Clock::now();
    if (now - watched_at_ < watch_every_ / 2) return;
    watched_at_ = now;
    EndWhere([&](Exchange& exchange) { return exchange.Overdue(options_, now); });
  }

  template <typename Judge>
  void EndWhere(Judge judge) {
    std::vector<std::pair<Exchange*, TransportEnd>> ended;
    for (auto& [easy, exchange] : running_) {
      std::optional<TransportEnd> end = judge(*exchange);
      if (end) ended.emplace_back(exchange.get(), *std::move(end));
    }
    for (auto& [exchange, end] : ended) End(*exchange, std::move(end));
  }

  // Removing a handle in mid-transfer closes its connection; a finished one's stays open for reuse.
  void End(Exchange& exchange, TransportEnd end) {
    curl_multi_remove_handle(multi_, exchange.easy);
    curl_slist_free_all(exchange.headers);
    if (idle_.size() < options_.max_connections) {
      idle_.push_back(exchange.easy);
    } else {
      curl_easy_cleanup(exchange.easy);
    }
    const auto taken = running_.extract(exchange.easy);
    taken.mapped()->state->End(std::move(end));
  }

  void EndEverything() {
    EndWhere([](Exchange&) { return std::optional<TransportEnd>(Stopped()); });
    for (const std::shared_ptr<State>& state : waiting_) state->End(Stopped());
    for (CURL* easy : idle_) curl_easy_cleanup(easy);
  }

  const CurlOptions& options_;
  const long first_byte_ms_ = Milliseconds(options_.first_byte_timeout);
  const std::shared_ptr<CurlEngine::Shared> shared_;
  CURLM* const multi_;
  Duration watch_every_;
  TimePoint watched_at_;
  std::deque<std::shared_ptr<State>> waiting_;
  std::unordered_map<CURL*, std::unique_ptr<Exchange>> running_;
  std::vector<CURL*> idle_;
};

}  // namespace

CurlEngine::CurlEngine(CurlOptions options)
    : options_(std::move(options)), shared_(std::make_shared<Shared>()) {}

CurlEngine::~CurlEngine() { Stop(); }

void CurlEngine::Start() {
  // Once per process, before libcurl's first use; it is never undone, as other engines may live on.
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURLM* multi = initialised == CURLE_OK ? curl_multi_init() : nullptr;
  if (multi == nullptr) {
    spdlog::critical("libcurl cannot be initialised: nothing can be read from S3");
    std::abort();
  }
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.max_connections));
  {
    std::scoped_lock lock(shared_->mutex);
    shared_->multi = multi;
  }
  thread_ = std::thread([this, multi] {
    pthread_setname_np(pthread_self(), "s3-http");
    Loop(options_, shared_, multi).Run();
    std::scoped_lock lock(shared_->mutex);
    shared_->multi = nullptr;
    curl_multi_cleanup(multi);
  });
}

void CurlEngine::Stop() {
  {
    std::scoped_lock lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->Wake();
  if (thread_.joinable()) thread_.join();
  // What was submitted to an engine that never started.
  std::vector<std::shared_ptr<TransferState>> left;
  {
    std::scoped_lock lock(shared_->mutex);
    left.swap(shared_->submitted);
  }
  for (const auto& state : left) state->End(Stopped());
}

CurlEngine::Transfer CurlEngine::Submit(HttpRequest request, HttpListener& listener) {
  auto state = std::make_shared<TransferState>(std::move(request), &listener);
  std::optional<TransportEnd> refused;
  {
    std::scoped_lock lock(shared_->mutex);
    if (shared_->stopping) {
      refused = Stopped();
    } else if (shared_->waiting >= kMaxWaiting) {
      refused = TransportEnd{TransportEnd::Kind::kQueueFull, "too many S3 requests are waiting"};
    } else {
      ++shared_->waiting;
      shared_->submitted.push_back(state);
      if (shared_->multi != nullptr) curl_multi_wakeup(shared_->multi);
    }
  }
  if (refused) state->End(*std::move(refused));
  return Transfer(std::move(state), shared_);
}

CurlEngine::Transfer::Transfer(std::shared_ptr<TransferState> state, std::shared_ptr<Shared> shared)
    : state_(std::move(state)), shared_(std::move(shared)) {}

void CurlEngine::Transfer::Detach() {
  {
    std::scoped_lock lock(state_->mutex);
    if (state_->listener == nullptr) return;
    state_->listener = nullptr;
  }
  shared_->some_detached.store(true, std::memory_order_release);
  shared_->Wake();
}

}  // namespace forebay
