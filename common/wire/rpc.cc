#include "common/wire/rpc.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>

#include <utility>

#include "common/model/limits.h"

namespace forebay {

Status ParseMessage(std::string_view bytes, google::protobuf::MessageLite& message) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMaxMessageNesting);
  if (message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage()) return {};
  return Fail(Code::kInvalid, "the message of this request cannot be read");
}

Status CheckRepeated(int count) {
  if (count <= kMaxRepeatedFields) return {};
  return Fail(Code::kInvalid, "the request lists " + std::to_string(count) + " entries; at most " +
                                  std::to_string(kMaxRepeatedFields) + " are accepted");
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
