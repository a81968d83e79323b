#include "fuse-client/supervisor/handover.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "common/base/deadline.h"
#include "fuse-client/supervisor/keeper.h"
#include "fuse-client/supervisor/request_slots.h"

namespace forebay {
namespace {

std::pair<HandoverChannel, HandoverChannel> Pair() {
  auto ends = HandoverChannel::Pair();
  EXPECT_TRUE(ends);
  return std::move(*ends);
}

ino_t InodeOf(int fd) {
  struct stat attributes{};
  EXPECT_EQ(::fstat(fd, &attributes), 0);
  return attributes.st_ino;
}

TEST(Handover, AMessageArrivesWholeWithItsDescriptor) {
  const auto [left, right] = Pair();
  const std::string value(RequestSlot::kRequestBytes * 100, 'x');
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_TRUE(left.Send(HandoverKind::kKeep, "a key", value, pipe[0]));
  ASSERT_TRUE(left.Send(HandoverKind::kDrop, "", ""));
  const auto first = right.Receive(true);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, HandoverKind::kKeep);
  EXPECT_EQ(first->key, "a key");
  EXPECT_EQ(first->value, value);
  EXPECT_EQ(InodeOf(first->fd.get()), InodeOf(pipe[0]));
  const auto second = right.Receive(true);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, HandoverKind::kDrop);
  EXPECT_FALSE(second->fd);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(Handover, NothingNobodyAndNonsenseAreToldApart) {
  auto [left, right] = Pair();
  EXPECT_EQ(right.Receive(false).error().code, Code::kTimeout);
  ASSERT_GT(::send(left.fd(), "nonsense", 8, 0), 0);
  EXPECT_EQ(right.Receive(true).error().code, Code::kInvalid);
  // A length that does not fit what came.
  std::array<std::uint32_t, 4> head = {0x59425246, 9, 0xffffffff, 1};
  ASSERT_GT(::send(left.fd(), head.data(), sizeof head, 0), 0);
  EXPECT_EQ(right.Receive(true).error().code, Code::kInvalid);
  EXPECT_EQ(left.Send(HandoverKind::kKeep, "k", std::string(HandoverChannel::kBytesMax, 'x'))
                .error()
                .code,
            Code::kInvalid);
  left = HandoverChannel();
  EXPECT_EQ(right.Receive(true).error().code, Code::kUnavailable);
  EXPECT_EQ(right.Send(HandoverKind::kGo, "", "").error().code, Code::kUnavailable);
}

TEST(Handover, TheKeyOfAConnectionSaysItsNumber) {
  EXPECT_EQ(ConnectionOfKey(ConnectionKey(1)), 1U);
  EXPECT_EQ(ConnectionOfKey(ConnectionKey(4'000'000'000U)), 4'000'000'000U);
  EXPECT_EQ(ConnectionOfKey(ConnectionKey(3) + "init"), 0U);
  EXPECT_EQ(ConnectionOfKey("connection/x/"), 0U);
  EXPECT_EQ(ConnectionOfKey("job/3/"), 0U);
  EXPECT_FALSE(ConnectionKey(31).starts_with(ConnectionKey(3)));
}

TEST(Keeper, ASuccessorFindsWhatWasLeft) {
  auto [supervisor, end] = Pair();
  const auto slots = RequestSlots::Create(2);
  ASSERT_TRUE(slots);
  SlotArena before = slots->Arena(1);
  for (const std::uint32_t connection : {5U, 6U}) {
    const std::uint32_t length = 40;
    std::memcpy(before.Take(connection)->request.data(), &length, sizeof length);
  }
  ASSERT_TRUE(
      supervisor.Send(HandoverKind::kHello, std::to_string(kHandoverFormat), "", slots->fd()));
  ASSERT_TRUE(supervisor.Send(HandoverKind::kKept, ConnectionKey(5), "mine", slots->fd()));
  ASSERT_TRUE(supervisor.Send(HandoverKind::kKept, "job/1/", "a job"));
  ASSERT_TRUE(supervisor.Send(HandoverKind::kGo, "", "news"));
  auto keeper = Keeper::Connect(OwnedFd(::dup(end.fd())));
  ASSERT_TRUE(keeper) << keeper.error().message;
  EXPECT_TRUE((*keeper)->successor());
  EXPECT_EQ((*keeper)->news(), "news");
  EXPECT_EQ((*keeper)->NewConnection(), 6U);
  EXPECT_EQ((*keeper)->Arena(1).Leftovers(5).size(), 1U);
  EXPECT_TRUE((*keeper)->Arena(1).Leftovers(6).empty()) << "its connection has ended";
  EXPECT_EQ((*keeper)->TakeInherited("job/").size(), 1U);
  EXPECT_EQ((*keeper)->TakeInherited("job/").size(), 0U);
  EXPECT_EQ(supervisor.Receive(true)->kind, HandoverKind::kPrepared);
  (*keeper)->Keep("k", "v");
  const auto kept = supervisor.Receive(true);
  EXPECT_EQ(kept->key + kept->value, "kv");
}

TEST(Keeper, AnotherFormatIsRefusedBeforeAnythingIsTaken) {
  auto [supervisor, end] = Pair();
  ASSERT_TRUE(supervisor.Send(HandoverKind::kHello, std::to_string(kHandoverFormat + 1), ""));
  const auto keeper = Keeper::Connect(OwnedFd(::dup(end.fd())));
  ASSERT_FALSE(keeper);
  EXPECT_EQ(keeper.error().code, Code::kInvalid);
  EXPECT_EQ(supervisor.Receive(false).error().code, Code::kTimeout);
}

TEST(Keeper, ObeysUntilItEnds) {
  auto [supervisor, end] = Pair();
  const auto slots = RequestSlots::Create(1);
  ASSERT_TRUE(slots);
  ASSERT_TRUE(
      supervisor.Send(HandoverKind::kHello, std::to_string(kHandoverFormat), "", slots->fd()));
  ASSERT_TRUE(supervisor.Send(HandoverKind::kGo, "", ""));
  auto keeper = Keeper::Connect(OwnedFd(::dup(end.fd())));
  ASSERT_TRUE(keeper);
  std::atomic<int> stops{0};
  std::atomic<int> leaves{0};
  (*keeper)->Obey({.stop = [&] { ++stops; }, .leave = [&] { ++leaves; }});
  ASSERT_TRUE(supervisor.Send(HandoverKind::kLeave, "", ""));
  ASSERT_TRUE(supervisor.Send(HandoverKind::kStop, "", ""));
  const Deadline deadline = Deadline::After(std::chrono::seconds(10));
  while (stops == 0 && !deadline.Expired()) std::this_thread::yield();
  EXPECT_EQ(stops, 1);
  EXPECT_EQ(leaves, 1);
  keeper->reset();
}

}  // namespace
}  // namespace forebay
