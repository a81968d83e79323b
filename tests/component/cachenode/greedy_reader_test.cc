// A peer that asks for much more than it takes, of blocks that the node has to ask its disk for:
// the answers are bounded before the disk is asked, not as they are sent.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tests/component/cachenode/node_fixture.h"
#include "tests/component/wire/raw_peer.h"

namespace forebay {
namespace {

constexpr int kBlocks = 100;
constexpr int kQuestions = 1000;
constexpr int kOverloaded = 4;  // docs/WIRE.md
/// What sockets take before anybody reads: up to 4 MiB at the sender, 6 MiB at the receiver, and
/// one write of 8 MiB whose payloads are let go of together.
constexpr std::uint64_t kSockets = 18ULL << 20;

class GreedyReader : public NodeTest {
 protected:
  GreedyReader() { memory_limit_ = 32ULL << 20; }

  std::uint64_t ShareBytes() const { return memory_limit_ / 8 * 3 / 2; }

  double Metric(const std::string& series) {
    const std::string text = metrics_.Render();
    const std::size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
  }
  double Refused() { return Metric("forebay_rpc_refused_total{what=\"memory\"}"); }
  double StoreReads() {
    return Metric("forebay_store_reads_total{from=\"disk\"}") +
           Metric("forebay_store_reads_total{from=\"memory\"}");
  }

  proto::ReadBlockRequest RequestNumber(int n) const {
    return RequestFor("data/" + std::to_string(n % kBlocks), kBlock);
  }

  /// The node answers from its disk from now on, in threads of its own.
  void DropPages() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "cache")) {
      if (!entry.is_regular_file()) continue;
      const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      ASSERT_GE(fd, 0) << entry.path();
      EXPECT_EQ(::fdatasync(fd), 0);
      EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
      ::close(fd);
    }
  }

  static Credentials Greedy() {
    Credentials credentials;
    credentials.role = proto::ROLE_CLIENT;
    credentials.id = "greedy";
    credentials.program = "greedy 0";
    credentials.secret = Secret(kTestSecret);
    return credentials;
  }
};

TEST_F(GreedyReader, GetsItsShareOfTheMemoryAndKeepsOutNobody) {
  StartNode();
  for (int n = 0; n < kBlocks; ++n) ASSERT_TRUE(Read(RequestNumber(n)).has_value()) << n;
  for (int n = 0; n < kBlocks; ++n)
    ASSERT_TRUE(Eventually([&] { return IsCached(RequestNumber(n).block()); })) << n;
  ASSERT_TRUE(FillsEnd());
  ASSERT_EQ(Refused(), 0) << "a good reader does not meet the limit";
  DropPages();
  const double before = StoreReads();
  const RawPeer greedy = RawPeer::ConnectTo(node_->address());
  ASSERT_TRUE(greedy.connected());
  ASSERT_TRUE(greedy.OpenAsClient(Greedy()));
  std::string questions;
  for (int n = 0; n < kQuestions; ++n) {
    const FrameHeader header =
        HeaderOf(FrameKind::kRequest, static_cast<std::uint64_t>(n) + 1, Method::kReadBlock);
    questions += FrameBytes(header, RequestNumber(n).SerializeAsString());
  }
  ASSERT_TRUE(greedy.Send(questions));
  constexpr auto kFit = [](std::uint64_t share) { return (share + kSockets) / kBlock; };
  const double least = kQuestions - static_cast<double>(kFit(ShareBytes()));
  ASSERT_TRUE(Eventually([&] { return Refused() >= least; })) << Refused() << " refused";
  EXPECT_EQ(Read(RequestNumber(1)), Tier::kLocal) << "others have room";
  EXPECT_LE(StoreReads() - before, static_cast<double>(kFit(ShareBytes())) + 1)
      << "what has no room does not reach the disk";
  int refused = 0;
  for (int n = 0; n < kQuestions;) {
    const std::optional<RawFrame> frame = greedy.Read();
    ASSERT_TRUE(frame.has_value()) << n;
    if (frame->header.kind != FrameKind::kReply) continue;
    ++n;
    refused += frame->header.code == kOverloaded ? 1 : 0;
    if (frame->header.code == 0) {
      EXPECT_EQ(frame->payload.size(), kBlock);
    }
  }
  EXPECT_GE(refused, least);
  EXPECT_LT(refused, kQuestions - 1) << "it has a share";
  // It has taken all that it got: there is room for it again.
  const FrameHeader again = HeaderOf(FrameKind::kRequest, 1, Method::kReadBlock);
  ASSERT_TRUE(greedy.Send(FrameBytes(again, RequestNumber(0).SerializeAsString())));
  const std::optional<RawFrame> answer = greedy.Read();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->header.code, 0);
}

}  // namespace
}  // namespace forebay
