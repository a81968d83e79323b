#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"

// OpenSSL's own name, so that its headers stay in the sources.
struct ssl_st;

namespace forebay {

using StreamSocket = asio::generic::stream_protocol::socket;

/// Which end of a connection this is: the client asks, the server answers.
enum class Side { kClient, kServer };

/// TLS over a socket of somebody else's. OpenSSL sees one record of 16 KiB at a time; the socket is
/// given, and asked for, many of them in one system call (docs/adr/0046). Nothing here waits:
/// would_block says that the socket has to be waited for. All methods are for one thread.
class TlsStream {
 public:
  /// What one call hands to the socket, in bytes before they are sealed.
  static constexpr std::size_t kBytesPerCall = std::size_t{256} * 1024;
  /// After as many records the keys are new: a third of what RFC 8446 section 5.5 allows.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 23;
  /// Messages of TLS itself, new keys above all, that a peer may send along with 16 KiB of bytes.
  /// Each costs as much as some MiB of them and may want an answer; an honest peer sends few.
  static constexpr std::size_t kMostMessages = 32;
  /// Answers to these that the peer has not taken.
  static constexpr std::size_t kMostUnasked = std::size_t{64} * 1024;

  /// `connection` is this stream's now.
  TlsStream(StreamSocket& socket, ssl_st* connection, Side side,
            std::uint64_t records_per_key = kRecordsPerKey);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Goes on with the handshake. What the socket has to be waited for before it is called again;
  /// nothing: it is over, and `error` says how.
  std::optional<StreamSocket::wait_type> Shake(boost::system::error_code& error);

  /// As many bytes as have come, at most `room`, with one look into the socket: would_block also
  /// where more has come meanwhile, so that others have their turn. An end is eof, with a word of
  /// the peer or without: every frame has its length and its checksum.
  std::size_t Read(asio::mutable_buffer room, boost::system::error_code& error);

  /// How many of the first bytes of `buffers` the socket has taken. After would_block the next call
  /// is to begin with the same bytes: some of them are sealed.
  std::size_t Write(std::span<const asio::const_buffer> buffers, boost::system::error_code& error);

  /// Bytes that the socket has ever taken, as they went.
  std::uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  friend struct TlsStreamBio;

  std::size_t Give(std::span<std::byte> to);
  bool Keep(ByteView sealed);
  void NoteMessage();
  void NoteBytes(std::size_t bytes);
  bool Receive(std::size_t most, boost::system::error_code& error);
  void KeepTheRest();
  std::size_t Decrypt(std::span<std::byte> room, boost::system::error_code& error);
  bool Seal(ByteView plain, boost::system::error_code& error);
  bool Flush(boost::system::error_code& error);
  std::size_t Send(ByteView sealed, boost::system::error_code& error);
  boost::system::error_code Failure(int result) const;

  StreamSocket& socket_;
  const std::unique_ptr<ssl_st, void (*)(ssl_st*)> connection_;
  const std::uint64_t records_per_key_;
  std::uint64_t records_ = 0;  // with the keys in force
  bool shaken_ = false;
  boost::system::error_code broken_;  // by a flood: nothing is read any more

  // Of the peer, since it has last brought as many bytes as a record holds.
  std::size_t messages_ = 0;
  std::size_t bytes_ = 0;

  // Sealed bytes that have come and that OpenSSL has not asked for: what a call before left, then
  // what this one received, which lies in the thread's own memory.
  std::vector<std::byte> left_;
  std::size_t left_begin_ = 0;
  ByteView fresh_;

  // Sealed bytes on their way out: those of this call, in the thread's own memory; those that the
  // socket did not take; and how many bytes in all they were before.
  std::span<std::byte> sealing_;
  std::size_t sealing_bytes_ = 0;
  std::vector<std::byte> unsent_;
  std::size_t unsent_begin_ = 0;
  std::size_t unasked_ = 0;  // of unsent_: what OpenSSL answered by itself
  std::size_t sealed_from_ = 0;
  std::uint64_t sent_bytes_ = 0;
};

/// Of errors whose value is OpenSSL's, or one of ours.
const boost::system::error_category& TlsCategory();

}  // namespace forebay
