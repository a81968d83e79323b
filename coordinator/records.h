#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "coordinator/member_table.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

// What the StateStore keeps, as bytes and back. Decoding answers kCorrupt for anything else.
std::string EncodeMember(const Member& member);
Result<Member> DecodeMember(std::string_view bytes);
Status DecodeRecord(std::string_view bytes, google::protobuf::MessageLite& record);

}  // namespace forebay
