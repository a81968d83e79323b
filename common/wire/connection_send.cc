#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "common/wire/connection.h"
#include "common/wire/wire_stream.h"

// The half of a connection that sends.
namespace forebay {
namespace {

// One gathered write takes at most this many frames: two buffers each, and Asio gathers 64 at a
// time.
constexpr std::size_t kFramesPerWrite = 32;
// … and about so many bytes: the payloads of a write are let go of together.
constexpr std::size_t kBytesPerWrite = std::size_t{8} << 20;
// TLS takes a turn of the event loop for so many bytes at most: half a millisecond.
constexpr std::size_t kSealedPerTurn = std::size_t{1} << 20;

}  // namespace

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
  if (!dispatching_) ScheduleWrite();
}

void Connection::ScheduleWrite() {
  if (write_scheduled_) return;
  write_scheduled_ = true;
  taken_marked_ = false;
  // Posted, not written at once: frames of other requests that are handled in this turn join.
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->WriteQueued(); });
}

/// What was answered while frames were taken leaves before more are waited for, in one write and
/// without another turn of the event loop.
void Connection::Flush() {
  if (closed_ || write_scheduled_ || queue_.empty()) return;
  write_scheduled_ = true;
  taken_marked_ = false;
  WriteQueued();
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
    Write();
  }
}

/// The beginning of what is being written, with its file; then the rest as ever.
void Connection::WriteWithFile() {
  const Outgoing& first = writing_.front();
  const std::ptrdiff_t sent = SendWithFile(socket_.native_handle(), first.head, *first.file);
  if (sent > 0) {
    stream_->NoteSent(static_cast<std::size_t>(sent));
    OnTaken(static_cast<std::size_t>(sent));
    writing_.front().file.reset();
    Write();
    return;
  }
  if (sent < 0 && errno != EAGAIN) {
    Close(Lost({errno, boost::system::system_category()}));
    return;
  }
  WaitToWrite(&Connection::WriteWithFile);
}

void Connection::WaitToWrite(void (Connection::*next)()) {
  socket_.async_wait(StreamSocket::wait_write,
                     [self = shared_from_this(), next](boost::system::error_code error) {
                       if (self->closed_) return;
                       if (error) return self->OnWritten(error);
                       (self.get()->*next)();
                     });
}

/// Of what is being written, all that the socket has not taken yet.
std::vector<asio::const_buffer> Connection::Unwritten() const {
  std::vector<asio::const_buffer> buffers;
  buffers.reserve(2 * writing_.size());
  std::size_t skip = write_bytes_;
  const auto add = [&](asio::const_buffer part) {
    const std::size_t gone = std::min(skip, part.size());
    skip -= gone;
    part += gone;
    if (part.size() > 0) buffers.push_back(part);
  };
  for (const Outgoing& out : writing_) {
    add(asio::const_buffer(out.head.data(), out.head.size()));
    add(asio::const_buffer(out.payload.bytes.data(), out.payload.bytes.size()));
  }
  return buffers;
}

/// The rest of what is being written. Nearly always the socket takes it here and now, and nothing
/// is waited for.
void Connection::Write() {
  const std::size_t before = write_bytes_;
  for (;;) {
    const std::vector<asio::const_buffer> buffers = Unwritten();
    if (buffers.empty()) return OnWritten({});
    if (stream_->secured() && write_bytes_ - before >= kSealedPerTurn) break;
    boost::system::error_code error;
    const std::size_t taken = stream_->WriteNow(buffers, error);
    if (error == asio::error::would_block) return WaitToWrite(&Connection::Write);
    if (error) return OnWritten(error);
    OnTaken(write_bytes_ + taken);
  }
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->closed_) self->Write();
  });
}

void Connection::OnTaken(std::size_t of_this_write) {
  const std::size_t more = of_this_write - write_bytes_;
  if (more == 0) return;
  write_bytes_ = of_this_write;
  unsent_bytes_ -= more;
  if (unsent_bytes_ <= kMaxInFlightBytesPerConnection) room_.cancel();
}

void Connection::OnWritten(boost::system::error_code error) {
  writing_.clear();
  if (error) {
    Close(Lost(error));
    return;
  }
  if (!queue_.empty()) {
    // Others on this event loop have their turn first.
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->WriteQueued(); });
    return;
  }
  write_scheduled_ = false;
  if (finishing_) EndSending();
}

void Connection::Finish() {
  if (closed_ || finishing_) return;
  finishing_ = true;
  if (!write_scheduled_ && queue_.empty()) EndSending();
}

// The peer closes when it has read everything; closing here at once could reset the connection
// under its last answers. That of a peer that does not is closed by who asked for the end.
void Connection::EndSending() {
  boost::system::error_code ignored;
  if (!closed_) socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

}  // namespace forebay
