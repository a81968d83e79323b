#include "common/wire/connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/wire_stream.h"

namespace forebay {
namespace {

// Where large payloads come, what is received at once where a frame begins: all of a frame but its
// payload, which then goes straight to its own buffer.
constexpr std::size_t kHeadBytes = 1024;
// Frames of one connection that are taken in one turn of the event loop. The inbox holds hundreds
// of requests; the answers to these few are counted before more are begun.
constexpr int kFramesPerTurn = 8;
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

}  // namespace

Error Connection::Lost(const boost::system::error_code& error) {
  return Error{Code::kUnavailable, "the connection was lost: " + error.message()};
}

Connection::Connection(std::unique_ptr<WireStream> stream, Side side, ConnectionTimes times)
    : stream_(std::move(stream)),
      socket_(stream_->socket()),
      tick_(socket_.get_executor()),
      room_(socket_.get_executor()),
      side_(side),
      times_(times),
      opened_(Clock::now()),
      passes_files_(IsUnix(socket_) && !stream_->secured()),
      last_tick_(opened_),
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

Task<Status> Connection::Gather(std::size_t count) {
  while (inbox_.size() < count) {
    Flush();
    boost::system::error_code error;
    ByteSpan free = inbox_.Room(count);
    const bool at_head = inbox_.size() == 0 && large_payloads_;
    if (at_head) free = free.first(std::min(free.size(), std::max(count, kHeadBytes)));
    const asio::mutable_buffer room(free.data(), free.size());
    std::size_t got = 0;
    if (takes_files_) {
      got = co_await ReceiveFiles(room, &error);
    } else {
      got = co_await stream_->Read(room, &error);
    }
    if (error) co_return Fail(Lost(error));
    inbox_.Came(got);
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
  large_payloads_ = size > Inbox::kLentAtMost;
  if (Inbox::Lends(size)) {
    Status filled = co_await Gather(size);
    if (!filled) co_return Fail(filled.error());
    last_payload_ = last_received_;
    co_return inbox_.Lend(size);
  }
  auto buffer = std::make_shared<Buffer>(size);
  const std::size_t here = std::min(size, inbox_.size());
  std::memcpy(buffer->data(), inbox_.data(), here);
  inbox_.Take(here);
  std::size_t have = here;
  Flush();
  while (have < size) {
    boost::system::error_code error;
    asio::mutable_buffer room(buffer->data() + have, size - have);
    const std::size_t got = co_await stream_->Read(room, &error);
    if (error) co_return Fail(Lost(error));
    have += got;
    received_bytes_ += got;
    last_received_ = Clock::now();
    last_payload_ = last_received_;
  }
  co_return Slice::Of(std::shared_ptr<const Buffer>(std::move(buffer)));
}

// A client that asks for more than it takes is not read from until it has taken some. A client
// itself always reads, or both could wait for each other.
Task<Status> Connection::WaitForRoom() {
  if (unsent_bytes_ > kMaxInFlightBytesPerConnection) Flush();
  while (side_ == Side::kServer && unsent_bytes_ > kMaxInFlightBytesPerConnection && !closed_) {
    room_.expires_after(times_.idle);
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
  in_frame_ = inbox_.size() > 0;
  if (!in_frame_) {
    Status first = co_await Gather(1);
    if (!first) co_return Fail(first.error());
    in_frame_ = true;
  }
  rate_mark_ = Clock::now();
  rate_mark_bytes_ = received_bytes_;
  Status filled = co_await Gather(kFrameHeaderBytes);
  if (!filled) co_return Fail(filled.error());
  std::array<std::byte, kFrameHeaderBytes> fixed;
  std::memcpy(fixed.data(), inbox_.data(), fixed.size());
  Result<FrameHeader> header = DecodeFrameHeader(fixed);
  if (!header) co_return Fail(header.error());
  Status expected = CheckDirection(header->kind);
  if (!expected) co_return Fail(expected.error());
  filled = co_await Gather(kFrameHeaderBytes + header->message_bytes);
  if (!filled) co_return Fail(filled.error());
  InFrame frame;
  frame.header = *header;
  frame.message.assign(reinterpret_cast<const char*>(inbox_.data()) + kFrameHeaderBytes,
                       header->message_bytes);
  inbox_.Take(kFrameHeaderBytes + header->message_bytes);
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
    if (taken % kFramesPerTurn == 0) {
      Flush();
      co_await asio::post(socket_.get_executor(), asio::use_awaitable);
    }
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
    dispatching_ = true;
    events_.on_frame(std::move(frame));
    dispatching_ = false;
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
  return stream_->sent_bytes() - std::min(stream_->sent_bytes(), on_the_way);
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
  if (side_ == Side::kServer && frames_ == 0 && now - opened_ > times_.first_frame)
    return Error{Code::kUnavailable, "no request came over the new connection"};
  if (now - last_received_ > times_.idle)
    return Error{Code::kUnavailable, "nothing came over the connection for too long"};
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
  if (side_ == Side::kClient && now - last_sent_ > times_.ping_every) SendControl(FrameKind::kPing);
  events_.on_tick(now);
  if (!closed_) ScheduleTick();
}

}  // namespace forebay
