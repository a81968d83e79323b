#include "common/wire/block_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace forebay {
namespace {

constexpr std::uint32_t kLength = 3 * kCellBytes + 100;

BlockRequest Question() {
  BlockRequest request;
  request.link = Uuid::Random();
  request.block.version.high = 7;
  request.block.version.low = 9;
  request.block.offset = 4ULL << 20;
  request.block.length = kLength;
  request.range = {kCellBytes + 1, kLength};
  request.object = {"train/\xff.tar", "etag-2", 9ULL << 20};
  request.job = "job-7";
  return request;
}

/// The right answer: the last three cells of the block.
RpcReply Answer(proto::ReadBlockReply& message) {
  auto bytes = std::make_shared<Buffer>(kLength - kCellBytes);
  std::fill_n(bytes->data(), bytes->size(), std::byte{3});
  message.set_begin(kCellBytes);
  for (std::size_t at = 0; at < bytes->size(); at += kCellBytes) {
    message.add_checksums(
        CellChecksum(bytes->data() + at, std::min<std::size_t>(kCellBytes, bytes->size() - at)));
  }
  RpcReply reply;
  reply.payload = Slice::Of(std::move(bytes));
  return reply;
}

TEST(BlockMessages, AQuestionArrivesAsItWasAsked) {
  for (const bool flag : {false, true}) {
    BlockRequest sent = Question();
    sent.peer_only = flag;
    sent.passed_over = !flag;
    sent.waited = std::chrono::milliseconds(flag ? 0 : 1900);
    sent.by_place = flag;
    sent.counted = !flag;
    const BlockRequest got = FromProto(ToProto(sent));
    EXPECT_EQ(got.link, sent.link);
    EXPECT_EQ(got.block, sent.block);
    EXPECT_EQ(got.range.begin, sent.range.begin);
    EXPECT_EQ(got.range.end, sent.range.end);
    EXPECT_EQ(got.object.key, sent.object.key);
    EXPECT_EQ(got.object.etag, sent.object.etag);
    EXPECT_EQ(got.object.size, sent.object.size);
    EXPECT_EQ(got.job, sent.job);
    EXPECT_EQ(got.peer_only, sent.peer_only);
    EXPECT_EQ(got.passed_over, sent.passed_over);
    EXPECT_EQ(got.waited, sent.waited);
    EXPECT_EQ(got.by_place, sent.by_place);
    EXPECT_EQ(got.counted, sent.counted);
  }
}

TEST(BlockMessages, AnAnswerThatMatchesIsTaken) {
  for (const Tier tier : {Tier::kLocal, Tier::kPeer, Tier::kS3}) {
    proto::ReadBlockReply message;
    RpcReply reply = Answer(message);
    message.set_tier(static_cast<std::uint32_t>(tier));
    reply.message = message.SerializeAsString();
    const Result<Cells> cells = CellsOfReply(Question(), std::move(reply));
    ASSERT_TRUE(cells.has_value()) << cells.error().message;
    EXPECT_EQ(cells->begin, kCellBytes);
    EXPECT_EQ(cells->bytes.bytes.size(), kLength - kCellBytes);
    EXPECT_EQ(cells->tier, tier == Tier::kS3 ? Tier::kS3 : Tier::kLocal);
  }
}

TEST(BlockMessages, AnAnswerThatDoesNotMatchIsCorrupt) {
  const auto code_of = [](auto change) {
    proto::ReadBlockReply message;
    RpcReply reply = Answer(message);
    change(message, reply);
    reply.message = message.SerializeAsString();
    const Result<Cells> cells = CellsOfReply(Question(), std::move(reply));
    return cells ? std::string("taken") : std::string(CodeName(cells.error().code));
  };
  using Message = proto::ReadBlockReply;
  const std::string corrupt(CodeName(Code::kCorrupt));
  EXPECT_EQ(code_of([](Message&, RpcReply&) {}), "taken");
  EXPECT_EQ(code_of([](Message& m, RpcReply&) { m.set_begin(0); }), corrupt) << "not to the end";
  EXPECT_EQ(code_of([](Message& m, RpcReply&) { m.set_begin(1); }), corrupt) << "no cell's begin";
  EXPECT_EQ(code_of([](Message& m, RpcReply&) { m.set_begin(2 * kCellBytes); }), corrupt);
  EXPECT_EQ(code_of([](Message& m, RpcReply&) { m.set_checksums(1, 5); }), corrupt);
  EXPECT_EQ(code_of([](Message& m, RpcReply&) { m.clear_checksums(); }), corrupt);
  EXPECT_EQ(code_of([](Message&, RpcReply& r) { r.payload = Slice(); }), corrupt);
  EXPECT_EQ(code_of([](Message&, RpcReply& r) {
              r.payload = r.payload.Sub(0, r.payload.bytes.size() - 1);
            }),
            corrupt);
}

}  // namespace
}  // namespace forebay
