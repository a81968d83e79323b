#include "fuse-client/block_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <fstream>
#include <functional>
#include <vector>

#include "tests/component/fuse-client/block_client_fixture.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::FakeNode;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(BlockClientTest, TheFirstOwnerAnswersWithExactlyTheAskedForBytes) {
  for (const BlockRange range : {BlockRange{0, 1}, BlockRange{65'535, 65'537},
                                 BlockRange{0, 4 << 20}, BlockRange{(4 << 20) - 1, 4 << 20}}) {
    const BlockRequest request = RequestFor(range);
    ExpectRight(request, Read(request));
  }
  EXPECT_EQ(OwnersOf(RequestFor({0, 1}))[0]->reads(), 4u);
  EXPECT_EQ(Stats().owner_switches, 0u);
}

TEST_F(BlockClientTest, ASilentOwnerIsPassedOverAndOnlyTheFirstReadWaits) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->Freeze();
  const TimePoint begin = Clock::now();
  ExpectRight(request, Read(request));
  EXPECT_GE(Clock::now() - begin, milliseconds(250));
  EXPECT_EQ(owners[1]->reads(), 1u);
  const TimePoint second = Clock::now();
  for (int i = 0; i < 5; ++i) ExpectRight(request, Read(request));
  EXPECT_LT(Clock::now() - second, milliseconds(250));
  owners[0]->Thaw();
  const std::uint64_t before = owners[0]->reads();
  EXPECT_TRUE(Eventually([&] {
    ExpectRight(request, Read(request));
    return owners[0]->reads() > before + 1;
  })) << "the first owner is asked again once it answers";
}

TEST_F(BlockClientTest, AStoppedOwnerIsPassedOverAtOnce) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->Stop();
  owners[1]->Stop();
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[2]->reads(), 1u);
  EXPECT_EQ(Stats().owner_switches, 2u);
}

/// n1 lies elsewhere and owns the block first; the other nodes lie in this zone.
class ZoneTest : public BlockClientTest {
 protected:
  ZoneTest() {
    std::vector<NodeInfo> members;
    for (const auto& [id, node] : nodes_) {
      members.push_back(node->Info());
      members.back().zone = id == "n1" ? "there" : "here";
    }
    table_ = RingTable::Next(table_, members, 1'700'000'001);
    ring_.Offer(table_);
    for (std::uint32_t number = 0; OwnersOf(request_)[0] != nodes_["n1"].get(); ++number)
      request_ = RequestFor({0, 65'536}, number);
    for (FakeNode* owner : OwnersOf(request_)) {
      owner->OnRead([this](proto::ReadBlockRequest asked) -> FakeNode::Answer {
        last_ = asked;
        return {FakeNode::RightAnswer(asked)};
      });
    }
  }

  BlockRequest request_ = RequestFor({0, 65'536});
  proto::ReadBlockRequest last_;
};

TEST_F(ZoneTest, OfALinkWithOneCopyTheFirstOwnerIsAskedAndTheBytesAreCounted) {
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(OwnersOf(request_)[0]->reads(), 1u);
  EXPECT_EQ(Stats().cross_zone_bytes, 65'536u);
}

TEST_F(ZoneTest, OfALinkWithReplicasTheCopyInThisZoneIsReadAndNobodyIsPassedOver) {
  *replicas_ = 2;
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(OwnersOf(request_)[0]->reads(), 0u);
  EXPECT_EQ(OwnersOf(request_)[1]->reads(), 1u);
  EXPECT_FALSE(last_.passed_over()) << "the first owner is well: it is the one to ask S3";
  EXPECT_EQ(Stats().cross_zone_bytes, 0u);
  EXPECT_EQ(Stats().owner_switches, 0u);
}

TEST_F(ZoneTest, WhenTheCopyInThisZoneIsGoneTheOneElsewhereIsRead) {
  *replicas_ = 2;
  OwnersOf(request_)[1]->Stop();
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(OwnersOf(request_)[0]->reads(), 1u);
  EXPECT_EQ(OwnersOf(request_)[2]->reads(), 0u) << "it keeps no copy";
}

TEST_F(ZoneTest, AMachineOfTheSameIdInAnotherZoneIsAnotherMachine) {
  std::vector<NodeInfo> members = table_.nodes();
  for (NodeInfo& member : members)
    if (member.id == "n1") member.host_id = "this-host";
  table_ = RingTable::Next(table_, members, 1'700'000'002);
  ring_.Offer(table_);
  *replicas_ = 2;
  ExpectRight(request_, Read(request_));
  EXPECT_EQ(OwnersOf(request_)[0]->reads(), 0u);
  EXPECT_EQ(OwnersOf(request_)[1]->reads(), 1u);
}

FakeNode::Read SendsOn() {
  return [](proto::ReadBlockRequest asked) -> FakeNode::Answer {
    if (!asked.may_go_on()) return {FakeNode::RightAnswer(asked)};
    proto::ReadBlockReply reply;
    reply.set_go_on(true);
    return {ReplyWith(reply)};
  };
}

TEST_F(BlockClientTest, AnOwnerWithManyReadersOfABlockSendsThemToTheNext) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  proto::ReadBlockRequest second;
  owners[0]->OnRead(SendsOn());
  owners[1]->OnRead([&](proto::ReadBlockRequest asked) -> FakeNode::Answer {
    second = asked;
    return {FakeNode::RightAnswer(asked)};
  });
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[0]->reads(), 1u);
  EXPECT_EQ(owners[1]->reads(), 1u);
  EXPECT_TRUE(second.spread()) << "it takes the block from the first, and keeps it";
  EXPECT_FALSE(second.passed_over());
  EXPECT_EQ(Stats().owner_switches, 0u);
}

TEST_F(BlockClientTest, ReadersAreSentOnToThoseAloneWhoCanAnswer) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->OnRead(SendsOn());
  owners[1]->OnRead(Always(Code::kInternal));
  owners[2]->OnRead(SendsOn());
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[2]->reads(), 1u) << "the last one answers";
  owners[1]->Stop();
  owners[2]->Stop();
  ExpectRight(request, Read(request));
  const std::uint64_t before = owners[0]->reads();
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[0]->reads(), before + 1) << "nobody else is well: it is not to send us on";
}

/// Silence is longer than the gap between two pendings, as it is in production.
class PatientBlockClientTest : public BlockClientTest {
 protected:
  PatientBlockClientTest() : BlockClientTest(kPendingEvery + milliseconds(400)) {}
};

TEST_F(PatientBlockClientTest, AnOwnerThatSaysPendingIsWaitedForLongerThanSilenceIsBorne) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->OnRead([](proto::ReadBlockRequest asked) -> FakeNode::Answer {
    return {FakeNode::RightAnswer(asked), seconds(2)};
  });
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[0]->reads(), 1u);
  EXPECT_EQ(owners[1]->reads(), 0u);
}

TEST_F(BlockClientTest, CorruptBytesAreAskedForAgainAndNeverHandedOut) {
  const BlockRequest request = RequestFor({100, 200'000});
  const auto owners = OwnersOf(request);
  std::atomic<int> answers{0};
  owners[0]->OnRead([&](proto::ReadBlockRequest asked) -> FakeNode::Answer {
    RpcReply reply = FakeNode::RightAnswer(asked);
    if (++answers == 1) {
      auto flipped = std::make_shared<Buffer>(reply.payload.bytes.size());
      std::copy(reply.payload.bytes.begin(), reply.payload.bytes.end(), flipped->data());
      flipped->data()[70'000] ^= std::byte{1};
      reply.payload = Slice::Of(std::move(flipped));
    }
    return {std::move(reply)};
  });
  ExpectRight(request, Read(request));
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(Stats().checksum_failures, 1u);
  EXPECT_EQ(owners[1]->reads(), 0u);
}

TEST_F(BlockClientTest, AnOwnerThatStaysCorruptIsPassedOver) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  const auto shifted = [](proto::ReadBlockRequest asked) -> FakeNode::Answer {
    asked.set_key("another object");
    RpcReply reply = FakeNode::RightAnswer(asked);
    proto::ReadBlockReply message;
    message.ParseFromString(reply.message);
    message.set_checksums(0, message.checksums(0) + 1);
    reply.message = message.SerializeAsString();
    return {std::move(reply)};
  };
  owners[0]->OnRead(shifted);
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[0]->reads(), 2u);
  for (FakeNode* owner : owners) owner->OnRead(shifted);
  const Result<Cells> cells = Read(request);
  ASSERT_FALSE(cells);
  EXPECT_EQ(cells.error().code, Code::kCorrupt);
}

TEST_F(BlockClientTest, AnswersThatDoNotCoverTheRangeAreCorrupt) {
  const BlockRequest request = RequestFor({65'536, 200'000});
  using Spoil = std::function<void(proto::ReadBlockRequest&)>;
  const std::vector<Spoil> spoils = {
      [](proto::ReadBlockRequest& asked) { asked.set_range_end(131'072); },
      [](proto::ReadBlockRequest& asked) { asked.set_range_begin(131'072); },
  };
  for (const Spoil& spoil : spoils) {
    for (FakeNode* owner : OwnersOf(request)) {
      owner->OnRead([&spoil](proto::ReadBlockRequest asked) -> FakeNode::Answer {
        spoil(asked);
        return {FakeNode::RightAnswer(asked)};
      });
    }
    const Result<Cells> cells = Read(request);
    ASSERT_FALSE(cells);
    EXPECT_EQ(cells.error().code, Code::kCorrupt);
  }
}

TEST_F(BlockClientTest, AChangedObjectIsStaleAtOnce) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->OnRead(Always(Code::kStale));
  const Result<Cells> cells = Read(request);
  ASSERT_FALSE(cells);
  EXPECT_EQ(cells.error().code, Code::kStale);
  EXPECT_EQ(owners[1]->reads(), 0u);
}

TEST_F(BlockClientTest, ANodeCannotMakeAFileDisappear) {
  const BlockRequest request = RequestFor({0, 4096});
  for (FakeNode* owner : OwnersOf(request)) owner->OnRead(Always(Code::kNotFound));
  const Result<Cells> cells = Read(request);
  ASSERT_FALSE(cells);
  EXPECT_EQ(cells.error().code, Code::kUnavailable);
}

TEST_F(BlockClientTest, OfALinkThatWasRemovedNobodyIsAskedAnyMore) {
  const auto presence = std::make_shared<LinkPresence>("data");
  options_.presence = presence;
  const auto client = NewClient(options_);
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  owners[0]->OnRead([&](proto::ReadBlockRequest) -> FakeNode::Answer {
    presence->Set(LinkPresence::State::kRemoved);
    return {Fail(Code::kNotFound, "it knows of no such link")};
  });
  for (int i = 0; i < 2; ++i) {
    const Result<Cells> cells = Run(client->Read(request, Deadline::After(seconds(20))));
    EXPECT_EQ(cells.error().code, Code::kStale) << "while it is under way, and from the beginning";
  }
  EXPECT_EQ(owners[0]->reads(), 1u);
  EXPECT_EQ(owners[1]->reads(), 0u);
}

TEST_F(BlockClientTest, AnOverloadedOwnerIsAskedAgainAndNobodyElse) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  std::atomic<int> calls{0};
  owners[0]->OnRead([&](proto::ReadBlockRequest asked) -> FakeNode::Answer {
    if (++calls < 4) return {Fail(Code::kOverloaded, "too much")};
    return {FakeNode::RightAnswer(asked)};
  });
  ExpectRight(request, Read(request));
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(owners[1]->reads(), 0u);
}

TEST_F(BlockClientTest, AnOwnerThatWaitedForS3InVainIsAskedAgainAndNobodyElse) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  std::atomic<int> asked = 0;
  owners[0]->OnRead([&](proto::ReadBlockRequest message) -> FakeNode::Answer {
    if (++asked < 4) return {Fail(Code::kTimeout, "S3 does not answer")};
    return {FakeNode::RightAnswer(message)};
  });
  ExpectRight(request, Read(request));
  EXPECT_EQ(owners[0]->reads(), 4u);
  EXPECT_EQ(owners[1]->reads() + owners[2]->reads(), 0u);
}

TEST_F(BlockClientTest, OnlyAnOwnerThatIsAskedOutOfTurnHearsThatOthersWerePassedOver) {
  const BlockRequest request = RequestFor({0, 4096});
  const auto owners = OwnersOf(request);
  std::atomic<int> out_of_turn = 0;
  const auto script = [&](proto::ReadBlockRequest message) -> FakeNode::Answer {
    if (message.passed_over()) ++out_of_turn;
    return {FakeNode::RightAnswer(message)};
  };
  for (FakeNode* owner : owners) owner->OnRead(script);
  ExpectRight(request, Read(request));
  EXPECT_EQ(out_of_turn, 0);
  owners[0]->Stop();
  ExpectRight(request, Read(request));
  EXPECT_EQ(out_of_turn, 1);
}

// The table never changes again because of a node that only was suspect as it was made.
TEST_F(BlockClientTest, ASuspectOfTheTableIsReadFromAsSoonAsItAnswers) {
  std::vector<NodeInfo> suspects;
  for (const auto& [id, node] : nodes_) {
    suspects.push_back(node->Info());
    suspects.back().state = NodeState::kSuspect;
  }
  table_ = RingTable::Next(table_, suspects, 1'700'000'000);
  ring_.Offer(table_);
  const BlockRequest request = RequestFor({0, 4096});
  EXPECT_TRUE(Eventually([&] {
    ExpectRight(request, Read(request));
    return !health_.IsSilent(OwnersOf(request)[0]->Info().id);
  }));
  const std::uint64_t before = OwnersOf(request)[0]->reads();
  ExpectRight(request, Read(request));
  EXPECT_EQ(OwnersOf(request)[0]->reads(), before + 1);
}

TEST_F(BlockClientTest, WhenNobodyAnswersTheReadEndsWithTheReason) {
  const BlockRequest request = RequestFor({0, 4096});
  for (const auto& [id, node] : nodes_) node->Stop();
  const TimePoint begin = Clock::now();
  const Result<Cells> cells = Read(request, milliseconds(400));
  ASSERT_FALSE(cells);
  EXPECT_EQ(cells.error().code, Code::kTimeout);
  EXPECT_NE(cells.error().message.find("node n"), std::string::npos) << cells.error().message;
  EXPECT_LT(Clock::now() - begin, seconds(5));
}

TEST_F(BlockClientTest, ReadsGoOnWhenANodeComesBackWithinThePatience) {
  const BlockRequest request = RequestFor({0, 4096});
  std::atomic<bool> back{false};
  for (FakeNode* owner : OwnersOf(request)) {
    owner->OnRead([&](proto::ReadBlockRequest asked) -> FakeNode::Answer {
      if (!back) return {Fail(Code::kUnavailable, "starting")};
      return {FakeNode::RightAnswer(asked)};
    });
  }
  auto result = asio::co_spawn(threads_.At(0), client_->Read(request, Deadline::After(seconds(20))),
                               asio::use_future);
  EXPECT_TRUE(Eventually([&] { return Stats().retry_rounds >= 3; }));
  back = true;
  ExpectRight(request, result.get());
}

TEST_F(BlockClientTest, ANodeThatComesBackAtAnotherAddressIsReadFromAgain) {
  const BlockRequest request = RequestFor({0, 4096});
  const std::string id = OwnersOf(request)[0]->Info().id;
  nodes_[id]->Stop();
  ExpectRight(request, Read(request));
  ASSERT_TRUE(health_.IsSilent(id));
  nodes_[id] = std::make_unique<FakeNode>(id, kTestSecret);
  Publish(table_);
  EXPECT_TRUE(Eventually([&] {
    ExpectRight(request, Read(request));
    return nodes_[id]->reads() > 0;
  }));
}

TEST_F(BlockClientTest, ANodeOnThisMachineIsReachedThroughItsSocket) {
  const fakes::TempDir dir;
  const std::string socket = dir / "node.sock";
  FakeNode local("n1", kTestSecret, "unix:" + socket);
  NodeInfo info = local.Info();
  info.address = "127.0.0.1:1";  // nobody
  info.local_socket = socket;
  info.host_id = "this-host";
  table_ = RingTable::Next(table_, {info}, 1'700'000'002);
  ring_.Offer(table_);
  const BlockRequest request = RequestFor({0, 4096});
  const Result<Cells> cells = Read(request);
  ExpectRight(request, cells);
  EXPECT_EQ(cells->tier, Tier::kLocal);
}

TEST_F(BlockClientTest, ADeadSocketLeadsBackToTheAddress) {
  const fakes::TempDir dir;
  const std::string socket = dir / "node.sock";
  {
    FakeNode gone("n1", kTestSecret, "unix:" + socket);
  }
  std::ofstream(socket) << "";  // there, and nobody listens
  NodeInfo info = nodes_.at("n1")->Info();
  info.local_socket = socket;
  info.host_id = "this-host";
  table_ = RingTable::Next(table_, {info}, 1'700'000'002);
  ring_.Offer(table_);
  const BlockRequest request = RequestFor({0, 4096});
  ExpectRight(request, Read(request));
}

TEST_F(BlockClientTest, APrefetchReachesTheFirstOwner) {
  const BlockRequest request = RequestFor({0, 4 << 20});
  EXPECT_TRUE(Run(client_->Prefetch(request)).has_value());
  FakeNode* owner = OwnersOf(request)[0];
  ASSERT_EQ(owner->prefetches().size(), 1u);
  EXPECT_EQ(owner->prefetches()[0].key(), kKey);
  EXPECT_EQ(owner->prefetches()[0].object_size(), 9u << 20);
}

TEST_F(BlockClientTest, APrefetchSaysThatItWasRefused) {
  const BlockRequest request = RequestFor({0, 4 << 20});
  FakeNode* owner = OwnersOf(request)[0];
  owner->OnPrefetch([](const proto::ReadBlockRequest&) { return true; });
  const Status refused = Run(client_->Prefetch(request));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kOverloaded) << refused.error().message;
  owner->OnPrefetch({});
  EXPECT_TRUE(Run(client_->Prefetch(request)).has_value());
}

TEST_F(BlockClientTest, APrefetchSaysThatNobodyAnsweredAndTheNextOneGoesToTheNextOwner) {
  const BlockRequest request = RequestFor({0, 4 << 20});
  const std::vector<FakeNode*> owners = OwnersOf(request);
  owners[0]->Stop();
  EXPECT_FALSE(Run(client_->Prefetch(request)).has_value());
  EXPECT_TRUE(Run(client_->Prefetch(request)).has_value());
  EXPECT_EQ(owners[1]->prefetches().size(), 1u);
}

TEST_F(BlockClientTest, MorePrefetchesThanMayBeUnderWayAreRefusedHere) {
  const BlockRequest request = RequestFor({0, 4 << 20});
  FakeNode* owner = OwnersOf(request)[0];
  // On one thread all of them begin before the first has its answer.
  const auto begin = [&](std::size_t count) {
    std::vector<std::future<Status>> asked;
    std::promise<void> begun;
    asio::post(threads_.At(0), [&] {
      for (std::size_t i = 0; i < count; ++i)
        asked.push_back(
            asio::co_spawn(threads_.At(0), client_->Prefetch(request), asio::use_future));
      begun.set_value();
    });
    begun.get_future().get();
    std::size_t refused = 0;
    for (std::future<Status>& one : asked) {
      const Status status = one.get();
      if (status) continue;
      EXPECT_EQ(status.error().code, Code::kOverloaded);
      ++refused;
    }
    return refused;
  };
  EXPECT_EQ(begin(BlockClient::kMaxPrefetches), 0u);
  EXPECT_EQ(begin(BlockClient::kMaxPrefetches + 7), 7u);
  EXPECT_EQ(owner->prefetches().size(), 2 * BlockClient::kMaxPrefetches);
}

}  // namespace
}  // namespace forebay
