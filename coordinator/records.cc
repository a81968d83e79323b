#include "coordinator/records.h"

#include <utility>

#include "common/wire/messages.h"

namespace forebay {

Status DecodeRecord(std::string_view bytes, google::protobuf::MessageLite& record) {
  if (record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return {};
  return Fail(Code::kCorrupt, "the stored record is damaged");
}

std::string EncodeMember(const Member& member) {
  proto::MemberRecord record;
  *record.mutable_node() = ToProto(member.info);
  record.set_incarnation(member.incarnation);
  record.set_out_unix_s(member.out_unix_s);
  record.set_dismissal(static_cast<std::uint32_t>(member.dismissal));
  return record.SerializeAsString();
}

Result<Member> DecodeMember(std::string_view bytes) {
  proto::MemberRecord record;
  Status decoded = DecodeRecord(bytes, record);
  if (!decoded) return Fail(decoded.error());
  Result<NodeInfo> info = FromProto(record.node());
  if (!info) return Fail(Code::kCorrupt, info.error().message);
  Member member;
  member.info = std::move(*info);
  member.incarnation = record.incarnation();
  member.out_unix_s = record.out_unix_s();
  if (record.dismissal() > static_cast<std::uint32_t>(Dismissal::kFenced))
    return Fail(Code::kCorrupt, "the stored record is damaged, or of a newer version");
  member.dismissal = static_cast<Dismissal>(record.dismissal());
  return member;
}

}  // namespace forebay
