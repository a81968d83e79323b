#include "common/s3/auth/http_fetch.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string_view>

#include "common/s3/response_checks.h"

namespace forebay {
namespace {

// Answers are a few KiB; what is longer comes from something else.
constexpr std::size_t kMaxBodyBytes = std::size_t{1} << 20;

struct Exchange {
  FetchReply reply;
  ResponseHead head;
  const std::stop_token& stop;
  bool too_long = false;
};

std::size_t OnHeaderLine(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  std::string_view line(data, size * count);
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  exchange.head.AddLine(line);
  return size * count;
}

std::size_t OnBodyBytes(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::size_t bytes = size * count;
  exchange.too_long = bytes > kMaxBodyBytes - exchange.reply.body.size();
  if (exchange.too_long) return CURL_WRITEFUNC_ERROR;
  exchange.reply.body.append(data, bytes);
  return bytes;
}

// Called about once a second while nothing moves, and more often while something does.
int OnProgress(void* user, curl_off_t /*down_all*/, curl_off_t /*down*/, curl_off_t /*up_all*/,
               curl_off_t /*up*/) {
  return static_cast<const Exchange*>(user)->stop.stop_requested() ? 1 : 0;
}

long Milliseconds(Duration d) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(d).count());
}

// Scheme and host: the rest may hold a secret.
std::string_view HostOf(std::string_view url) {
  const std::size_t scheme = url.find("://");
  return url.substr(0, url.find_first_of("/?#", scheme == std::string_view::npos ? 0 : scheme + 3));
}

bool IsHopeless(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return true;
    default:
      return false;
  }
}

void Configure(CURL* easy, const FetchRequest& request, curl_slist* headers, Exchange& exchange) {
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // a stop must not wait for a slow DNS
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(request.connect_timeout));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, Milliseconds(request.timeout));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request.method == "POST") {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
  } else {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (request.direct) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  if (!request.ca_bundle.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, request.ca_bundle.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeaderLine);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBodyBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &exchange);
}

}  // namespace

Result<FetchReply> Fetch(const FetchRequest& request, std::stop_token stop) {
  // Once per process and never undone, as in CurlEngine.
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(
      initialised == CURLE_OK ? curl_easy_init() : nullptr, &curl_easy_cleanup);
  if (!easy) return Fail(Code::kInternal, "libcurl cannot be used: no memory for a connection");
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  // libcurl keeps a copy of it until the exchange is over.
  const std::string secret(request.secret_header.Reveal());
  if (!secret.empty()) list = curl_slist_append(list, secret.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                            &curl_slist_free_all);
  Exchange exchange{.reply = {}, .head = {}, .stop = stop};
  std::array<char, CURL_ERROR_SIZE> words{};
  Configure(easy.get(), request, headers.get(), exchange);
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, words.data());
  const CURLcode code = curl_easy_perform(easy.get());
  if (exchange.too_long) {
    return Fail(Code::kInvalid, fmt::format("{} answered more than 1 MiB: it is no such service",
                                            HostOf(request.url)));
  }
  if (code != CURLE_OK) {
    const std::string_view why = words[0] != '\0' ? words.data() : curl_easy_strerror(code);
    return Fail(IsHopeless(code) ? Code::kInvalid : Code::kUnavailable,
                fmt::format("{} did not answer: {}", HostOf(request.url), why));
  }
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  exchange.reply.status = static_cast<int>(status);
  exchange.reply.bucket_region = exchange.head.bucket_region;
  return std::move(exchange.reply);
}

}  // namespace forebay
