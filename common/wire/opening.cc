#include "common/wire/opening.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <utility>

#include "common/model/limits.h"
#include "common/wire/messages.h"
#include "common/wire/status_map.h"
#include "common/wire/tls_opening.h"
#include "common/wire/wire_stream.h"

namespace forebay {
namespace {

Task<Status> WriteFrame(WireStream& stream, FrameHeader header, std::string message) {
  header.message_bytes = static_cast<std::uint32_t>(message.size());
  const auto fixed = EncodeFrameHeader(header, message);
  std::string bytes(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  bytes += message;
  boost::system::error_code error;
  const asio::const_buffer buffer(bytes.data(), bytes.size());
  co_await stream.WriteAll(buffer, &error);
  if (error) co_return Fail(StreamFailure(error));
  co_return Status();
}

Task<Status> WriteMessage(WireStream& stream, const google::protobuf::MessageLite& message) {
  FrameHeader header;
  header.kind = FrameKind::kHandshake;
  std::string bytes = message.SerializeAsString();
  co_return co_await WriteFrame(stream, header, std::move(bytes));
}

// Exactly one frame and not a byte more, so that nothing is left over for the connection that
// follows.
Task<Status> ReadMessage(WireStream& stream, google::protobuf::MessageLite& message) {
  std::array<std::byte, kFrameHeaderBytes> fixed;
  boost::system::error_code error;
  const asio::mutable_buffer head(fixed.data(), fixed.size());
  co_await stream.ReadAll(head, &error);
  if (error) co_return Fail(StreamFailure(error));
  Result<FrameHeader> header = DecodeFrameHeader(fixed);
  if (!header) co_return Fail(header.error());
  const bool refused = header->kind == FrameKind::kReply && header->code != 0;
  if (header->kind != FrameKind::kHandshake && !refused) {
    co_return Fail(Code::kCorrupt, "the peer did not begin with a handshake");
  }
  // Nobody has proved anything yet: a refusal is bounded like the handshake itself.
  if (header->message_bytes > kMaxHandshakeBytes || header->payload_bytes > 0) {
    co_return Fail(Code::kCorrupt, "the peer's refusal is too long");
  }
  std::string bytes(header->message_bytes, '\0');
  const asio::mutable_buffer body(bytes.data(), bytes.size());
  co_await stream.ReadAll(body, &error);
  if (error) co_return Fail(StreamFailure(error));
  if (!FrameChecksumMatches(fixed, bytes))
    co_return Fail(Code::kCorrupt, "a frame's checksum does not match");
  if (refused) {
    proto::ErrorDetail detail;
    Status parsed = ParseMessage(bytes, detail);
    if (!parsed) co_return Fail(parsed.error());
    co_return Fail(CodeOfWire(header->code), detail.message());
  }
  co_return ParseMessage(bytes, message);
}

Task<void> Refuse(WireStream& stream, Error why) {
  proto::ErrorDetail detail;
  detail.set_message(why.message.substr(0, kMaxHandshakeBytes / 2));
  FrameHeader header;
  header.kind = FrameKind::kReply;
  header.code = WireCodeOf(why.code);
  std::string bytes = detail.SerializeAsString();
  Status ignored = co_await WriteFrame(stream, header, std::move(bytes));
  (void)ignored;
}

bool OtherCluster(const Uuid& ours, std::string_view theirs) {
  return !ours.IsZero() && !theirs.empty() && UuidFromBytes(theirs) != ours;
}

// What a stranger says of itself goes into our log and into sentences: one short line.
bool IsName(std::string_view text) {
  constexpr std::size_t kLongestName = 255;
  return text.size() <= kLongestName &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

Status CheckHello(const Credentials& credentials, const proto::ClientHello& hello) {
  if (!IsName(hello.program()) || !IsName(hello.peer_id())) {
    return Fail(Code::kInvalid, "the handshake names no program");
  }
  if (hello.version_min() > kWireVersion || hello.version_max() < kWireVersion) {
    return Fail(Code::kInvalid,
                hello.program() + " speaks wire versions " + std::to_string(hello.version_min()) +
                    " to " + std::to_string(hello.version_max()) + ", " + credentials.program +
                    " speaks " + std::to_string(kWireVersion) + ": install matching versions");
  }
  if (hello.nonce().size() < 16 || hello.role() == proto::ROLE_UNKNOWN ||
      !proto::Role_IsValid(hello.role())) {
    return Fail(Code::kInvalid, "the handshake is incomplete");
  }
  if (OtherCluster(credentials.cluster, hello.cluster())) {
    return Fail(Code::kDenied, hello.program() + " belongs to another cluster (" +
                                   UuidFromBytes(hello.cluster()).ToString() + ") than " +
                                   credentials.program + " (" + credentials.cluster.ToString() +
                                   ")");
  }
  return {};
}

Error WrongSecret(const std::string& program) {
  return Error{Code::kDenied, program +
                                  " does not hold this user's secret: run both as the same user, "
                                  "with the same runtime directory"};
}

/// Over TLS the secret that both ends prove to hold is that of their connection: nobody can sit
/// between two of them.
void BindProofs(const SecuredStream& secured, Credentials& credentials) {
  if (secured.tls) credentials.secret = Secret(secured.binding);
}

/// The role comes from the certificate; what a message says must be the same.
Status CheckRole(const SecuredStream& secured, proto::Role said, const std::string& program) {
  if (!secured.tls) return {};
  const proto::Role proved = secured.member ? secured.member->role : proto::ROLE_STRANGER;
  if (said == proved) return {};
  if (!secured.member) {
    return Fail(Code::kDenied, program +
                                   " has no certificate of this cluster: get one with "
                                   "'forebay join HOST:PORT --token T'");
  }
  return Fail(Code::kDenied, program + " says that it is another than its certificate, of " +
                                 NameOf(*secured.member) + ", says");
}

PeerIdentity IdentityOf(const SecuredStream& secured, proto::Role role, std::string id,
                        std::string program) {
  PeerIdentity peer{.role = role, .id = std::move(id), .program = std::move(program)};
  peer.proved = secured.member.has_value();
  if (secured.member) peer.id = secured.member->id;
  peer.channel = secured.binding;
  peer.terms = secured.terms;
  return peer;
}

}  // namespace

SocketLimit::SocketLimit(StreamSocket& socket, Deadline deadline)
    : watched_(std::make_shared<StreamSocket*>(&socket)),
      timer_(socket.get_executor(), deadline.at()) {
  timer_.async_wait([watched = watched_](boost::system::error_code stopped) {
    boost::system::error_code ignored;
    if (!stopped && *watched != nullptr) (*watched)->close(ignored);
  });
}

Task<Result<OpenedSocket>> OpenAsClient(WireStream& stream, Credentials credentials,
                                        Deadline deadline) {
  const SocketLimit limit(stream.socket(), deadline);
  Result<SecuredStream> secured = co_await SecureAs(Side::kClient, stream, credentials);
  if (!secured) co_return Fail(secured.error());
  BindProofs(*secured, credentials);
  proto::ClientHello hello;
  hello.set_version_min(kWireVersion);
  hello.set_version_max(kWireVersion);
  hello.set_role(credentials.role);
  hello.set_nonce(NewNonce());
  if (!credentials.cluster.IsZero()) hello.set_cluster(BytesOf(credentials.cluster));
  hello.set_program(credentials.program);
  hello.set_peer_id(credentials.id);
  if (credentials.fence.epoch != 0) *hello.mutable_fence() = ToProto(credentials.fence);
  Status sent = co_await WriteMessage(stream, hello);
  if (!sent) co_return Fail(sent.error());
  proto::ServerHello answer;
  Status got = co_await ReadMessage(stream, answer);
  if (!got && got.error().code == Code::kCorrupt) {
    co_return Fail(got.error().Within(
        "what listens there is probably no Forebay program, or another port of one (metrics)"));
  }
  if (!got) co_return Fail(got.error());
  if (!ProofMatches(ServerProof(credentials, hello, answer), answer.proof())) {
    co_return Fail(WrongSecret(answer.program()));
  }
  Status role = CheckRole(*secured, answer.role(), answer.program());
  if (!role) co_return Fail(role.error());
  if (answer.version() != kWireVersion) {
    co_return Fail(Code::kInvalid,
                   answer.program() + " chose wire version " + std::to_string(answer.version()) +
                       ", " + credentials.program + " speaks " + std::to_string(kWireVersion) +
                       ": install matching versions");
  }
  if (OtherCluster(credentials.cluster, answer.cluster())) {
    co_return Fail(Code::kDenied, answer.program() + " belongs to another cluster (" +
                                      UuidFromBytes(answer.cluster()).ToString() + ")");
  }
  proto::ClientProof proof;
  proof.set_proof(ClientProof(credentials, hello, answer));
  sent = co_await WriteMessage(stream, proof);
  if (!sent) co_return Fail(sent.error());
  proto::ServerAccept accepted;
  got = co_await ReadMessage(stream, accepted);
  if (!got) co_return Fail(got.error());
  OpenedSocket opened;
  opened.peer = IdentityOf(*secured, answer.role(), "", answer.program());
  opened.peer_ring_epoch = accepted.ring_epoch();
  co_return opened;
}

Task<Result<OpenedSocket>> OpenAsServer(WireStream& stream, Credentials credentials,
                                        std::uint64_t ring_epoch, Admit admit, Deadline deadline) {
  const SocketLimit limit(stream.socket(), deadline);
  Result<SecuredStream> secured = co_await SecureAs(Side::kServer, stream, credentials);
  if (!secured) {
    const Error invited{Code::kDenied, credentials.program +
                                           " lets in who has a certificate alone: get one with "
                                           "'forebay join HOST:PORT --token T'"};
    if (secured.error().code == Code::kDenied && !stream.secured())
      co_await Refuse(stream, invited);
    co_return Fail(secured.error());
  }
  BindProofs(*secured, credentials);
  proto::ClientHello hello;
  Status got = co_await ReadMessage(stream, hello);
  if (!got) co_return Fail(got.error());
  Status acceptable = CheckHello(credentials, hello);
  if (acceptable) acceptable = CheckRole(*secured, hello.role(), hello.program());
  if (!acceptable) {
    co_await Refuse(stream, acceptable.error());
    co_return Fail(acceptable.error());
  }
  proto::ServerHello answer;
  answer.set_version(kWireVersion);
  answer.set_role(credentials.role);
  answer.set_nonce(NewNonce());
  if (!credentials.cluster.IsZero()) answer.set_cluster(BytesOf(credentials.cluster));
  answer.set_program(credentials.program);
  answer.set_proof(ServerProof(credentials, hello, answer));
  Status sent = co_await WriteMessage(stream, answer);
  if (!sent) co_return Fail(sent.error());
  proto::ClientProof proof;
  got = co_await ReadMessage(stream, proof);
  if (!got) co_return Fail(got.error());
  if (!ProofMatches(ClientProof(credentials, hello, answer), proof.proof())) {
    const Error why = WrongSecret(hello.program());
    co_await Refuse(stream, why);
    co_return Fail(why);
  }
  OpenedSocket opened;
  opened.peer = IdentityOf(*secured, hello.role(), hello.peer_id(), hello.program());
  const Status admitted = admit ? admit(opened.peer) : Status();
  if (!admitted) {
    co_await Refuse(stream, admitted.error());
    co_return Fail(admitted.error());
  }
  proto::ServerAccept accepted;
  accepted.set_cluster(answer.cluster());
  accepted.set_ring_epoch(ring_epoch);
  sent = co_await WriteMessage(stream, accepted);
  if (!sent) co_return Fail(sent.error());
  if (hello.role() == proto::ROLE_COORDINATOR) opened.peer.fence = FromProto(hello.fence());
  co_return opened;
}

}  // namespace forebay
