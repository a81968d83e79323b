#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/scripted_s3.h"

namespace forebay::fakes {

/// What goes wrong at a scripted S3, and how often: rules that a test sends as JSON.
///
///   {"rules": [{"do": "status", "status": 503, "code": "SlowDown", "op": "GET", "key": "train/",
///               "every": 2, "skip": 0, "times": 100, "bytes": 1000, "ms": 50, "rate": 65536}],
///    "requests_per_s": 100, "key_ids": ["AKNEW"]}
///
/// A rule looks at requests of `op` (GET, HEAD, LIST, GET_VERSION and HEAD_VERSION for those of a
/// version by its id, VERSIONS for a list of versions; absent = all) whose key begins with `key`
/// (of a rule for LIST the prefix that is listed), leaves the first `skip` of them alone and bends
/// each `every`th one, `times` at most. The first rule that bends a request decides. `do`:
///   status       `status` and `code`, as S3 writes an error
///   delay, slow  the answer comes after `ms`; its body at `rate` bytes a second
///   cut, stall, reset    the body ends, stops or breaks after `bytes`
///   silent, hang_up      no byte comes; the connection stays, or is closed
///   wrong_range, wrong_total, no_range, wrong_etag, no_etag, one_more, one_less
///   error_body   the body of a good answer is the XML of an error
///   flip         the byte at `bytes` of the body is another one
///   change, gone the object is overwritten or deleted, then the request is answered
///   repeat_page, no_token, empty_page    a LIST that names its own page as the next one, is
///                truncated without a token, or holds nothing and says that more follows
/// `requests_per_s`: more than so many GETs, HEADs and LISTs a second are answered 503 SlowDown.
/// `key_ids`: requests that are signed with another key are answered 400 ExpiredToken.
/// `region`: requests that are signed for another one are answered 400
/// AuthorizationHeaderMalformed, which names it. `owner`: requests that expect another account's
/// bucket are answered 403, and so are, with `requester_pays`, those that do not offer to pay, and,
/// with `no_guests`, those without a signature.
class S3Script {
 public:
  explicit S3Script(ScriptedS3& server) : server_(server) {}
  /// Stops the server, which may still answer a request that nobody waits for any more.
  ~S3Script() { server_.Stop(); }
  S3Script(const S3Script&) = delete;
  S3Script& operator=(const S3Script&) = delete;

  /// Replaces what was set, and begins to count anew. False: `json` is no script.
  bool Set(std::string_view json);

  /// The answer to a request that is bent; nothing: the store answers.
  std::optional<S3Answer> AnswerTo(const S3RequestSeen& request);

  /// {"requests": {"GET": n, …}, "refused": n over requests_per_s, "expired": n,
  ///  "rules": [{"do": …, "seen": n, "made": n}, …], "busiest": requests of the busiest second}
  std::string Counts() const;

 private:
  struct Rule {
    std::string what;
    std::string op;
    std::string key;
    std::string code = "InternalError";
    int status = 500;
    std::uint64_t every = 1;
    std::uint64_t skip = 0;
    std::uint64_t times = UINT64_MAX;
    std::size_t bytes = 0;
    std::chrono::milliseconds delay{0};
    std::uint64_t rate = 0;
    // How often it was asked, and how often it made its fault.
    std::uint64_t seen = 0;
    std::uint64_t made = 0;

    bool Bends(const S3RequestSeen& request, std::string_view op_now);
  };

  /// What the store lets nobody do who asks so.
  std::optional<S3Answer> Refusal(const S3RequestSeen& request);
  static std::optional<Rule> ParseRule(std::string_view json);
  S3Answer Bent(const Rule& rule, const S3RequestSeen& request);
  bool OverTheLimit(std::chrono::steady_clock::time_point now);
  void Count(const std::string& op, std::chrono::steady_clock::time_point now);

  ScriptedS3& server_;
  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  std::vector<Rule> rules_;
  std::set<std::string> key_ids_;
  std::string region_;
  std::string owner_;
  bool requester_pays_ = false;
  bool no_guests_ = false;
  double requests_per_s_ = 0;
  double tokens_ = 0;
  std::chrono::steady_clock::time_point gathered_at_;
  std::map<std::string, std::uint64_t> requests_;
  std::uint64_t refused_ = 0;
  std::uint64_t expired_ = 0;
  std::chrono::steady_clock::time_point second_;  // that `this_second_` counts
  std::uint64_t this_second_ = 0;
  std::uint64_t busiest_ = 0;
};

}  // namespace forebay::fakes
