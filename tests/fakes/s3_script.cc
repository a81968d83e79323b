#include "tests/fakes/s3_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

namespace forebay::fakes {
namespace {

namespace json = boost::json;

// What an origin with a limit lets through at once, as a share of its second.
constexpr double kBurstSeconds = 0.1;

std::string OpOf(const S3RequestSeen& request) {
  if (request.query.contains("versions")) return "VERSIONS";
  if (request.method == "GET" && request.key.empty()) return "LIST";
  if (request.query.contains("versionId")) return request.method + "_VERSION";
  return request.method;
}

std::string& HeaderOf(S3Answer& answer, std::string_view name) {
  const auto found = std::ranges::find(answer.headers, name, &S3Answer::Headers::value_type::first);
  if (found != answer.headers.end()) return found->second;
  return answer.headers.emplace_back(name, "").second;
}

void Drop(S3Answer& answer, std::string_view name) {
  std::erase_if(answer.headers, [&](const auto& header) { return header.first == name; });
}

void Replace(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

void CutOut(std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t at = text.find(begin);
  const std::size_t last = text.find(end);
  if (at != std::string::npos && last != std::string::npos) text.erase(at, last + end.size() - at);
}

void BendList(std::string_view what, const S3RequestSeen& request, std::string& body) {
  constexpr std::string_view kBegin = "<NextContinuationToken>";
  constexpr std::string_view kEnd = "</NextContinuationToken>";
  CutOut(body, kBegin, kEnd);
  Replace(body, "<IsTruncated>false<", "<IsTruncated>true<");
  if (what == "no_token") return;
  if (what == "empty_page") {
    const std::size_t first = body.find("<Contents>");
    const std::size_t last = body.rfind("</Contents>");
    if (first != std::string::npos) body.erase(first, last + 11 - first);
    CutOut(body, "<KeyCount>", "</KeyCount>");
  }
  const auto token = request.query.find("continuation-token");
  // "00": behind the key of one NUL, where every listing of text begins.
  const std::string again = token == request.query.end() ? "00" : token->second;
  Replace(body, "</ListBucketResult>",
          fmt::format("{}{}{}</ListBucketResult>", kBegin, again, kEnd));
}

// Bends the right answer. The names are those of the header.
void BendAnswer(std::string_view what, std::size_t bytes, const S3RequestSeen& request,
                S3Answer& answer) {
  if (what == "cut") answer.end_after = bytes;
  if (what == "stall") answer.stall_after = bytes;
  if (what == "reset") {
    answer.end_after = bytes;
    answer.reset = true;
  }
  if (what == "silent") answer.silent = true;
  if (what == "hang_up") answer.hang_up = true;
  if (what == "wrong_range") HeaderOf(answer, "Content-Range") = "bytes 1-2/3";
  if (what == "wrong_total") HeaderOf(answer, "Content-Range") += "7";
  if (what == "no_range") Drop(answer, "Content-Range");
  if (what == "wrong_etag") HeaderOf(answer, "ETag") = "\"ffffffffffffffffffffffffffffffff\"";
  if (what == "no_etag") Drop(answer, "ETag");
  if (what == "one_more") answer.body += 'x';
  if (what == "one_less" && !answer.body.empty()) answer.body.pop_back();
  if (what == "error_body") {
    answer.body = ScriptedS3::Error(500, "InternalError").body;
    answer.no_length = true;
  }
  if (what == "flip" && bytes < answer.body.size())
    answer.body[bytes] = static_cast<char>(answer.body[bytes] ^ 0x20);
  if (what.ends_with("_page") || what == "no_token") BendList(what, request, answer.body);
}

const std::set<std::string, std::less<>>& Faults() {
  static const std::set<std::string, std::less<>> kFaults = {
      "status",  "delay",       "slow",        "cut",         "stall",    "reset",
      "silent",  "hang_up",     "wrong_range", "wrong_total", "no_range", "wrong_etag",
      "no_etag", "one_more",    "one_less",    "error_body",  "flip",     "change",
      "gone",    "repeat_page", "no_token",    "empty_page"};
  return kFaults;
}

std::string Text(const json::object& from, std::string_view name, std::string otherwise) {
  const json::value* value = from.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : otherwise;
}

std::uint64_t Number(const json::object& from, std::string_view name, std::uint64_t otherwise) {
  const json::value* value = from.if_contains(name);
  return value != nullptr && value->is_int64() ? static_cast<std::uint64_t>(value->as_int64())
                                               : otherwise;
}

bool Flag(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  return value != nullptr && value->is_bool() && value->as_bool();
}

}  // namespace

bool S3Script::Rule::Bends(const S3RequestSeen& request, std::string_view op_now) {
  if (!op.empty() && op != op_now) return false;
  const auto prefix = request.query.find("prefix");
  const bool by_prefix = op == "LIST" && prefix != request.query.end();
  if (!(by_prefix ? prefix->second : request.key).starts_with(key)) return false;
  ++seen;
  if (seen <= skip || (seen - skip) % every != 0 || made >= times) return false;
  ++made;
  return true;
}

std::optional<S3Script::Rule> S3Script::ParseRule(std::string_view text) {
  const json::value parsed = json::parse(text);
  const json::object& object = parsed.as_object();
  Rule rule;
  rule.what = Text(object, "do", "");
  rule.op = Text(object, "op", "");
  rule.key = Text(object, "key", "");
  rule.code = Text(object, "code", rule.code);
  rule.status = static_cast<int>(Number(object, "status", 500));
  rule.every = std::max<std::uint64_t>(1, Number(object, "every", 1));
  rule.skip = Number(object, "skip", 0);
  rule.times = Number(object, "times", UINT64_MAX);
  rule.bytes = Number(object, "bytes", 0);
  rule.delay = std::chrono::milliseconds(Number(object, "ms", 0));
  rule.rate = Number(object, "rate", 0);
  if (!Faults().contains(rule.what)) return std::nullopt;
  return rule;
}

bool S3Script::Set(std::string_view text) {
  boost::system::error_code error;
  const json::value parsed = json::parse(text, error);
  if (error || !parsed.is_object()) return false;
  const json::object& script = parsed.as_object();
  std::vector<Rule> rules;
  if (const json::value* list = script.if_contains("rules"); list != nullptr) {
    for (const json::value& item : list->as_array()) {
      std::optional<Rule> rule = ParseRule(json::serialize(item));
      if (!rule) return false;
      rules.push_back(*std::move(rule));
    }
  }
  std::set<std::string> key_ids;
  if (const json::value* list = script.if_contains("key_ids"); list != nullptr) {
    for (const json::value& item : list->as_array()) key_ids.emplace(item.as_string());
  }
  const std::scoped_lock lock(mutex_);
  rules_ = std::move(rules);
  key_ids_ = std::move(key_ids);
  region_ = Text(script, "region", "");
  owner_ = Text(script, "owner", "");
  requester_pays_ = Flag(script, "requester_pays");
  no_guests_ = Flag(script, "no_guests");
  requests_per_s_ = static_cast<double>(Number(script, "requests_per_s", 0));
  tokens_ = requests_per_s_ * kBurstSeconds;
  gathered_at_ = std::chrono::steady_clock::now();
  requests_.clear();
  refused_ = expired_ = this_second_ = busiest_ = 0;
  return true;
}

bool S3Script::OverTheLimit(std::chrono::steady_clock::time_point now) {
  if (requests_per_s_ <= 0) return false;
  const double seconds = std::chrono::duration<double>(now - gathered_at_).count();
  gathered_at_ = now;
  tokens_ = std::min(tokens_ + requests_per_s_ * seconds, requests_per_s_ * kBurstSeconds + 1);
  if (tokens_ < 1) return true;
  tokens_ -= 1;
  return false;
}

void S3Script::Count(const std::string& op, std::chrono::steady_clock::time_point now) {
  ++requests_[op];
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    this_second_ = 0;
  }
  busiest_ = std::max(busiest_, ++this_second_);
}

std::optional<S3Answer> S3Script::Refusal(const S3RequestSeen& request) {
  const std::string signature = request.Header("authorization");
  const bool signs_well = key_ids_.empty() || std::ranges::any_of(key_ids_, [&](const auto& id) {
                            return signature.find("Credential=" + id + "/") != std::string::npos;
                          });
  if (!signs_well) {
    ++expired_;
    return ScriptedS3::Error(400, "ExpiredToken", "The provided token has expired.");
  }
  const bool is_elsewhere = !region_.empty() && !signature.empty() &&
                            signature.find("/" + region_ + "/s3/aws4_request") == std::string::npos;
  if (is_elsewhere) {
    S3Answer answer = ScriptedS3::Error(400, "AuthorizationHeaderMalformed",
                                        "The authorization header is malformed.");
    Replace(answer.body, "<RequestId>", "<Region>" + region_ + "</Region><RequestId>");
    return answer;
  }
  const std::string expected = request.Header("x-amz-expected-bucket-owner");
  const bool is_refused = (!owner_.empty() && !expected.empty() && expected != owner_) ||
                          (requester_pays_ && request.Header("x-amz-request-payer").empty()) ||
                          (no_guests_ && signature.empty());
  if (is_refused) return ScriptedS3::Error(403, "AccessDenied", "Access Denied");
  return std::nullopt;
}

std::optional<S3Answer> S3Script::AnswerTo(const S3RequestSeen& request) {
  const std::string op = OpOf(request);
  if (op == "PUT" || op == "DELETE") return std::nullopt;
  std::optional<Rule> rule;
  {
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    Count(op, now);
    if (OverTheLimit(now)) {
      ++refused_;
      return ScriptedS3::Error(503, "SlowDown", "Please reduce your request rate.");
    }
    if (std::optional<S3Answer> refusal = Refusal(request)) return refusal;
    for (Rule& each : rules_) {
      if (!each.Bends(request, op)) continue;
      rule = each;
      break;
    }
  }
  if (!rule) return std::nullopt;
  return Bent(*rule, request);
}

S3Answer S3Script::Bent(const Rule& rule, const S3RequestSeen& request) {
  if (rule.what == "status") return ScriptedS3::Error(rule.status, rule.code, "as scripted");
  if (rule.what == "change") server_.Put(request.bucket, request.key, "another version");
  if (rule.what == "gone") server_.Remove(request.bucket, request.key);
  S3Answer answer = server_.Truth(request);
  answer.delay = rule.delay;
  answer.bytes_per_s = rule.rate;
  // What is wrong already stays as it is.
  if (answer.status < 300) BendAnswer(rule.what, rule.bytes, request, answer);
  return answer;
}

std::string S3Script::Counts() const {
  const std::scoped_lock lock(mutex_);
  json::object requests;
  for (const auto& [op, count] : requests_) requests[op] = count;
  json::array rules;
  for (const Rule& rule : rules_)
    rules.push_back(json::object{{"do", rule.what}, {"seen", rule.seen}, {"made", rule.made}});
  const json::object counts{{"requests", std::move(requests)},
                            {"rules", std::move(rules)},
                            {"refused", refused_},
                            {"expired", expired_},
                            {"busiest", busiest_}};
  return json::serialize(counts);
}

}  // namespace forebay::fakes
