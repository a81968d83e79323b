#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/wire/frame.h"
#include "common/wire/handshake.h"

namespace forebay {

struct RawFrame {
  FrameHeader header;
  std::string message;
  std::string payload;
};

/// The bytes of a frame, its lengths and checksum right.
std::string FrameBytes(FrameHeader header, std::string_view message, std::string_view payload = {});
FrameHeader HeaderOf(FrameKind kind, std::uint64_t request_id = 0, Method method = Method::kNone);

/// One end of a connection that says what the test wants, right or wrong. Blocking; every wait ends
/// after 20 s.
class RawPeer {
 public:
  explicit RawPeer(int fd) : fd_(fd) {}
  ~RawPeer();
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;

  /// To "127.0.0.1:port"; not connected() when nobody listens.
  static RawPeer ConnectTo(const std::string& address);
  /// The same from 127.0.1.`number`, an address of its own.
  static RawPeer ConnectFrom(std::uint8_t number, const std::string& address);
  bool connected() const { return fd_ >= 0; }

  /// False when the other side has closed.
  bool Send(std::string_view bytes) const;
  /// Nothing when the connection ends first.
  std::optional<RawFrame> Read() const;
  /// Discards what comes; true when the connection ends.
  bool Ends() const;
  /// True when the other side has not closed by now.
  bool IsOpen() const;
  /// Closes with a reset instead of an orderly end.
  void Reset();

  /// The opening of docs/WIRE.md; `change` may spoil the first message of this side after its proof
  /// was computed. False when the other side refused.
  using ChangeHello = std::function<void(proto::ClientHello&)>;
  using ChangeAnswer = std::function<void(const proto::ClientHello&, proto::ServerHello&)>;
  bool OpenAsClient(const Credentials& credentials, const ChangeHello& change = {}) const;
  bool OpenAsServer(const Credentials& credentials, const ChangeAnswer& change = {}) const;

 private:
  bool ReadBytes(char* to, std::size_t count) const;
  bool SendMessage(const google::protobuf::MessageLite& message) const;
  bool ReadMessage(google::protobuf::MessageLite& message) const;

  int fd_;
};

/// A listening socket whose connections the test answers itself.
class RawListener {
 public:
  RawListener();
  ~RawListener();
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;

  const std::string& address() const { return address_; }
  RawPeer Accept() const;

 private:
  int fd_;
  std::string address_;
};

}  // namespace forebay
