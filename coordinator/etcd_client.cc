#include "coordinator/etcd_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <thread>
#include <utility>

#include "common/base/base64.h"
#include "common/base/files.h"

namespace forebay {
namespace {

namespace json = boost::json;

/// One endpoint may be silent for so long: then two more have time to answer within kPatience.
constexpr std::chrono::milliseconds kEndpointPatience{1200};
constexpr std::chrono::milliseconds kPause{50};
constexpr std::uint64_t kPage = 256;

// The codes of gRPC that etcd's gateway answers in "code".
constexpr std::int64_t kInvalidArgument = 3;
constexpr std::int64_t kNotFoundCode = 5;
constexpr std::int64_t kPermissionDenied = 7;
constexpr std::int64_t kResourceExhausted = 8;
constexpr std::int64_t kUnauthenticated = 16;

json::value Text(std::string_view text) { return json::string(text.data(), text.size()); }
json::value Number(std::int64_t number) { return Text(std::to_string(number)); }

/// 64-bit numbers come as strings, and not at all when they are 0.
std::int64_t NumberAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr) return 0;
  if (value->is_int64()) return value->as_int64();
  if (value->is_uint64()) return static_cast<std::int64_t>(value->as_uint64());
  if (!value->is_string()) return 0;
  const json::string& text = value->as_string();
  std::int64_t number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string TextAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return "";
  return {value->as_string().data(), value->as_string().size()};
}

bool TrueAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->as_bool();
}

const json::object& ObjectAt(const json::object& object, std::string_view name) {
  static const json::object kEmpty;
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? value->as_object() : kEmpty;
}

const json::array& ArrayAt(const json::object& object, std::string_view name) {
  static const json::array kEmpty;
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_array() ? value->as_array() : kEmpty;
}

Error Strange(std::string_view what) {
  return Error{Code::kInternal, fmt::format("etcd answers {}: is --etcd really etcd?", what)};
}

Result<json::object> Parsed(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return Fail(Strange("what is no JSON object"));
  return std::move(value.as_object());
}

Result<EtcdPair> PairOf(const json::value& value) {
  if (!value.is_object()) return Fail(Strange("a row that is none"));
  const json::object& row = value.as_object();
  Result<std::string> key = Base64Decode(TextAt(row, "key"));
  Result<std::string> bytes = Base64Decode(TextAt(row, "value"));
  if (!key || !bytes) return Fail(Strange("a row that is no base64"));
  return EtcdPair{.key = std::move(*key),
                  .value = std::move(*bytes),
                  .create_revision = NumberAt(row, "create_revision"),
                  .lease = NumberAt(row, "lease")};
}

/// The first key that does not begin with `prefix`; "\0" is etcd's word for "no end".
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

json::object ConditionOf(const EtcdCondition& condition) {
  json::object compare;
  compare["key"] = Text(Base64Encode(condition.key));
  compare["result"] = "EQUAL";
  if (condition.value) {
    compare["target"] = "VALUE";
    compare["value"] = Text(Base64Encode(*condition.value));
  } else {
    compare["target"] = "CREATE";
    compare["create_revision"] = Number(condition.created);
  }
  return compare;
}

json::object ChangeOf(const EtcdChange& change) {
  json::object operation;
  json::object inner;
  inner["key"] = Text(Base64Encode(change.key));
  if (!change.value) {
    operation["request_delete_range"] = std::move(inner);
    return operation;
  }
  inner["value"] = Text(Base64Encode(*change.value));
  if (change.lease != 0) inner["lease"] = Number(change.lease);
  operation["request_put"] = std::move(inner);
  return operation;
}

}  // namespace

std::string EtcdClient::Endpoints() const {
  return fmt::format("{}", fmt::join(options_.endpoints, ", "));
}

Secret EtcdClient::Token() const {
  const std::scoped_lock lock(mutex_);
  return token_;
}

Status EtcdClient::Authenticate(const std::string& endpoint, Deadline deadline) {
  Result<std::string> text = ReadWholeFile(options_.password_file);
  if (!text) return Fail(Code::kDenied, text.error().message);
  while (text->ends_with('\n')) text->pop_back();
  const Secret password(std::move(*text));
  json::object body;
  body["name"] = Text(options_.user);
  body["password"] = Text(password.Reveal());
  Result<EtcdHttp::Answer> answer =
      http_.Post(endpoint, "/v3/auth/authenticate", json::serialize(body), Secret(), deadline);
  if (!answer) return Fail(answer.error());
  Result<json::object> reply = Parsed(answer->body);
  Secret token(reply ? TextAt(*reply, "token") : "");
  if (answer->status != 200 || token.empty()) {
    return Fail(Code::kDenied,
                fmt::format("etcd does not let user '{}' in ({}): check --etcd-user and the "
                            "password in {}",
                            options_.user, reply ? TextAt(*reply, "error") : "no JSON",
                            options_.password_file));
  }
  const std::scoped_lock lock(mutex_);
  token_ = std::move(token);
  return {};
}

/// What etcd says other than 200, as ours.
Error EtcdClient::Refused(long status, const std::string& body, bool& try_next,
                          bool& log_in) const {
  Result<json::object> reply = Parsed(body);
  if (!reply) {
    try_next = true;
    return Error{Code::kUnavailable, fmt::format("etcd answers HTTP status {}", status)};
  }
  std::string why = TextAt(*reply, "message");
  if (why.empty()) why = TextAt(*reply, "error");
  const std::int64_t code = NumberAt(*reply, "code");
  // "user name is empty": etcd asks for users, and got none. "revision of auth store is old": users
  // or roles were changed since we logged in.
  if (code == kUnauthenticated || why.find("user name is empty") != std::string::npos ||
      why.find("revision of auth store is old") != std::string::npos) {
    log_in = true;
    return Error{Code::kDenied, "etcd wants a user (" + why +
                                    "): name one with --etcd-user and "
                                    "--etcd-password-file"};
  }
  if (code == kPermissionDenied) {
    return Error{Code::kDenied,
                 fmt::format("etcd's user '{}' may not do this ({}): grant it reading and writing "
                             "of all keys with the prefix {}",
                             options_.user, why, options_.prefix)};
  }
  if (why.find("database space exceeded") != std::string::npos) {
    return Error{Code::kInternal,
                 "etcd is full (" + why +
                     "): compact and defragment it, then disarm its alarm; see docs/DEPLOY.md"};
  }
  if (code == kResourceExhausted) return Error{Code::kOverloaded, "etcd: " + why};
  if (why.find("too large") != std::string::npos || why.find("too many op") != std::string::npos) {
    return Error{Code::kInvalid, "etcd refuses what it takes by default (" + why +
                                     "): start it without --max-request-bytes and --max-txn-ops"};
  }
  if (code == kInvalidArgument) return Error{Code::kInvalid, "etcd: " + why};
  if (code == kNotFoundCode) return Error{Code::kNotFound, "etcd: " + why};
  // Also "the client connection is closing", of one that stops: it may have done it.
  try_next = true;
  return Error{Code::kUnavailable, "etcd: " + why};
}

Result<std::string> EtcdClient::CallText(const std::string& path, const std::string& body,
                                         Deadline deadline, bool& unanswered) {
  Error last{Code::kUnavailable, "etcd at " + Endpoints() + " does not answer"};
  bool logged_in = false;
  for (std::size_t tried = 0; !deadline.Expired(); ++tried) {
    const std::size_t which = current_.load() % options_.endpoints.size();
    const std::string& endpoint = options_.endpoints[which];
    bool try_next = true;
    bool log_in = false;
    bool was_sent = false;
    Result<EtcdHttp::Answer> answer = http_.Post(endpoint, path, body, Token(),
                                                 deadline.AtMost(kEndpointPatience), {}, &was_sent);
    if (answer && answer->status == 200) return std::move(answer->body);
    if (answer) {
      try_next = false;
      last = Refused(answer->status, answer->body, try_next, log_in);
    } else {
      last = answer.error();
      if (last.code == Code::kDenied && options_.endpoints.size() == 1) return Fail(last);
    }
    if (log_in && !logged_in && !options_.user.empty()) {
      logged_in = true;
      Status authenticated = Authenticate(endpoint, deadline.AtMost(kEndpointPatience));
      if (authenticated) continue;
      last = authenticated.error();
      try_next = last.code == Code::kUnavailable;
    }
    if (!try_next) return Fail(last);
    // A login that failed after the request was refused leaves nothing in doubt; it counts so.
    unanswered = unanswered || was_sent;
    current_.store(which + 1);
    // Once round: what stopped for a moment is asked again, but not in a rush.
    if ((tried + 1) % options_.endpoints.size() == 0) {
      std::this_thread::sleep_for(std::min<Duration>(kPause, deadline.Remaining()));
    }
  }
  return Fail(last);
}

Result<json::object> EtcdClient::Call(const std::string& path, const json::object& body) {
  bool unanswered = false;
  Result<std::string> text =
      CallText(path, json::serialize(body), Deadline::After(kPatience), unanswered);
  if (!text) return Fail(text.error());
  return Parsed(*text);
}

Result<json::object> EtcdClient::Change(const std::string& path, const json::object& body) {
  bool unanswered = false;
  Result<std::string> text =
      CallText(path, json::serialize(body), Deadline::After(kPatience), unanswered);
  if (text) {
    Result<json::object> reply = Parsed(*text);
    return reply ? reply : Fail(Code::kUnavailable, reply.error().message);
  }
  return Fail(unanswered ? Code::kUnavailable : text.error().code, text.error().message);
}

Result<std::optional<EtcdPair>> EtcdClient::Get(const std::string& key) {
  Result<json::object> reply = RangePage(key, "", 0, 1, false);
  if (!reply) return Fail(reply.error());
  const json::array& rows = ArrayAt(*reply, "kvs");
  if (rows.empty()) return std::nullopt;
  Result<EtcdPair> pair = PairOf(rows.front());
  if (!pair) return Fail(pair.error());
  return std::move(*pair);
}

Result<json::object> EtcdClient::RangePage(const std::string& key, const std::string& end,
                                           std::int64_t revision, std::uint64_t limit,
                                           bool keys_only) {
  json::object body;
  body["key"] = Text(Base64Encode(key));
  if (!end.empty()) body["range_end"] = Text(Base64Encode(end));
  body["limit"] = Number(static_cast<std::int64_t>(limit));
  if (revision != 0) body["revision"] = Number(revision);
  if (keys_only) body["keys_only"] = true;
  return Call("/v3/kv/range", body);
}

Result<std::vector<EtcdPair>> EtcdClient::Scan(const std::string& prefix, bool keys_only) {
  std::vector<EtcdPair> pairs;
  const std::string end = EndOf(prefix);
  std::string from = prefix;
  std::int64_t revision = 0;
  std::uint64_t limit = kPage;
  for (;;) {
    Result<json::object> reply = RangePage(from, end, revision, limit, keys_only);
    // The gateway takes 4 MiB from etcd at once.
    if (!reply && reply.error().code == Code::kOverloaded && limit > 1) {
      limit /= 4;
      continue;
    }
    if (!reply) return Fail(reply.error());
    // The header says what is newest, also of a page that is read as it was.
    if (revision == 0) revision = NumberAt(ObjectAt(*reply, "header"), "revision");
    for (const json::value& row : ArrayAt(*reply, "kvs")) {
      Result<EtcdPair> pair = PairOf(row);
      if (!pair) return Fail(pair.error());
      pairs.push_back(std::move(*pair));
    }
    if (!TrueAt(*reply, "more") || pairs.empty()) return pairs;
    from = pairs.back().key + '\0';
  }
}

Result<EtcdClient::Outcome> EtcdClient::Commit(const EtcdTransaction& transaction) {
  json::object body;
  json::array conditions;
  for (const EtcdCondition& condition : transaction.conditions) {
    conditions.push_back(ConditionOf(condition));
  }
  json::array changes;
  for (const EtcdChange& change : transaction.changes) changes.push_back(ChangeOf(change));
  body["compare"] = std::move(conditions);
  body["success"] = std::move(changes);
  if (!transaction.read_otherwise.empty()) {
    json::object range;
    range["key"] = Text(Base64Encode(transaction.read_otherwise));
    json::object operation;
    operation["request_range"] = std::move(range);
    body["failure"] = json::array{std::move(operation)};
  }
  Result<json::object> reply = Change("/v3/kv/txn", body);
  if (!reply) return Fail(reply.error());
  Outcome outcome;
  outcome.done = TrueAt(*reply, "succeeded");
  outcome.revision = NumberAt(ObjectAt(*reply, "header"), "revision");
  const json::array& responses = ArrayAt(*reply, "responses");
  if (outcome.done || responses.empty() || !responses.front().is_object()) return outcome;
  const json::array& rows =
      ArrayAt(ObjectAt(responses.front().as_object(), "response_range"), "kvs");
  if (rows.empty()) return outcome;
  Result<EtcdPair> pair = PairOf(rows.front());
  if (!pair) return Fail(Code::kUnavailable, pair.error().message);
  outcome.found = std::move(*pair);
  return outcome;
}

Status EtcdClient::DeleteBelow(const std::string& prefix) {
  json::object body;
  body["key"] = Text(Base64Encode(prefix));
  body["range_end"] = Text(Base64Encode(EndOf(prefix)));
  Result<json::object> reply = Call("/v3/kv/deleterange", body);
  return reply ? Status() : Fail(reply.error());
}

Result<std::int64_t> EtcdClient::GrantLease(std::chrono::seconds ttl) {
  json::object body;
  body["TTL"] = Number(ttl.count());
  Result<json::object> reply = Call("/v3/lease/grant", body);
  if (!reply) return Fail(reply.error());
  const std::int64_t lease = NumberAt(*reply, "ID");
  if (lease == 0) return Fail(Strange("a lease without a number"));
  return lease;
}

Result<bool> EtcdClient::KeepLease(std::int64_t lease) {
  json::object body;
  body["ID"] = Number(lease);
  Result<json::object> reply = Call("/v3/lease/keepalive", body);
  if (!reply) return Fail(reply.error());
  // An answer without a time to live is about a lease that has ended.
  return NumberAt(ObjectAt(*reply, "result"), "TTL") > 0;
}

Status EtcdClient::EndLease(std::int64_t lease) {
  json::object body;
  body["ID"] = Number(lease);
  Result<json::object> reply = Call("/v3/lease/revoke", body);
  if (reply || reply.error().code == Code::kNotFound) return {};
  return Fail(reply.error());
}

Status EtcdClient::WaitForChange(const std::string& prefix, std::int64_t revision,
                                 Duration patience) {
  json::object create;
  create["key"] = Text(Base64Encode(prefix));
  create["range_end"] = Text(Base64Encode(EndOf(prefix)));
  create["start_revision"] = Number(revision + 1);
  json::object body;
  body["create_request"] = std::move(create);
  // Values are base64: no text of ours looks like this.
  const auto changed = [](std::string_view text) {
    return text.find("\"events\":") != std::string_view::npos ||
           text.find("\"canceled\":true") != std::string_view::npos ||
           text.find("\"error\":") != std::string_view::npos;
  };
  const std::size_t which = current_.load() % options_.endpoints.size();
  Result<EtcdHttp::Answer> answer =
      http_.Post(options_.endpoints[which], "/v3/watch", json::serialize(body), Token(),
                 Deadline::After(patience), changed);
  if (answer) return {};
  current_.store(which + 1);
  return Fail(answer.error());
}

}  // namespace forebay
