#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "coordinator/client_service.h"
#include "coordinator/job_service.h"
#include "proto/coordinator.pb.h"
#include "tests/unit/coordinator/testing.h"

// What a client gets whose certificate is good for some links alone.
namespace forebay {
namespace {

class ClientGrants : public testing::Test {
 protected:
  ClientGrants() {
    EXPECT_TRUE(links_.Add(mine_));
    EXPECT_TRUE(links_.Add(other_));
  }

  static PeerIdentity Client(std::optional<std::vector<std::string>> links) {
    PeerIdentity peer{.role = proto::ROLE_CLIENT, .id = "c1", .program = "forebay-mount"};
    peer.terms.links = std::move(links);
    return peer;
  }

  Result<RpcReply> Ask(Method method, const google::protobuf::MessageLite& request,
                       PeerIdentity peer) {
    std::vector<MethodEntry> methods = service_.Methods();
    const auto entry = std::ranges::find(methods, method, &MethodEntry::method);
    RpcCall call;
    call.method = method;
    call.message = request.SerializeAsString();
    call.peer = std::move(peer);
    return RunTask(context_, entry->handler(std::move(call)));
  }

  Code ReadSnapshotOf(const Uuid& link, const PeerIdentity& peer) {
    proto::ReadSnapshotRequest request;
    request.set_link(BytesOf(link));
    request.set_generation(1);
    const Result<RpcReply> reply = Ask(Method::kReadSnapshot, request, peer);
    EXPECT_FALSE(reply.has_value()) << "nothing is listed";
    return reply ? Code::kInternal : reply.error().code;
  }

  const TempDir dir_;
  asio::io_context context_{1};
  MemoryStateStore store_;
  const std::uint64_t fence_ = *store_.Claim();
  TaskBook tasks_;
  LinkRegistry links_{store_, fence_, tasks_};
  const LinkSpec mine_ = TestLink("mine", "bucket", "m/");
  const LinkSpec other_ = TestLink("other", "bucket", "o/");
  Offload offload_{1, 16};
  ClusterMembers membership_{store_, fence_, offload_};
  NamespaceIndex index_{dir_.Path("snapshots")};
  MountBook mounts_;
  ReplyRoom replies_{1ULL << 30};
  ClientService service_{
      Uuid::Random(), {fence_, Uuid::Random()}, membership_, links_, index_, mounts_, offload_,
      replies_};
  const PeerIdentity restricted_ = Client(std::vector<std::string>{"mine"});
  const PeerIdentity free_ = Client(std::nullopt);
};

TEST_F(ClientGrants, AListingIsReadByWhoMayHaveItsLinkAlone) {
  EXPECT_EQ(ReadSnapshotOf(other_.id, restricted_), Code::kDenied);
  EXPECT_EQ(ReadSnapshotOf(Uuid::Random(), restricted_), Code::kDenied)
      << "it does not learn which links there are";
  EXPECT_NE(ReadSnapshotOf(mine_.id, restricted_), Code::kDenied);
  EXPECT_NE(ReadSnapshotOf(other_.id, free_), Code::kDenied);
}

TEST_F(ClientGrants, OtherLinksAreNotNamed) {
  const Result<RpcReply> reply = Ask(Method::kGetLinks, proto::GetLinksRequest(), restricted_);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  proto::GetLinksReply links;
  ASSERT_TRUE(links.ParseFromString(reply->message));
  ASSERT_EQ(links.links_size(), 1);
  EXPECT_EQ(links.links(0).spec().name(), "mine");
  proto::GetLinksRequest by_name;
  by_name.set_name("other");
  EXPECT_EQ(Ask(Method::kGetLinks, by_name, restricted_).error().code, Code::kDenied);
  by_name.set_name("nothing");
  EXPECT_EQ(Ask(Method::kGetLinks, by_name, restricted_).error().code, Code::kDenied);
}

// Who could, would have the rest of a link fetched, and keep an administrator from evicting it.
TEST_F(ClientGrants, JobsAreToldOfGrantedLinksAlone) {
  const auto kept = [&](const PeerIdentity& peer) {
    proto::ReportJobsRequest request;
    for (const Uuid& link : {other_.id, mine_.id, Uuid::Random()}) {
      proto::MountJob& row = *request.add_jobs();
      row.set_job("j");
      row.set_link(BytesOf(link));
      row.add_touched(8);
    }
    KeepGranted(links_, peer, request);
    EXPECT_EQ(request.jobs_size(), 3) << "answers are found by their place";
    std::string named;
    for (const proto::MountJob& row : request.jobs()) {
      EXPECT_EQ(row.job().empty(), row.link().empty());
      EXPECT_EQ(row.touched_size(), 1) << "it need not come again";
      named += row.job().empty() ? "-" : row.job();
    }
    return named;
  };
  EXPECT_EQ(kept(restricted_), "-j-");
  EXPECT_EQ(kept(free_), "jjj");
}

}  // namespace
}  // namespace forebay
