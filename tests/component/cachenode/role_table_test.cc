#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "common/wire/rpc_rules.h"
#include "proto/coordinator.pb.h"
#include "tests/component/cachenode/node_fixture.h"

namespace forebay {
namespace {

RingTable TableOf(std::uint64_t epoch) {
  NodeInfo node;
  node.id = "n1";
  node.address = "127.0.0.1:1";
  node.capacity_bytes = 1 << 30;
  RingTable table;
  while (table.epoch() < epoch) table = RingTable::Next(table, {node}, 0);
  return table;
}

proto::CheckBlocksRequest CheckOf(const proto::ReadBlockRequest& read) {
  proto::CheckBlocksRequest check;
  check.set_link(read.link());
  check.set_key(read.key());
  check.set_etag(read.etag());
  check.set_object_size(read.object_size());
  *check.add_blocks() = read.block();
  return check;
}

// DESIGN section 10, a node's rows: every RPC by every role.
TEST_F(NodeTest, EachMethodIsForItsRolesAlone) {
  StartNode();
  const std::map<Method, std::set<proto::Role>> table = {
      {Method::kReadBlock, {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_ADMIN}},
      {Method::kPrefetchBlock, {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_ADMIN}},
      {Method::kOpenSegment, {proto::ROLE_CLIENT}},
      {Method::kNoteReads, {proto::ROLE_CLIENT}},
      {Method::kCheckBlocks,
       {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}},
      {Method::kFillBlocks, {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}},
      {Method::kCopyBlocks, {proto::ROLE_NODE, proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}},
      {Method::kDescribeBlocks, {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}},
      {Method::kEvictBlocks, {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}},
      {Method::kVerifyBlocks, {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}},
      {Method::kPinBlocks, {proto::ROLE_COORDINATOR, proto::ROLE_ADMIN}},
      {Method::kGetRing, {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_ADMIN}},
  };
  for (const RpcRule& rule : AllRules()) {
    if (rule.servers.Has(proto::ROLE_NODE)) EXPECT_TRUE(table.contains(rule.method)) << rule.name;
  }
  for (const proto::Role role : {proto::ROLE_CLIENT, proto::ROLE_NODE, proto::ROLE_COORDINATOR,
                                 proto::ROLE_ADMIN, proto::ROLE_VIEWER, proto::ROLE_STRANGER}) {
    Caller caller(role);
    for (const auto& [method, roles] : table) {
      const proto::ReadBlockRequest read = RequestFor("data/a", 39'000);
      const proto::GetRingRequest empty;
      const bool reads = method == Method::kReadBlock || method == Method::kPrefetchBlock;
      const bool checks = method == Method::kCheckBlocks;
      const Result<RpcReply> reply = reads    ? Call(caller, method, read)
                                     : checks ? Call(caller, method, CheckOf(read))
                                              : Call(caller, method, empty);
      const std::string which = "method " + std::to_string(static_cast<int>(method)) + ", role " +
                                std::to_string(static_cast<int>(role));
      if (roles.contains(role)) {
        // Of no link, or over TCP: a wrong request, which only who may make it is told.
        const bool asks_wrongly = method == Method::kPinBlocks || method == Method::kOpenSegment ||
                                  method == Method::kNoteReads;
        const bool wrong = asks_wrongly && !reply;
        EXPECT_TRUE(reply.has_value() || (wrong && reply.error().code != Code::kDenied))
            << which << ": " << reply.error().message;
      } else {
        ASSERT_FALSE(reply.has_value()) << which;
        EXPECT_EQ(reply.error().code, Code::kDenied) << which;
      }
    }
  }
}

TEST_F(NodeTest, AClientLearnsOnlyOfBlocksThatItCouldRead) {
  StartNode();
  const proto::ReadBlockRequest read = RequestFor("data/a", 39'000);
  proto::CheckBlocksRequest check = CheckOf(read);
  const auto present = [&]() -> Result<bool> {
    const Result<RpcReply> reply = Call(client_, Method::kCheckBlocks, check);
    if (!reply) return Fail(reply.error());
    proto::CheckBlocksReply answer;
    if (!answer.ParseFromString(reply->message)) return Fail(Code::kCorrupt, "no answer");
    return answer.present() == std::string(1, '\1');
  };
  EXPECT_EQ(present(), Result<bool>(false));
  ASSERT_TRUE(Read(read));
  ASSERT_TRUE(Eventually([&] { return IsCached(read.block()); }));
  EXPECT_EQ(present(), Result<bool>(true));
  // Without the object's name, or with another's, it is told nothing.
  for (const auto& spoil : std::vector<std::function<void()>>{
           [&] { check.clear_link(); }, [&] { check.set_key("data/b"); },
           [&] { check.set_etag("other"); }, [&] { check.set_object_size(39'001); },
           [&] { check.set_key("elsewhere/a"); }}) {
    check = CheckOf(read);
    spoil();
    const Result<bool> told = present();
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code, Code::kInvalid);
  }
}

TEST_F(NodeTest, GivesItsRingTableToThoseWhoHaveAnOlderOne) {
  coordinator_->SetRing(TableOf(3));
  StartNode();
  proto::GetRingRequest request;
  request.set_have_epoch(2);
  const Result<RpcReply> newer = Call(client_, Method::kGetRing, request);
  ASSERT_TRUE(newer.has_value()) << newer.error().message;
  EXPECT_EQ(newer->ring_epoch, 3u) << "every frame says it";
  const Result<RingTable> table = RingTable::Parse(std::string_view(
      reinterpret_cast<const char*>(newer->payload.bytes.data()), newer->payload.bytes.size()));
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(table->epoch(), 3u);
  request.set_have_epoch(3);
  const Result<RpcReply> same = Call(client_, Method::kGetRing, request);
  ASSERT_TRUE(same.has_value()) << same.error().message;
  EXPECT_TRUE(same->payload.bytes.empty());
}

}  // namespace
}  // namespace forebay
