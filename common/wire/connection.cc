#include "common/wire/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <utility>

#include "common/base/executors.h"

namespace forebay {
namespace {

constexpr std::size_t kInboxBytes = 64 * 1024;
// One gathered write takes at most this many frames: two buffers each, and Asio gathers 64 at a
// time.
constexpr std::size_t kFramesPerWrite = 32;
// A peer in the middle of a frame brings this many bytes in this time, or is cut off (FAULTS.md: 64
// KiB/s over 2 s).
constexpr std::uint64_t kMinBytesPerWindow = 128 * 1024;
constexpr std::chrono::seconds kRateWindow{2};
constexpr std::chrono::seconds kQuietTick{1};

Error LostConnection(const boost::system::error_code& error) {
  return Error{Code::kUnavailable, "the connection was lost: " + error.message()};
}

}  // namespace

Connection::Connection(StreamSocket socket, bool pings)
    : socket_(std::move(socket)),
      tick_(socket_.get_executor()),
      room_(socket_.get_executor()),
      pings_(pings),
      inbox_(kInboxBytes) {
  last_received_ = last_sent_ = rate_mark_ = Clock::now();
}

void Connection::Start(Events events) {
  events_ = std::move(events);
  Spawn(socket_.get_executor(), ReadFrames());
  ScheduleTick();
}

void Connection::Send(OutFrame frame) {
  if (closed_) return;
  frame.header.ring_epoch = events_.epoch();
  frame.header.message_bytes = static_cast<std::uint32_t>(frame.message.size());
  frame.header.payload_bytes = static_cast<std::uint32_t>(frame.payload.bytes.size());
  const auto fixed = EncodeFrameHeader(frame.header, frame.message);
  Outgoing out;
  out.head.reserve(fixed.size() + frame.message.size());
  out.head.append(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  out.head.append(frame.message);
  out.payload = std::move(frame.payload);
  unsent_bytes_ += out.head.size() + out.payload.bytes.size();
  queue_.push_back(std::move(out));
  ScheduleWrite();
}

void Connection::ScheduleWrite() {
  if (write_scheduled_) return;
  write_scheduled_ = true;
  // Posted, not written at once: frames of other requests that are handled in this turn join.
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->WriteQueued(); });
}

void Connection::WriteQueued() {
  if (closed_) return;
  const std::size_t count = std::min(queue_.size(), kFramesPerWrite);
  std::vector<asio::const_buffer> buffers;
  buffers.reserve(2 * count);
  writing_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    writing_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  for (const Outgoing& out : writing_) {
    buffers.emplace_back(out.head.data(), out.head.size());
    if (!out.payload.bytes.empty()) {
      buffers.emplace_back(out.payload.bytes.data(), out.payload.bytes.size());
    }
  }
  ++writes_;
  last_sent_ = Clock::now();
  asio::async_write(socket_, std::move(buffers),
                    [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                      self->OnWritten(error);
                    });
}

void Connection::OnWritten(boost::system::error_code error) {
  for (const Outgoing& out : writing_) unsent_bytes_ -= out.head.size() + out.payload.bytes.size();
  writing_.clear();
  if (error) {
    Close(LostConnection(error));
    return;
  }
  room_.cancel();
  if (queue_.empty()) {
    write_scheduled_ = false;
  } else {
    WriteQueued();
  }
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
  if (inbox_begin_ + count > inbox_.size()) {
    std::memmove(inbox_.data(), inbox_.data() + inbox_begin_, inbox_end_ - inbox_begin_);
    inbox_end_ -= inbox_begin_;
    inbox_begin_ = 0;
    if (count > inbox_.size()) inbox_.resize(count);
  }
  while (inbox_end_ - inbox_begin_ < count) {
    boost::system::error_code error;
    const asio::mutable_buffer room(inbox_.data() + inbox_end_, inbox_.size() - inbox_end_);
    const std::size_t got =
        co_await socket_.async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Fail(LostConnection(error));
    inbox_end_ += got;
    received_bytes_ += got;
    last_received_ = Clock::now();
  }
  co_return Status();
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
        co_await socket_.async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Fail(LostConnection(error));
    have += got;
    received_bytes_ += got;
    last_received_ = Clock::now();
  }
  co_return Slice::Of(std::shared_ptr<const Buffer>(std::move(buffer)));
}

// A peer that asks for more than it takes is not read from until it has taken some.
Task<Status> Connection::WaitForRoom() {
  while (unsent_bytes_ > kMaxInFlightBytesPerConnection && !closed_) {
    room_.expires_after(kIdleTimeout);
    boost::system::error_code error;
    co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (!error) co_return Fail(Code::kTimeout, "the peer does not take its answers");
  }
  co_return Status();
}

Task<Result<InFrame>> Connection::ReadFrame() {
  in_frame_ = inbox_end_ != inbox_begin_;
  if (!in_frame_) {
    inbox_begin_ = inbox_end_ = 0;
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
  filled = co_await Gather(kFrameHeaderBytes + header->message_bytes);
  if (!filled) co_return Fail(filled.error());
  InFrame frame;
  frame.header = *header;
  frame.message.assign(inbox_.data() + inbox_begin_ + kFrameHeaderBytes, header->message_bytes);
  inbox_begin_ += kFrameHeaderBytes + header->message_bytes;
  if (!FrameChecksumMatches(fixed, frame.message)) {
    co_return Fail(Code::kCorrupt, "a frame's checksum does not match");
  }
  Result<Slice> payload = co_await ReadPayload(header->payload_bytes);
  if (!payload) co_return Fail(payload.error());
  frame.payload = std::move(*payload);
  co_return frame;
}

Task<void> Connection::ReadFrames() {
  const std::shared_ptr<Connection> self = shared_from_this();
  while (!closed_) {
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
  if (closed_) return;
  switch (frame.header.kind) {
    case FrameKind::kPing:
      SendControl(FrameKind::kPong);
      return;
    case FrameKind::kPong:
      return;
    case FrameKind::kHandshake:
      Close(Error{Code::kCorrupt, "a handshake came twice"});
      return;
    case FrameKind::kRequest:
    case FrameKind::kReply:
    case FrameKind::kPending:
    case FrameKind::kCancel:
      events_.on_frame(std::move(frame));
      return;
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
  const bool often = in_frame_ || events_.busy();
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
  // While the read loop waits for the peer to take answers, nothing can come in.
  return slow && unsent_bytes_ <= kMaxInFlightBytesPerConnection;
}

void Connection::OnTick() {
  if (closed_) return;
  const TimePoint now = Clock::now();
  if (TooSlow(now)) {
    Close(Error{Code::kUnavailable, "the peer stopped in the middle of a frame"});
    return;
  }
  if (now - last_received_ > kIdleTimeout) {
    Close(Error{Code::kUnavailable, "nothing came over the connection for a minute"});
    return;
  }
  if (pings_ && now - last_sent_ > kPingInterval) SendControl(FrameKind::kPing);
  events_.on_tick(now);
  if (!closed_) ScheduleTick();
}

}  // namespace forebay
