#pragma once

#include <string>

#include "proto/coordinator.pb.h"

namespace forebay {

// What is answered about a set: the answers about its parts, added up. Nodes that several of them
// name come once. Names of the link are left to the caller.

/// `part` names the files of `one`.
void AddTo(proto::CheckTargetReply& sum, const proto::CheckTargetReply& one,
           const std::string& part);
void AddTo(proto::EvictTargetReply& sum, const proto::EvictTargetReply& one);
void AddEvicted(google::protobuf::RepeatedPtrField<proto::NodeEvicted>& sum,
                const proto::NodeEvicted& one);
/// `room_bytes` is the room that the parts have together: one pool, but for quotas.
void AddTo(proto::PreloadReply& sum, const proto::PreloadReply& one);

}  // namespace forebay
