#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/component/cachenode/node_fixture.h"

namespace forebay {
namespace {

using fakes::GetScript;

constexpr std::size_t kReaders = 1000;
constexpr std::size_t kMounts = 10;
constexpr std::uint64_t kSize = 200'000;

/// Readers of a few mounts that all want the same block at once.
class HerdTest : public NodeTest {
 protected:
  HerdTest() {
    s3_.OnGet([](const GetRequest&) { return GetScript{.hold_after = 0}; });
    for (std::size_t i = 0; i < kMounts; ++i) {
      ClientPoolOptions options;
      options.credentials.role = proto::ROLE_CLIENT;
      options.credentials.id = "mount-" + std::to_string(i);
      options.credentials.program = "test 0";
      options.credentials.secret = Secret(kTestSecret);
      pools_.push_back(std::make_unique<ClientPool>(
          io_.At(i), options, [] { return std::uint64_t{0}; }, [](std::uint64_t) {}));
    }
    io_.Start();
  }

  ~HerdTest() override { io_.Stop(); }

  static Task<bool> ReadOnce(ClientPool* pool, std::string address,
                             proto::ReadBlockRequest request) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(60));
    const Result<RpcReply> reply =
        co_await pool->Call(std::move(address), Method::kReadBlock, request, deadline);
    co_return reply.has_value() && reply->payload.bytes.size() == kSize;
  }

  void Begin(const proto::ReadBlockRequest& request) {
    for (std::size_t i = 0; i < kReaders; ++i) {
      reads_.push_back(asio::co_spawn(
          io_.At(i % kMounts), ReadOnce(pools_[i % kMounts].get(), node_->address(), request),
          asio::use_future));
    }
  }

  /// A mount is gone, with all that its readers asked.
  void Leave(std::size_t mount) {
    std::promise<void> gone;
    asio::post(io_.At(mount), [&] {
      pools_[mount]->Close();
      gone.set_value();
    });
    gone.get_future().wait();
  }

  std::size_t Answered() {
    std::size_t right = 0;
    for (std::future<bool>& read : reads_) right += read.get() ? 1 : 0;
    return right;
  }

  IoPool io_{"herd", kMounts};
  std::vector<std::unique_ptr<ClientPool>> pools_;
  std::vector<std::future<bool>> reads_;
};

TEST_F(HerdTest, AThousandReadersOfOneColdBlockAreOneGet) {
  StartNode();
  Begin(RequestFor("data/cold", kSize));
  ASSERT_TRUE(s3_.WaitForHeld(1));
  s3_.Release();
  EXPECT_EQ(Answered(), kReaders);
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(HerdTest, ReadersThatGoAwayDoNotEndTheFillOfThoseWhoStay) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/cold", kSize);
  Begin(request);
  ASSERT_TRUE(s3_.WaitForHeld(1));
  // Among them, surely, the one that began it.
  for (std::size_t mount = 0; mount + 1 < kMounts; ++mount) Leave(mount);
  s3_.Release();
  EXPECT_EQ(Answered(), kReaders / kMounts);
  ASSERT_TRUE(FillsEnd());
  EXPECT_TRUE(IsCached(request.block()));
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(HerdTest, OfManyReadersOfOneBlockThoseWhoMayGoOnAreSentOn) {
  StartNode();
  proto::ReadBlockRequest request = RequestFor("data/cold", kSize);
  request.set_may_go_on(true);
  Begin(request);
  const auto sent_on = [this] {
    return std::ranges::count_if(reads_, [](const std::future<bool>& read) {
      return read.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
  };
  EXPECT_TRUE(Eventually([&] {
    return sent_on() == static_cast<std::ptrdiff_t>(kReaders - HotReads::kMany);
  })) << sent_on();
  s3_.Release();
  EXPECT_EQ(Answered(), HotReads::kMany);
  EXPECT_EQ(s3_.gets(), 1u);
}

TEST_F(HerdTest, AFillThatNobodyWaitsForAnyMoreIsKeptAllTheSame) {
  StartNode();
  const proto::ReadBlockRequest request = RequestFor("data/cold", kSize);
  Begin(request);
  ASSERT_TRUE(s3_.WaitForHeld(1));
  for (std::size_t mount = 0; mount < kMounts; ++mount) Leave(mount);
  EXPECT_EQ(Answered(), 0u);
  s3_.Release();
  ASSERT_TRUE(FillsEnd());
  EXPECT_TRUE(IsCached(request.block()));
  EXPECT_EQ(Read(request), Tier::kLocal);
  EXPECT_EQ(s3_.gets(), 1u);
}

}  // namespace
}  // namespace forebay
