#include "common/wire/connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/wire_stream.h"

namespace forebay {
namespace {

constexpr std::size_t kInboxBytes = std::size_t{64} * 1024;
// Frames of one connection that are taken in one turn of the event loop. The inbox holds hundreds
// of requests; the answers to these few are counted before more are begun.
constexpr int kFramesPerTurn = 8;
// One gathered write takes at most this many frames: two buffers each, and Asio gathers 64 at a
// time.
constexpr std::size_t kFramesPerWrite = 32;
// … and about so many bytes: the payloads of a write are let go of together.
constexpr std::size_t kBytesPerWrite = std::size_t{8} << 20;
// What one system call offers to the socket; Asio's own 64 KiB would be 64 calls for a block.
constexpr std::size_t kBytesPerCall = 1 << 20;
// A peer in the middle of a frame brings this many bytes in this time, and one that asked takes as
// many of its answers, or is cut off (FAULTS.md: 64 KiB/s over 2 s).
constexpr std::uint64_t kMinBytesPerWindow = std::uint64_t{128} * 1024;
constexpr std::chrono::seconds kRateWindow{2};
constexpr std::chrono::seconds kQuietTick{1};

// Of frames that are still to be read: more than one is a peer that does not keep to its frames.
constexpr std::size_t kMostFilesWaiting = 16;

bool IsUnix(StreamSocket& socket) {
  boost::system::error_code error;
  return socket.local_endpoint(error).protocol().family() == AF_UNIX && !error;
}

Error LostConnection(const boost::system::error_code& error) {
  return Error{Code::kUnavailable, "the connection was lost: " + error.message()};
}

}  // namespace

Connection::Connection(std::unique_ptr<WireStream> stream, Side side, Duration first_frame)
    : stream_(std::move(stream)),
      socket_(stream_->socket()),
      tick_(socket_.get_executor()),
      room_(socket_.get_executor()),
      side_(side),
      first_frame_(first_frame),
      opened_(Clock::now()),
      passes_files_(IsUnix(socket_) && !stream_->secured()),
      last_tick_(opened_),
      inbox_(kInboxBytes),
      rate_mark_(opened_),
      last_received_(opened_),
      last_sent_(opened_),
      taken_mark_(opened_) {}

Connection::~Connection() = default;

void Connection::Start(Events events) {
  events_ = std::move(events);
  Spawn(socket_.get_executor(), ReadFrames());
  ScheduleTick();
}

void Connection::Send(OutFrame frame) {
  if (closed_ || finishing_) return;
  frame.header.ring_epoch = events_.epoch();
  frame.header.message_bytes = static_cast<std::uint32_t>(frame.message.size());
  frame.header.payload_bytes = static_cast<std::uint32_t>(frame.payload.bytes.size());
  if (!passes_files_) frame.file.reset();
  frame.header.files = frame.file ? 1 : 0;
  const auto fixed = EncodeFrameHeader(frame.header, frame.message);
  Outgoing out;
  out.head.reserve(fixed.size() + frame.message.size());
  out.head.append(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  out.head.append(frame.message);
  out.payload = std::move(frame.payload);
  out.file = std::move(frame.file);
  unsent_bytes_ += out.head.size() + out.payload.bytes.size();
  queue_.push_back(std::move(out));
  ScheduleWrite();
}

void Connection::ScheduleWrite() {
  if (write_scheduled_) return;
  write_scheduled_ = true;
  taken_marked_ = false;
  // Posted, not written at once: frames of other requests that are handled in this turn join.
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->WriteQueued(); });
}

void Connection::WriteQueued() {
  if (closed_) return;
  writing_.clear();
  write_bytes_ = 0;
  ++writes_;
  last_sent_ = Clock::now();
  const bool with_file = queue_.front().file != nullptr;
  for (std::size_t bytes = 0;
       !queue_.empty() && writing_.size() < kFramesPerWrite && bytes < kBytesPerWrite;) {
    // A file goes with the first byte of its frame, so that its write begins there.
    if (!writing_.empty() && queue_.front().file) break;
    bytes += queue_.front().head.size() + queue_.front().payload.bytes.size();
    writing_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  if (with_file) {
    WriteWithFile();
  } else {
    Write(0);
  }
}

/// The beginning of what is being written, with its file; then the rest as ever.
void Connection::WriteWithFile() {
  const Outgoing& first = writing_.front();
  const std::ptrdiff_t sent = SendWithFile(socket_.native_handle(), first.head, *first.file);
  if (sent > 0) {
    OnTaken(static_cast<std::size_t>(sent));
    writing_.front().file.reset();
    Write(static_cast<std::size_t>(sent));
    return;
  }
  if (sent < 0 && errno != EAGAIN) {
    Close(LostConnection({errno, boost::system::system_category()}));
    return;
  }
  socket_.async_wait(StreamSocket::wait_write,
                     [self = shared_from_this()](boost::system::error_code error) {
                       if (!error && !self->closed_) self->WriteWithFile();
                     });
}

/// What is being written but for its first `skip` bytes, which are less than a frame's head or all
/// of it.
void Connection::Write(std::size_t skip) {
  std::vector<asio::const_buffer> buffers;
  buffers.reserve(2 * writing_.size());
  for (const Outgoing& out : writing_) {
    buffers.emplace_back(out.head.data(), out.head.size());
    if (!out.payload.bytes.empty()) {
      buffers.emplace_back(out.payload.bytes.data(), out.payload.bytes.size());
    }
  }
  buffers.front() += skip;
  // Asio asks after each system call how much the next may take; the write's own handler keeps
  // `this` alive.
  const auto progress = [this, skip](const boost::system::error_code& error, std::size_t taken) {
    OnTaken(skip + taken);
    return error ? 0 : kBytesPerCall;
  };
  asio::async_write(
      *stream_, buffers, progress,
      [self = shared_from_this(), skip](boost::system::error_code error, std::size_t taken) {
        self->OnTaken(skip + taken);
        self->OnWritten(error);
      });
}

void Connection::OnTaken(std::size_t of_this_write) {
  const std::size_t more = of_this_write - write_bytes_;
  if (more == 0) return;
  write_bytes_ = of_this_write;
  sent_bytes_ += more;
  unsent_bytes_ -= more;
  if (unsent_bytes_ <= kMaxInFlightBytesPerConnection) room_.cancel();
}

void Connection::OnWritten(boost::system::error_code error) {
  writing_.clear();
  if (error) {
    Close(LostConnection(error));
    return;
  }
  if (!queue_.empty()) {
    WriteQueued();
    return;
  }
  write_scheduled_ = false;
  if (finishing_) EndSending();
}

void Connection::Finish() {
  if (closed_ || finishing_) return;
  finishing_ = true;
  if (!write_scheduled_) EndSending();
}

// The peer closes when it has read everything; closing here at once could reset the connection
// under its last answers. That of a peer that does not is closed by who asked for the end.
void Connection::EndSending() {
  boost::system::error_code ignored;
  if (!closed_) socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

void Connection::Close(Error why) {
  if (closed_) return;
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  tick_.cancel();
  room_.cancel();
  queue_.clear();
  asio::post(socket_.get_executor(), [self = shared_from_this(), why = std::move(why)] {
    // The events hold what is above this connection; letting go of them here ends the cycle.
    Events events = std::move(self->events_);
    if (events.on_closed) events.on_closed(why);
  });
}

void Connection::EmptyInbox() {
  inbox_begin_ = inbox_end_ = 0;
  // A long message must not cost its megabyte for as long as the connection lives.
  if (inbox_.size() > kInboxBytes) std::vector<char>(kInboxBytes).swap(inbox_);
}

Task<Status> Connection::Gather(std::size_t count) {
  if (inbox_begin_ + count > inbox_.size()) {
    std::memmove(inbox_.data(), inbox_.data() + inbox_begin_, inbox_end_ - inbox_begin_);
    inbox_end_ -= inbox_begin_;
    inbox_begin_ = 0;
    if (count > inbox_.size()) inbox_.resize(count);
  }
  while (inbox_end_ - inbox_begin_ < count) {
    boost::system::error_code error;
    const asio::mutable_buffer room(inbox_.data() + inbox_end_, inbox_.size() - inbox_end_);
    std::size_t got = 0;
    if (takes_files_) {
      got = co_await ReceiveFiles(room, &error);
    } else {
      got =
          co_await stream_->async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
    }
    if (error) co_return Fail(LostConnection(error));
    inbox_end_ += got;
    received_bytes_ += got;
    last_received_ = Clock::now();
  }
  co_return Status();
}

Task<std::size_t> Connection::ReceiveFiles(asio::mutable_buffer room,
                                           boost::system::error_code* error) {
  for (;;) {
    const std::ptrdiff_t got =
        ReceiveWithFiles(socket_.native_handle(), room.data(), room.size(), files_);
    if (files_.size() > kMostFilesWaiting) *error = asio::error::message_size;
    if (got == 0) *error = asio::error::eof;
    if (got < 0 && errno != EAGAIN) error->assign(errno, boost::system::system_category());
    if (*error) co_return 0;
    if (got > 0) co_return static_cast<std::size_t>(got);
    co_await socket_.async_wait(StreamSocket::wait_read,
                                asio::redirect_error(asio::use_awaitable, *error));
    if (*error) co_return 0;
  }
}

/// The files come in the order of their frames.
Status Connection::TakeFileOf(InFrame& frame) {
  if (frame.header.files == 0) return {};
  if (files_.empty()) return Fail(Code::kCorrupt, "the file of a frame has not come with it");
  frame.file = std::move(files_.front());
  files_.pop_front();
  return {};
}

Task<Result<Slice>> Connection::ReadPayload(std::size_t size) {
  if (size == 0) co_return Slice();
  auto buffer = std::make_shared<Buffer>(size);
  const std::size_t here = std::min(size, inbox_end_ - inbox_begin_);
  std::memcpy(buffer->data(), inbox_.data() + inbox_begin_, here);
  inbox_begin_ += here;
  std::size_t have = here;
  while (have < size) {
    boost::system::error_code error;
    asio::mutable_buffer room(buffer->data() + have, size - have);
    const std::size_t got =
        co_await stream_->async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Fail(LostConnection(error));
    have += got;
    received_bytes_ += got;
    last_received_ = Clock::now();
  }
  co_return Slice::Of(std::shared_ptr<const Buffer>(std::move(buffer)));
}

// A client that asks for more than it takes is not read from until it has taken some. A client
// itself always reads, or both could wait for each other.
Task<Status> Connection::WaitForRoom() {
  while (side_ == Side::kServer && unsent_bytes_ > kMaxInFlightBytesPerConnection && !closed_) {
    room_.expires_after(kIdleTimeout);
    boost::system::error_code error;
    co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (!error) co_return Fail(Code::kTimeout, "the peer does not take its answers");
  }
  co_return Status();
}

// Asks are for servers, answers for clients; a frame the wrong way is refused before its payload.
Status Connection::CheckDirection(FrameKind kind) const {
  switch (kind) {
    case FrameKind::kRequest:
    case FrameKind::kCancel:
    case FrameKind::kPing:
      if (side_ == Side::kServer) return {};
      return Fail(Code::kCorrupt, "a server sent what only clients send");
    case FrameKind::kReply:
    case FrameKind::kPending:
    case FrameKind::kPong:
      if (side_ == Side::kClient) return {};
      return Fail(Code::kCorrupt, "a client sent what only servers send");
    case FrameKind::kHandshake:
      return Fail(Code::kCorrupt, "a handshake came twice");
  }
  return Fail(Code::kCorrupt, "the frame is of an unknown kind");
}

Task<Result<InFrame>> Connection::ReadFrame() {
  in_frame_ = inbox_end_ != inbox_begin_;
  if (!in_frame_) {
    EmptyInbox();
    Status first = co_await Gather(1);
    if (!first) co_return Fail(first.error());
    in_frame_ = true;
  }
  rate_mark_ = Clock::now();
  rate_mark_bytes_ = received_bytes_;
  Status filled = co_await Gather(kFrameHeaderBytes);
  if (!filled) co_return Fail(filled.error());
  std::array<std::byte, kFrameHeaderBytes> fixed;
  std::memcpy(fixed.data(), inbox_.data() + inbox_begin_, fixed.size());
  Result<FrameHeader> header = DecodeFrameHeader(fixed);
  if (!header) co_return Fail(header.error());
  Status expected = CheckDirection(header->kind);
  if (!expected) co_return Fail(expected.error());
  filled = co_await Gather(kFrameHeaderBytes + header->message_bytes);
  if (!filled) co_return Fail(filled.error());
  InFrame frame;
  frame.header = *header;
  frame.message.assign(inbox_.data() + inbox_begin_ + kFrameHeaderBytes, header->message_bytes);
  inbox_begin_ += kFrameHeaderBytes + header->message_bytes;
  if (!FrameChecksumMatches(fixed, frame.message)) {
    co_return Fail(Code::kCorrupt, "a frame's checksum does not match");
  }
  Status file = TakeFileOf(frame);
  if (!file) co_return Fail(file.error());
  Result<Slice> payload = co_await ReadPayload(header->payload_bytes);
  if (!payload) co_return Fail(payload.error());
  frame.payload = std::move(*payload);
  in_frame_ = false;
  ++frames_;
  co_return frame;
}

Task<void> Connection::ReadFrames() {
  const std::shared_ptr<Connection> self = shared_from_this();
  for (int taken = 1; !closed_; ++taken) {
    if (taken % kFramesPerTurn == 0)
      co_await asio::post(socket_.get_executor(), asio::use_awaitable);
    Status room = co_await WaitForRoom();
    if (!room) {
      Close(room.error());
      co_return;
    }
    Result<InFrame> frame = co_await ReadFrame();
    if (!frame) {
      Close(frame.error());
      co_return;
    }
    Dispatch(std::move(*frame));
  }
}

void Connection::Dispatch(InFrame frame) {
  if (closed_ || finishing_) return;
  if (frame.header.kind == FrameKind::kPing) {
    SendControl(FrameKind::kPong);
  } else if (frame.header.kind != FrameKind::kPong) {
    events_.on_frame(std::move(frame));
  }
}

void Connection::SendControl(FrameKind kind) {
  OutFrame frame;
  frame.header.kind = kind;
  Send(std::move(frame));
}

void Connection::Wake() {
  if (!closed_ && tick_.expiry() > Clock::now() + kTick) ScheduleTick();
}

void Connection::ScheduleTick() {
  const bool often = in_frame_ || write_scheduled_ || events_.busy();
  tick_.expires_after(often ? Duration(kTick) : Duration(kQuietTick));
  tick_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const std::shared_ptr<Connection> self = weak.lock();
    if (self && !error) self->OnTick();
  });
}

bool Connection::TooSlow(TimePoint now) {
  if (!in_frame_ || now - rate_mark_ < kRateWindow) return false;
  const bool slow = received_bytes_ - rate_mark_bytes_ < kMinBytesPerWindow;
  rate_mark_ = now;
  rate_mark_bytes_ = received_bytes_;
  return slow;
}

// Not what the socket took: its buffer hides a slow peer for minutes.
std::uint64_t Connection::BytesAtPeer() {
  int waiting = 0;
  if (ioctl(socket_.native_handle(), SIOCOUTQ, &waiting) != 0 || waiting < 0) waiting = 0;
  const auto on_the_way = static_cast<std::uint64_t>(waiting);
  return sent_bytes_ - std::min(sent_bytes_, on_the_way);
}

bool Connection::TakesTooSlowly(TimePoint now) {
  if (!write_scheduled_ || (taken_marked_ && now - taken_mark_ < kRateWindow)) return false;
  // The window begins at the first look: to ask at each write would be a system call in each.
  const std::uint64_t bytes = BytesAtPeer();
  const bool slow = taken_marked_ && bytes < taken_mark_bytes_ + kMinBytesPerWindow;
  taken_marked_ = true;
  taken_mark_ = now;
  taken_mark_bytes_ = bytes;
  return slow;
}

std::optional<Error> Connection::Broken(TimePoint now) {
  if (TooSlow(now)) return Error{Code::kUnavailable, "the peer stopped in the middle of a frame"};
  if (TakesTooSlowly(now)) return Error{Code::kUnavailable, "the peer does not take its answers"};
  if (side_ == Side::kServer && frames_ == 0 && now - opened_ > first_frame_)
    return Error{Code::kUnavailable, "no request came over the new connection"};
  if (now - last_received_ > kIdleTimeout)
    return Error{Code::kUnavailable, "nothing came over the connection for a minute"};
  return std::nullopt;
}

void Connection::OnTick() {
  if (closed_) return;
  const TimePoint now = Clock::now();
  // A tick that comes late says that this program did not run: what the peer did meanwhile waits in
  // the socket.
  if (now - std::exchange(last_tick_, now) > kRateWindow) rate_mark_ = taken_mark_ = now;
  if (std::optional<Error> broken = Broken(now)) {
    Close(std::move(*broken));
    return;
  }
  if (side_ == Side::kClient && now - last_sent_ > kPingInterval) SendControl(FrameKind::kPing);
  events_.on_tick(now);
  if (!closed_) ScheduleTick();
}

}  // namespace forebay
