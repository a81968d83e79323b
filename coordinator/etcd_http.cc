#include "coordinator/etcd_http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

namespace forebay {
namespace {

/// An endpoint that does not answer costs this much before the next one is asked.
constexpr std::chrono::milliseconds kConnectPatience{1000};
/// Ours are small; what is larger is no answer of etcd's.
constexpr std::size_t kLargestBody = std::size_t{256} << 20;

struct Body {
  std::string bytes;
  const std::function<bool(std::string_view)>* enough = nullptr;
  bool was_enough = false;
};

std::size_t OnBytes(char* data, std::size_t size, std::size_t count, void* user) {
  auto& body = *static_cast<Body*>(user);
  const std::size_t bytes = size * count;
  if (body.bytes.size() + bytes > kLargestBody) return CURL_WRITEFUNC_ERROR;
  body.bytes.append(data, bytes);
  if (!*body.enough || !(*body.enough)(body.bytes)) return bytes;
  body.was_enough = true;
  return CURL_WRITEFUNC_ERROR;
}

Error FailureOf(CURLcode code, const std::string& detail, const std::string& endpoint) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return Error{Code::kDenied,
                   fmt::format("the certificate of etcd at {} is not accepted ({}): name the "
                               "authority that signed it with --etcd-ca",
                               endpoint, detail)};
    case CURLE_SSL_CERTPROBLEM:
      return Error{Code::kDenied,
                   fmt::format("the certificate for etcd cannot be used ({}): check --etcd-cert "
                               "and --etcd-key",
                               detail)};
    default:  // a hundred ways for a connection to break, and more with each libcurl
      return Error{Code::kUnavailable, fmt::format("etcd at {}: {}", endpoint, detail)};
  }
}

struct HeaderList {
  explicit HeaderList(const Secret& token) {
    Add("Content-Type: application/json");
    Add("Expect:");  // no round trip before the body
    if (!token.empty()) Add("Authorization: " + std::string(token.Reveal()));
  }
  ~HeaderList() { curl_slist_free_all(list); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void Add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
  curl_slist* list = nullptr;
};

}  // namespace

EtcdHttp::~EtcdHttp() {
  for (void* handle : idle_) curl_easy_cleanup(handle);
}

void* EtcdHttp::TakeHandle() {
  // Once per process, before libcurl's first use.
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) return nullptr;
  const std::scoped_lock lock(mutex_);
  if (idle_.empty()) return curl_easy_init();
  void* handle = idle_.back();
  idle_.pop_back();
  return handle;
}

void EtcdHttp::Configure(void* handle, Deadline deadline) const {
  curl_easy_reset(handle);
  const auto left = std::max<long>(1, static_cast<long>(deadline.RemainingMs().count()));
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, left);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
                   std::min<long>(left, static_cast<long>(kConnectPatience.count())));
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_NODELAY, 1L);
  if (!options_.ca_bundle.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, options_.ca_bundle.c_str());
  }
  if (!options_.certificate.empty()) {
    curl_easy_setopt(handle, CURLOPT_SSLCERT, options_.certificate.c_str());
    curl_easy_setopt(handle, CURLOPT_SSLKEY, options_.key.c_str());
  }
}

Result<EtcdHttp::Answer> EtcdHttp::Post(const std::string& endpoint, const std::string& path,
                                        const std::string& body, const Secret& token,
                                        Deadline deadline,
                                        const std::function<bool(std::string_view)>& enough,
                                        bool* was_sent) {
  if (was_sent != nullptr) *was_sent = false;
  std::unique_ptr<void, decltype(&curl_easy_cleanup)> owned(TakeHandle(), curl_easy_cleanup);
  if (!owned) return Fail(Code::kInternal, "libcurl cannot be initialised: etcd cannot be reached");
  CURL* const handle = owned.get();
  Configure(handle, deadline);
  const std::string url = endpoint + path;
  const HeaderList headers(token);
  Body answer;
  answer.enough = &enough;
  std::array<char, CURL_ERROR_SIZE> error{};
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.list);
  curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &OnBytes);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, error.data());
  const CURLcode code = curl_easy_perform(handle);
  long sent_bytes = 0;
  curl_easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &sent_bytes);
  if (was_sent != nullptr) *was_sent = sent_bytes > 0;
  // A stream from which nothing more came in its time.
  const bool quiet = enough && code == CURLE_OPERATION_TIMEDOUT && !answer.bytes.empty();
  if (code != CURLE_OK && !answer.was_enough && !quiet) {
    const std::string detail = error[0] != '\0' ? error.data() : curl_easy_strerror(code);
    return Fail(FailureOf(code, detail, endpoint));
  }
  Answer reply;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &reply.status);
  reply.body = std::move(answer.bytes);
  // Nothing of this call may stay in a handle that the next one gets.
  curl_easy_reset(handle);
  const std::scoped_lock lock(mutex_);
  idle_.push_back(owned.release());
  return reply;
}

}  // namespace forebay
