#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/base/secret.h"

namespace forebay {

/// How etcd is reached and who asks it.
struct EtcdOptions {
  std::vector<std::string> endpoints;  ///< "https://etcd1:2379"; at least one.
  std::string ca_bundle = {};          ///< Of https; "" = the system's.
  std::string certificate = {};        ///< This machine's, PEM; "" = none.
  std::string key = {};                ///< Its private key.
  std::string user = {};               ///< Of etcd's own authentication; "" = none.
  std::string password_file = {};
  std::string prefix = "/forebay/";  ///< Of all keys that are read or written.
};

/// POST over libcurl, one request at a time for each caller, connections kept. Blocks; any thread.
/// Never through a proxy: etcd belongs to the cluster.
class EtcdHttp {
 public:
  explicit EtcdHttp(const EtcdOptions& options) : options_(options) {}
  ~EtcdHttp();
  EtcdHttp(const EtcdHttp&) = delete;
  EtcdHttp& operator=(const EtcdHttp&) = delete;

  struct Answer {
    long status = 0;
    std::string body;
  };
  /// `enough`: asked after each piece of the body; true ends the request with what has come, for
  /// answers that are streams. kUnavailable: nobody there, or silent until `deadline`; the message
  /// names the endpoint. kDenied: the certificates do not fit. `was_sent`, unless null: whether the
  /// endpoint may have got any of the request.
  Result<Answer> Post(const std::string& endpoint, const std::string& path, const std::string& body,
                      const Secret& token, Deadline deadline,
                      const std::function<bool(std::string_view)>& enough = {},
                      bool* was_sent = nullptr);

 private:
  void* TakeHandle();
  void Configure(void* handle, Deadline deadline) const;

  const EtcdOptions& options_;
  std::mutex mutex_;
  std::vector<void*> idle_;  // CURL*
};

}  // namespace forebay
