#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/model/limits.h"
#include "common/wire/frame.h"
#include "common/wire/inbox.h"
#include "common/wire/passed_file.h"
#include "common/wire/tls_stream.h"

namespace forebay {

class WireStream;

/// A frame that has come in, its checksum right.
struct InFrame {
  FrameHeader header;
  std::string message;
  Slice payload;
  PassedFile file = {};
};

/// A frame on its way out. The lengths in `header` are filled in by Connection::Send.
struct OutFrame {
  FrameHeader header;
  std::string message;
  Slice payload;
  PassedFile file = {};  ///< Of a reply, over a connection that PassesFiles().
};

/// How long a connection waits for what does not come (DESIGN section 10).
struct ConnectionTimes {
  Duration first_frame = kFirstFrameTimeout;  ///< At a server, for the first request.
  Duration idle = kIdleTimeout;               ///< For anything at all.
  Duration ping_every = kPingInterval;        ///< A client that has sent nothing for so long pings.
};

/// Frames over one stream whose handshake is done; the part that client and server share. Lives on
/// the socket's io_context: every method is called there, every callback comes there. Kept alive by
/// its own pending operations until it is closed.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Events {
    std::function<void(InFrame)> on_frame;        ///< Requests, replies, pendings, cancels.
    std::function<void(const Error&)> on_closed;  ///< Once. Never from inside Start().
    std::function<void(TimePoint)> on_tick;  ///< About every kTick while busy(), else every second.
    std::function<bool()> busy;
    std::function<std::uint64_t()> epoch;  ///< Put into every frame.
  };
  static constexpr std::chrono::milliseconds kTick{100};

  /// A client keeps an idle connection alive with pings.
  Connection(std::unique_ptr<WireStream> stream, Side side, ConnectionTimes times = {});
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start(Events events);

  /// Files can go over it: it is a UNIX socket.
  bool PassesFiles() const { return passes_files_; }
  /// Before Start: this end takes files. Each wait for the peer costs one system call more.
  void TakeFiles() { takes_files_ = passes_files_; }

  /// Queues a frame. All frames that are queued before the next turn of the event loop leave in one
  /// write; of those that answer what came together at once, all do, and before that turn.
  void Send(OutFrame frame);

  /// Closes the socket and reports `why` through on_closed. Idempotent.
  void Close(Error why);

  /// Takes no more frames, sends those that are queued, and closes when the peer has had them.
  void Finish();

  /// Ticks soon: something that ticks watch has begun.
  void Wake();

  bool closed() const { return closed_; }
  /// When bytes of a payload came last: while one comes, nothing of the answers behind it can.
  TimePoint last_payload() const { return last_payload_; }
  /// Bytes handed to Send that the socket has not taken yet.
  std::size_t unsent_bytes() const { return unsent_bytes_; }
  std::uint64_t writes() const { return writes_; }

 private:
  struct Outgoing {
    std::string head;  // frame header and message
    Slice payload;
    PassedFile file;
  };

  static Error Lost(const boost::system::error_code& error);
  Task<void> ReadFrames();
  Task<Result<InFrame>> ReadFrame();
  /// Makes at least `count` bytes available in inbox_, or says why that failed.
  Task<Status> Gather(std::size_t count);
  Task<std::size_t> ReceiveFiles(asio::mutable_buffer room, boost::system::error_code* error);
  Status TakeFileOf(InFrame& frame);
  Task<Result<Slice>> ReadPayload(std::size_t size);
  Task<Status> WaitForRoom();
  Status CheckDirection(FrameKind kind) const;
  void Dispatch(InFrame frame);
  void ScheduleWrite();
  void Flush();
  void WriteQueued();
  void WriteWithFile();
  void WaitToWrite(void (Connection::*next)());
  std::vector<asio::const_buffer> Unwritten() const;
  void Write();
  void OnTaken(std::size_t of_this_write);
  void OnWritten(boost::system::error_code error);
  void EndSending();
  void ScheduleTick();
  void OnTick();
  std::optional<Error> Broken(TimePoint now);
  bool TooSlow(TimePoint now);
  bool TakesTooSlowly(TimePoint now);
  std::uint64_t BytesAtPeer();
  void SendControl(FrameKind kind);

  const std::unique_ptr<WireStream> stream_;
  StreamSocket& socket_;  // of stream_
  asio::steady_timer tick_;
  asio::steady_timer room_;  // cancelled when the write queue has room again
  Events events_;
  const Side side_;
  const ConnectionTimes times_;
  const TimePoint opened_;
  const bool passes_files_;
  bool takes_files_ = false;
  bool closed_ = false;
  bool finishing_ = false;
  TimePoint last_tick_;

  // Incoming.
  Inbox inbox_;
  bool large_payloads_ = false;        // the last one was too large for the inbox
  bool in_frame_ = false;              // part of a frame has come
  std::uint64_t frames_ = 0;           // ever
  std::uint64_t received_bytes_ = 0;   // ever
  std::uint64_t rate_mark_bytes_ = 0;  // received_bytes_ at rate_mark_
  TimePoint rate_mark_;
  TimePoint last_received_;
  TimePoint last_payload_;
  TimePoint last_sent_;
  std::deque<PassedFile> files_;  // that came, and whose frames are still to be read

  // Outgoing.
  std::deque<Outgoing> queue_;
  std::vector<Outgoing> writing_;
  std::size_t write_bytes_ = 0;  // of the write under way that the socket has taken
  std::size_t unsent_bytes_ = 0;
  std::uint64_t taken_mark_bytes_ = 0;  // BytesAtPeer() at taken_mark_
  TimePoint taken_mark_;
  bool taken_marked_ = false;  // since this write began
  std::uint64_t writes_ = 0;
  bool write_scheduled_ = false;
  bool dispatching_ = false;  // a frame is being handled: ReadFrames flushes behind it
};

}  // namespace forebay
