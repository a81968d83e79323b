#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/temp_dir.h"

namespace forebay::fakes {

/// A real etcd on loopback with a folder of its own, ended with this object.
class EtcdServer {
 public:
  /// Null where it does not start: Debian's etcd-server is missing. `options` are added to its
  /// command line.
  static std::unique_ptr<EtcdServer> Start(std::vector<std::string> options = {});
  ~EtcdServer();
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  const std::string& endpoint() const { return endpoint_; }  ///< "http://127.0.0.1:PORT"
  void Pause() const;                                        ///< SIGSTOP; it has stopped then.
  void Continue() const;
  void Kill();
  /// The same endpoint and folder again, after Kill.
  bool StartAgain();

 private:
  EtcdServer() = default;
  bool WaitUntilItAnswers() const;

  TempDir dir_;
  std::vector<std::string> command_;
  std::string endpoint_;
  pid_t pid_ = -1;
};

}  // namespace forebay::fakes
