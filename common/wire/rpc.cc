#include "common/wire/rpc.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/model/limits.h"

namespace forebay {

namespace {

using google::protobuf::internal::WireFormatLite;

// Before anything is built: a megabyte of empty messages would take 32 times its size. Counts the
// fields of the outermost message; no message that a stranger may send nests a repeated field in a
// repeated one.
Status CheckRepeated(std::string_view bytes) {
  // An entry takes two bytes at least, so that most messages need no count.
  if (bytes.size() <= 2 * std::size_t{kMaxRepeatedFields}) return {};
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMaxMessageNesting);
  std::unordered_map<int, int> counts;
  for (std::uint32_t tag = input.ReadTag(); tag != 0; tag = input.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    // Different fields are bounded, too: the counting itself must cost little.
    if (++counts[field] > kMaxRepeatedFields || counts.size() > kMaxRepeatedFields) {
      return Fail(Code::kInvalid, "the message lists more than " +
                                      std::to_string(kMaxRepeatedFields) + " entries of one kind");
    }
    if (!WireFormatLite::SkipField(&input, tag)) break;  // the parser says what is wrong
  }
  return {};
}

}  // namespace

bool MayRead(const PeerIdentity& peer, std::string_view link, std::string_view set) {
  const auto& links = peer.terms.links;
  if (!links || std::ranges::find(*links, link) != links->end()) return true;
  return !set.empty() && std::ranges::find(*links, set) != links->end();
}

Error NotGranted(const PeerIdentity& peer, std::string_view link) {
  constexpr std::size_t kLongestName = 255;
  return Error{Code::kDenied, "link '" + std::string(link.substr(0, kLongestName)) +
                                  "' is not among those that client " + peer.id +
                                  " may read: it needs another token (`forebay token create "
                                  "--role client --links …`)"};
}

Error OnlyLooks(const PeerIdentity& viewer, std::string_view what) {
  return Error{Code::kDenied, "viewer " + viewer.id +
                                  " may look and change nothing: " + std::string(what) +
                                  " needs an administrator's certificate (`forebay token create "
                                  "--role admin`)"};
}

Status ParseMessage(std::string_view bytes, google::protobuf::MessageLite& message) {
  Status bounded = CheckRepeated(bytes);
  if (!bounded) return bounded;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMaxMessageNesting);
  if (message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage()) return {};
  return Fail(Code::kInvalid, "the message cannot be read");
}

Result<RpcReply> ReplyWith(const google::protobuf::MessageLite& message, Slice payload) {
  RpcReply reply;
  if (!message.SerializeToString(&reply.message) || reply.message.size() > kMaxControlFrameBytes ||
      payload.bytes.size() > kMaxPayloadBytes) {
    return Fail(Code::kInternal, "the answer is too long for a frame");
  }
  reply.payload = std::move(payload);
  return reply;
}

}  // namespace forebay
