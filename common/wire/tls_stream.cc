#include "common/wire/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace forebay {
namespace {

// RFC 8446 sections 5.1 and 5.2: what a record holds, and at most has around it. Ours have 22.
constexpr std::size_t kRecordBytes = std::size_t{16} * 1024;
constexpr std::size_t kAroundRecord = 256;
constexpr std::size_t kRecordsPerCall = TlsStream::kBytesPerCall / kRecordBytes;
// One record more, for what OpenSSL has to say itself.
constexpr std::size_t kScratchBytes = (kRecordsPerCall + 1) * (kRecordBytes + kAroundRecord);
// Of a peer that has proved nothing yet.
constexpr std::size_t kShakeBytes = std::size_t{8} * 1024;

/// Sealed bytes of the call under way; nothing is kept there between two calls, so that an idle
/// connection has no memory for them.
std::span<std::byte> Scratch() {
  static thread_local Buffer scratch(kScratchBytes);
  return scratch.span();
}

/// Takes records out of a list of buffers: whole ones where they lie, the ends of some with the
/// beginnings of others in a copy.
class Records {
 public:
  explicit Records(std::span<const asio::const_buffer> buffers) : buffers_(buffers) { Skip(0); }

  /// Empty at the end. Stays as it is until the next call.
  ByteView Next() {
    if (buffers_.empty()) return {};
    const ByteView here = Here();
    if (here.size() >= kRecordBytes || buffers_.size() == 1) {
      const ByteView whole = here.first(std::min(here.size(), kRecordBytes));
      Skip(whole.size());
      return whole;
    }
    std::size_t have = 0;
    while (have < kRecordBytes && !buffers_.empty()) {
      const ByteView part = Here().first(std::min(Here().size(), kRecordBytes - have));
      std::memcpy(copy_.data() + have, part.data(), part.size());
      have += part.size();
      Skip(part.size());
    }
    return ByteView(copy_).first(have);
  }

 private:
  ByteView Here() const {
    const asio::const_buffer& front = buffers_.front();
    return ByteView(static_cast<const std::byte*>(front.data()), front.size()).subspan(gone_);
  }
  void Skip(std::size_t bytes) {
    gone_ += bytes;
    while (!buffers_.empty() && gone_ == buffers_.front().size()) {
      buffers_ = buffers_.subspan(1);
      gone_ = 0;
    }
  }

  std::span<const asio::const_buffer> buffers_;
  std::size_t gone_ = 0;  // of the first one
  std::array<std::byte, kRecordBytes> copy_;
};

// OpenSSL's errors name a library in their higher bits: these are none of them.
constexpr int kTooManyMessages = 1;
constexpr int kAnswersNotTaken = 2;

class OpenSslCategory : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "TLS"; }
  std::string message(int value) const override {
    if (value == kTooManyMessages) return "the peer changes its keys again and again";
    if (value == kAnswersNotTaken) return "the peer does not take the answers of TLS itself";
    const char* text = ERR_reason_error_string(static_cast<unsigned long>(value));
    return text == nullptr ? "TLS failed" : text;
  }
};

}  // namespace

const boost::system::error_category& TlsCategory() {
  static const OpenSslCategory category;
  return category;
}

/// What OpenSSL reads from and writes to.
struct TlsStreamBio {
  static TlsStream* Of(BIO* bio) { return static_cast<TlsStream*>(BIO_get_data(bio)); }

  static int Read(BIO* bio, char* to, std::size_t size, std::size_t* got) {
    BIO_clear_retry_flags(bio);
    *got = Of(bio)->Give(std::as_writable_bytes(std::span(to, size)));
    if (*got == 0) BIO_set_retry_read(bio);
    return *got == 0 ? 0 : 1;
  }

  static int Write(BIO* bio, const char* from, std::size_t size, std::size_t* taken) {
    BIO_clear_retry_flags(bio);
    const bool kept = Of(bio)->Keep(std::as_bytes(std::span(from, size)));
    *taken = kept ? size : 0;
    return kept ? 1 : 0;
  }

  static void Message(int is_ours, int, int type, const void*, std::size_t, ssl_st*, void* stream) {
    if (is_ours == 0 && type == SSL3_RT_HANDSHAKE) static_cast<TlsStream*>(stream)->NoteMessage();
  }

  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* NewMethod() {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "forebay");
    if (method == nullptr) return nullptr;
    BIO_meth_set_read_ex(method, Read);
    BIO_meth_set_write_ex(method, Write);
    BIO_meth_set_ctrl(method, Control);
    return method;
  }

  static BIO* For(TlsStream* stream) {
    static BIO_METHOD* const method = NewMethod();
    BIO* bio = method == nullptr ? nullptr : BIO_new(method);
    if (bio == nullptr) return nullptr;
    BIO_set_data(bio, stream);
    BIO_set_init(bio, 1);
    return bio;
  }
};

TlsStream::TlsStream(StreamSocket& socket, ssl_st* connection, Side side,
                     std::uint64_t records_per_key)
    : socket_(socket), connection_(connection, SSL_free), records_per_key_(records_per_key) {
  BIO* bio = TlsStreamBio::For(this);
  SSL_set_bio(connection, bio, bio);  // without one each call fails
  SSL_set_msg_callback(connection, TlsStreamBio::Message);
  SSL_set_msg_callback_arg(connection, this);
  if (side == Side::kClient) {
    SSL_set_connect_state(connection);
  } else {
    SSL_set_accept_state(connection);
  }
}

TlsStream::~TlsStream() = default;

/// OpenSSL takes such messages by the thousand in one call, but each begins with a record: there it
/// is stopped (Give).
void TlsStream::NoteMessage() {
  if (!shaken_ || ++messages_ <= kMostMessages) return;
  broken_.assign(kTooManyMessages, TlsCategory());
}

void TlsStream::NoteBytes(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ >= kRecordBytes) bytes_ = messages_ = 0;
}

/// OpenSSL asks for what has come.
std::size_t TlsStream::Give(std::span<std::byte> to) {
  if (broken_) return 0;
  const ByteView left = ByteView(left_).subspan(left_begin_);
  const ByteView from = left.empty() ? fresh_ : left;
  const std::size_t count = std::min(to.size(), from.size());
  if (count == 0) return 0;
  std::memcpy(to.data(), from.data(), count);
  if (left.empty()) {
    fresh_ = fresh_.subspan(count);
  } else if (left_begin_ += count; left_begin_ == left_.size()) {
    left_ = {};
    left_begin_ = 0;
  }
  return count;
}

/// OpenSSL has sealed something. False: there is no room, which under Write is a fault of ours.
bool TlsStream::Keep(ByteView sealed) {
  if (sealing_.empty()) {  // not under Write: it answers the peer by itself
    unasked_ += sealed.size();
    if (unasked_ > kMostUnasked) broken_.assign(kAnswersNotTaken, TlsCategory());
    if (broken_) return false;
    unsent_.insert(unsent_.end(), sealed.begin(), sealed.end());
    return true;
  }
  if (sealed.size() > sealing_.size() - sealing_bytes_) return false;
  std::memcpy(sealing_.data() + sealing_bytes_, sealed.data(), sealed.size());
  sealing_bytes_ += sealed.size();
  return true;
}

boost::system::error_code TlsStream::Failure(int result) const {
  if (broken_) return broken_;
  switch (SSL_get_error(connection_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return asio::error::would_block;
    case SSL_ERROR_ZERO_RETURN:
      return asio::error::eof;
    case SSL_ERROR_SSL:
      return {static_cast<int>(ERR_get_error()), TlsCategory()};
    default:
      return asio::error::connection_aborted;
  }
}

bool TlsStream::Receive(std::size_t most, boost::system::error_code& error) {
  const std::span<std::byte> room = Scratch().first(std::min(most, kScratchBytes));
  for (;;) {
    const ssize_t got = recv(socket_.native_handle(), room.data(), room.size(), MSG_DONTWAIT);
    if (got > 0) {
      fresh_ = room.first(static_cast<std::size_t>(got));
      return true;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) {
      error = asio::error::eof;
    } else if (errno == EAGAIN) {
      error = asio::error::would_block;
    } else {
      error.assign(errno, boost::system::system_category());
    }
    return false;
  }
}

/// The thread's memory is for others after this.
void TlsStream::KeepTheRest() {
  if (fresh_.empty()) return;
  left_.erase(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(left_begin_));
  left_begin_ = 0;
  left_.insert(left_.end(), fresh_.begin(), fresh_.end());
  fresh_ = {};
}

std::optional<StreamSocket::wait_type> TlsStream::Shake(boost::system::error_code& error) {
  for (;;) {
    error.clear();
    if (!Flush(error)) break;
    if (shaken_) return std::nullopt;
    ERR_clear_error();
    const int result = SSL_do_handshake(connection_.get());
    shaken_ = result == 1;
    if (shaken_) continue;
    const boost::system::error_code why = Failure(result);
    const bool sent = Flush(error);
    if (why != asio::error::would_block) {
      error = why;  // the peer has been told, if it takes anything
      return std::nullopt;
    }
    if (!sent) break;
    if (!Receive(kShakeBytes, error)) {
      if (error != asio::error::would_block) return std::nullopt;
      return StreamSocket::wait_read;
    }
    KeepTheRest();
  }
  if (error != asio::error::would_block) return std::nullopt;
  return StreamSocket::wait_write;
}

std::size_t TlsStream::Decrypt(std::span<std::byte> room, boost::system::error_code& error) {
  std::size_t have = 0;
  while (have < room.size() && !error) {
    std::size_t got = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(connection_.get(), room.data() + have, room.size() - have, &got);
    have += got;
    NoteBytes(got);
    if (result != 1) error = Failure(result);
  }
  return have;
}

std::size_t TlsStream::Read(asio::mutable_buffer buffer, boost::system::error_code& error) {
  const std::span<std::byte> room(static_cast<std::byte*>(buffer.data()), buffer.size());
  // What is asked for, what is around it, and the rest of a record: little is left over to be kept.
  const std::size_t records = room.size() / kRecordBytes + 2;
  const std::size_t most = room.size() + kRecordBytes + records * kAroundRecord;
  error.clear();
  std::size_t got = Decrypt(room, error);
  if (got == 0 && error == asio::error::would_block) {
    error.clear();
    if (Receive(most, error)) got = Decrypt(room, error);
    KeepTheRest();
  }
  if (got > 0) error.clear();  // it comes again
  boost::system::error_code later;
  if (sealed_from_ == 0) Flush(later);
  return got;
}

bool TlsStream::Seal(ByteView plain, boost::system::error_code& error) {
  ERR_clear_error();
  if (++records_ > records_per_key_) {
    records_ = 1;
    SSL_key_update(connection_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  std::size_t taken = 0;
  const int result = SSL_write_ex(connection_.get(), plain.data(), plain.size(), &taken);
  if (result != 1) error = Failure(result);
  return result == 1;
}

std::size_t TlsStream::Send(ByteView sealed, boost::system::error_code& error) {
  std::size_t sent = 0;
  while (sent < sealed.size()) {
    const ByteView rest = sealed.subspan(sent);
    const ssize_t took =
        send(socket_.native_handle(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (took < 0 && errno == EINTR) continue;
    if (took < 0) {
      error = errno == EAGAIN ? boost::system::error_code(asio::error::would_block)
                              : boost::system::error_code(errno, boost::system::system_category());
      break;
    }
    sent += static_cast<std::size_t>(took);
  }
  sent_bytes_ += sent;
  return sent;
}

/// Whether the socket has taken all that it was to take before.
bool TlsStream::Flush(boost::system::error_code& error) {
  if (unsent_.empty()) return true;
  unsent_begin_ += Send(ByteView(unsent_).subspan(unsent_begin_), error);
  if (unsent_begin_ < unsent_.size()) return false;
  unsent_ = {};
  unsent_begin_ = 0;
  unasked_ = 0;
  return true;
}

std::size_t TlsStream::Write(std::span<const asio::const_buffer> buffers,
                             boost::system::error_code& error) {
  error.clear();
  if (!Flush(error)) return 0;
  if (sealed_from_ > 0) return std::exchange(sealed_from_, 0);
  Records records(buffers);
  sealing_ = Scratch();
  sealing_bytes_ = 0;
  std::size_t plain = 0;
  while (plain < kBytesPerCall) {
    const ByteView record = records.Next();
    if (record.empty() || !Seal(record, error)) break;
    plain += record.size();
  }
  const ByteView sealed = std::exchange(sealing_, {}).first(sealing_bytes_);
  if (error) return 0;
  const std::size_t sent = Send(sealed, error);
  if (sent == sealed.size()) return plain;
  const ByteView rest = sealed.subspan(sent);
  unsent_.assign(rest.begin(), rest.end());
  sealed_from_ = plain;
  return 0;
}

}  // namespace forebay
