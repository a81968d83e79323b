#include "fuse-client/supervisor/holder_store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "fuse-client/supervisor/private_socket.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using Store = std::unique_ptr<HolderStore>;

/// A holder that answers as often as the test wants it to.
class PlayedHolder {
 public:
  explicit PlayedHolder(const std::string& path) {
    Result<PrivateSocket> socket = PrivateSocket::Listen(path);
    EXPECT_TRUE(socket) << socket.error().message;
    if (socket) socket_ = std::move(*socket);
  }

  /// The next line.
  void Accept() {
    pollfd look{socket_.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&look, 1, 60'000), 1);
    line_ = socket_.Accept();
    EXPECT_TRUE(line_);
  }
  /// What came next on it: its kind and key. Answered, if it asks for that.
  std::pair<HandoverKind, std::string> Answer() {
    Result<HandoverMessage> message = line_->Receive(true);
    EXPECT_TRUE(message) << message.error().message;
    if (!message) return {};
    if (message->kind != HandoverKind::kDrop) line_->Tell(HandoverKind::kAnswer, "done", "");
    return {message->kind, message->key};
  }
  void Offer(const std::string& name) const {
    line_->Tell(HandoverKind::kKept, name, "", STDERR_FILENO);
  }
  void HangUp() { line_.reset(); }

 private:
  PrivateSocket socket_;
  std::optional<HandoverChannel> line_;
};

class HolderStoreTest : public ::testing::Test {
 protected:
  /// With a line that is begun.
  Store Opened() {
    std::jthread holder([this] {
      holder_.Accept();
      holder_.Answer();
    });
    Result<Store> store = HolderStore::Open(path_, "/mnt/a", Duration());
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }

  fakes::TempDir dir_;
  const std::string path_ = dir_ / "socket";
  PlayedHolder holder_{path_};
};

TEST_F(HolderStoreTest, OneThatDoesNotAnswerIsWaitedForOnceAndFoundAgain) {
  const Store store = Opened();
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->IsThere());
  EXPECT_EQ(store->Put("1", STDERR_FILENO).error().code, Code::kTimeout);
  EXPECT_FALSE(store->IsThere());
  EXPECT_EQ(store->fd(), -1);
  const TimePoint begin = Clock::now();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(store->Put("2", STDERR_FILENO).error().code, Code::kTimeout);
    EXPECT_EQ(store->FindAgain().error().code, Code::kTimeout);
    EXPECT_FALSE(store->IsThere());
  }
  EXPECT_LT(Clock::now() - begin, 10 * HolderStore::kAnswersWithin);
  store->Remove("1");
  // It goes on, and does what it was told.
  EXPECT_EQ(holder_.Answer(), std::pair(HandoverKind::kKeep, std::string("1")));
  EXPECT_EQ(holder_.Answer(), std::pair(HandoverKind::kDrop, std::string("1")));
  std::jthread holder([this] {
    holder_.Accept();
    holder_.Answer();
  });
  EXPECT_TRUE(store->FindAgain());
  EXPECT_TRUE(store->IsThere());
}

TEST_F(HolderStoreTest, OneThatHangsAtTheStartIsSaidToDoSo) {
  const Result<Store> store = HolderStore::Open(path_, "/mnt/a", Duration());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnavailable);
  EXPECT_NE(store.error().message.find("does not answer"), std::string::npos);
}

TEST_F(HolderStoreTest, NothingStaysOfOneThatGoesInTheMidst) {
  const Store store = Opened();
  ASSERT_TRUE(store);
  holder_.HangUp();
  EXPECT_FALSE(store->IsThere());
  std::jthread holder([this] {
    holder_.Accept();
    holder_.Offer("1");
    holder_.HangUp();
  });
  EXPECT_FALSE(store->FindAgain());
  EXPECT_TRUE(store->TakeBack().empty());
  EXPECT_EQ(store->Put("1", STDERR_FILENO).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
