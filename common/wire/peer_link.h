#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/wire/client_pool.h"
#include "common/wire/connection.h"
#include "common/wire/rpc.h"

namespace forebay {

struct PeerLinkOptions {
  ClientPoolOptions client;
  std::function<std::uint64_t()> epoch;
  std::function<void(std::uint64_t)> on_newer_epoch;
};

/// One connection to one peer, opened by the first call and again after it was lost, with the calls
/// that wait on it; closed when there were none for a while, as a peer has only so many for all. A
/// peer that cannot be reached is tried again only after a growing pause (100 ms to 1 s); calls in
/// between fail at once, so that their callers go to the next owner. On its io_context only.
class PeerLink : public std::enable_shared_from_this<PeerLink> {
 public:
  PeerLink(asio::any_io_executor executor, std::string address,
           std::shared_ptr<const PeerLinkOptions> options, bool takes_files);

  Task<Result<RpcReply>> Call(Method method, std::string message, Deadline deadline,
                              CallHandle* handle);
  /// TlsChannelBinding of its connection, which is opened when there is none.
  Task<Result<std::string>> Channel(Deadline deadline);
  /// Ends everything with kUnavailable; no call after it.
  void Close();

 private:
  struct Waiting {
    Waiting(const asio::any_io_executor& executor, Deadline until, TimePoint since)
        : woken(executor), deadline(until), last_heard(since) {}
    asio::steady_timer woken;
    Deadline deadline;
    TimePoint last_heard;
    bool done = false;
    bool was_answered = false;
    Result<RpcReply> reply = Fail(Code::kTimeout, "no answer");
  };
  class Registration;

  Task<Status> EnsureConnected(Deadline deadline);
  Task<void> Connect();
  Task<Result<std::unique_ptr<WireStream>>> OpenStream(Deadline deadline);
  Task<Result<std::shared_ptr<StreamSocket>>> ConnectTo(
      std::vector<asio::generic::stream_protocol::endpoint> places, Deadline deadline);
  void Adopt(std::unique_ptr<WireStream> stream);
  Status CheckAnswerer(Method method) const;
  void EndIfOld();
  void EndIfUnused(TimePoint now);
  void End(const std::string& why);
  void OnFrame(InFrame frame);
  void OnClosed(const Error& why);
  void OnTick(TimePoint now);
  void GiveUp(std::uint64_t id, Error why);
  static void Finish(Waiting& waiting, Result<RpcReply> reply);
  void SendCancel(std::uint64_t id);

  const asio::any_io_executor executor_;
  const std::string address_;
  const std::shared_ptr<const PeerLinkOptions> options_;
  const bool takes_files_;
  std::shared_ptr<Connection> connection_;
  PeerIdentity peer_;                     // of the connection that was opened last
  std::uint64_t opened_at_ = 0;           // Trust::reloads then
  std::optional<TimePoint> disbelieved_;  // since then the peer's authority is replaced
  std::uint64_t looked_at_ = 0;           // Standing::revision at which the peer was looked at
  TimePoint used_;                        // when a call began, or waited last
  bool connecting_ = false;
  bool closed_ = false;
  asio::steady_timer connect_done_;  // cancelled when an attempt to connect has ended
  Error last_failure_;
  TimePoint retry_at_;
  Duration pause_{};
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<Waiting>> waiting_;
};

}  // namespace forebay
