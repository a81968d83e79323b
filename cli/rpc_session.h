#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/session.h"
#include "common/wire/client_pool.h"

namespace forebay {

/// The coordinators over TCP or UNIX sockets. The transport runs on the caller's thread, inside
/// Call and Pause.
class RpcSession final : public Session {
 public:
  struct Options {
    std::vector<std::string> coordinators;  ///< Tried in this order; at least one.
    std::optional<Duration> timeout;        ///< --timeout, from the session's beginning.
    std::string trust_dir = {};             ///< Of this user's certificate; "" = none.
  };
  explicit RpcSession(Options options);
  ~RpcSession() override;

  std::expected<RpcReply, Failure> Call(Method method,
                                        const google::protobuf::MessageLite& request) override;
  void ShowCertificatesOf(const std::string& folder) override { options_.trust_dir = folder; }
  std::string Address() const override;
  void CatchInterrupts() override;
  bool interrupted() const override { return interrupted_; }
  bool Pause(Duration duration) override;
  bool TimedOut() const override { return options_.timeout && deadline_.Expired(); }
  TimePoint Now() const override { return Clock::now(); }

 private:
  std::expected<void, Failure> MakePool();
  std::expected<void, Failure> Connect();
  void KeepCertificate(const std::string& address, Deadline deadline);
  Status TryAt(const std::string& address, Deadline deadline, CallHandle& call);
  std::string LeaderNamedBy(const std::string& address);
  /// One call to one coordinator; runs the io_context until it has ended.
  Result<RpcReply> CallAt(std::string address, Method method,
                          const google::protobuf::MessageLite& request, Deadline deadline,
                          CallHandle* call = nullptr);
  Failure NotReached(const std::string& reasons) const;
  Failure TimedOutFailure() const;

  Options options_;
  const Deadline deadline_;
  asio::io_context context_{1};
  asio::signal_set signals_{context_};
  std::shared_ptr<Trust> trust_;
  std::unique_ptr<ClientPool> pool_;
  std::string address_;  ///< "" until a coordinator has answered.
  bool interrupted_ = false;
};

}  // namespace forebay
