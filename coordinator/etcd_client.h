#pragma once

#include <atomic>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/base/secret.h"
#include "coordinator/etcd_http.h"

namespace forebay {

struct EtcdPair {
  std::string key;
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t lease = 0;  ///< 0 = none.
};

/// What a transaction requires of one key.
struct EtcdCondition {
  std::string key;
  /// The key has this value; nothing = it was created at `created`.
  std::optional<std::string> value = std::nullopt;
  std::int64_t created = 0;  ///< 0 = the key does not exist.
};

/// What a transaction does with a key.
struct EtcdChange {
  std::string key;
  std::optional<std::string> value = std::nullopt;  ///< Nothing = delete.
  std::int64_t lease = 0;                           ///< The key goes when it ends; 0 = it stays.
};

struct EtcdTransaction {
  std::vector<EtcdCondition> conditions = {};
  std::vector<EtcdChange> changes = {};  ///< Each key once; kMaxChanges at most.
  std::string read_otherwise = {};       ///< Read when a condition does not hold; "" = nothing is.
};

/// etcd's JSON gateway (v3; etcd 3.4 and 3.5). Goes on to the next endpoint where one does not
/// answer or has no quorum; a call takes kPatience at most. Blocks; thread-safe.
///
/// kUnavailable: no endpoint answered in time, or none after one that was asked in vain: whether a
/// change was made, or will be, is not known. kDenied: etcd refuses this user. kInvalid: the
/// request breaks a limit of etcd's. kInternal: etcd is full, or answers what it should not.
class EtcdClient {
 public:
  /// Bounds an administrator's verb, which fails within 5 s, with one call to spare.
  static constexpr std::chrono::milliseconds kPatience{2500};
  /// etcd's own default is 128 (--max-txn-ops).
  static constexpr std::size_t kMaxChanges = 100;
  /// Of keys and values in one transaction; etcd's own default is 1.5 MiB (--max-request-bytes).
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  explicit EtcdClient(EtcdOptions options) : options_(std::move(options)), http_(options_) {}
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  const std::string& prefix() const { return options_.prefix; }
  /// The endpoints, for messages.
  std::string Endpoints() const;

  /// Nothing when there is no such key.
  Result<std::optional<EtcdPair>> Get(const std::string& key);
  /// All pairs whose keys begin with `prefix`, in byte order, as they were at one moment.
  Result<std::vector<EtcdPair>> Scan(const std::string& prefix, bool keys_only = false);

  struct Outcome {
    bool done = false;
    std::int64_t revision = 0;      ///< Of etcd, after it.
    std::optional<EtcdPair> found;  ///< Of `read_otherwise`.
  };
  /// All changes when all conditions hold, else none.
  Result<Outcome> Commit(const EtcdTransaction& transaction);
  /// Deletes all keys that begin with `prefix`.
  Status DeleteBelow(const std::string& prefix);

  Result<std::int64_t> GrantLease(std::chrono::seconds ttl);
  /// False: it has ended.
  Result<bool> KeepLease(std::int64_t lease);
  Status EndLease(std::int64_t lease);

  /// Returns when something below `prefix` changes after `revision`, or `patience` is over.
  Status WaitForChange(const std::string& prefix, std::int64_t revision, Duration patience);

 private:
  Result<boost::json::object> Call(const std::string& path, const boost::json::object& body);
  /// As Call; what is refused after a request in vain is kUnavailable: that one may be made.
  Result<boost::json::object> Change(const std::string& path, const boost::json::object& body);
  /// `unanswered`: an endpoint may have got the request, and did not answer.
  Result<std::string> CallText(const std::string& path, const std::string& body, Deadline deadline,
                               bool& unanswered);
  Result<boost::json::object> RangePage(const std::string& key, const std::string& end,
                                        std::int64_t revision, std::uint64_t limit, bool keys_only);
  Status Authenticate(const std::string& endpoint, Deadline deadline);
  Secret Token() const;
  Error Refused(long status, const std::string& body, bool& try_next, bool& log_in) const;

  const EtcdOptions options_;
  EtcdHttp http_;
  std::atomic<std::size_t> current_{0};  // the endpoint that answered last
  mutable std::mutex mutex_;
  Secret token_;  // guarded by mutex_; of etcd's authentication
};

}  // namespace forebay
