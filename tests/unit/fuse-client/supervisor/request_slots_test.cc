#include "fuse-client/supervisor/request_slots.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>

namespace forebay {
namespace {

/// As the kernel does: the request's length stands first.
void Fill(RequestSlot& slot, std::uint32_t length) {
  std::memcpy(slot.request.data(), &length, sizeof length);
}

/// As another process sees the file.
RequestSlots Again(const RequestSlots& slots) {
  auto mapped = RequestSlots::Map(OwnedFd(::dup(slots.fd())));
  EXPECT_TRUE(mapped);
  return std::move(*mapped);
}

TEST(RequestSlots, WhatWasNotAnsweredIsThereForTheNextProcess) {
  const auto slots = RequestSlots::Create(2);
  ASSERT_TRUE(slots) << slots.error().message;
  SlotArena first = slots->Arena(0);
  SlotArena second = slots->Arena(1);
  RequestSlot* answered = first.Take(7);
  RequestSlot* taken = first.Take(7);
  RequestSlot* other = second.Take(8);
  Fill(*answered, 40);
  Fill(*taken, 80);
  Fill(*other, 64);
  first.Release(answered);

  const RequestSlots later = Again(*slots);
  EXPECT_EQ(later.arenas(), 2U);
  EXPECT_EQ(later.InUse().size(), 2U);
  SlotArena arena = later.Arena(0);
  EXPECT_TRUE(arena.Leftovers(8).empty());
  const auto left = arena.Leftovers(7);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left.front()->Length(), 80U);
  EXPECT_TRUE(arena.Leftovers(7).empty()) << "each is dealt with once";
}

TEST(RequestSlots, ALeftoverIsNotTakenBeforeItIsReleased) {
  const auto slots = RequestSlots::Create(1);
  ASSERT_TRUE(slots);
  SlotArena before = slots->Arena(0);
  Fill(*before.Take(1), 40);
  SlotArena after = slots->Arena(0);
  RequestSlot* fresh = after.Take(1);
  RequestSlot* left = after.Leftovers(1).at(0);
  EXPECT_NE(fresh, left);
  after.Release(left);
  EXPECT_EQ(left->Length(), 0U);
  EXPECT_EQ(after.Take(2), left);
  EXPECT_EQ(after.in_use(), 2U);
}

TEST(RequestSlots, ASlotThatWasTakenAndNeverFilledIsFree) {
  const auto slots = RequestSlots::Create(1);
  ASSERT_TRUE(slots);
  SlotArena before = slots->Arena(0);
  RequestSlot* empty = before.Take(1);
  SlotArena after = slots->Arena(0);
  EXPECT_TRUE(after.Leftovers(1).empty());
  EXPECT_EQ(after.Take(1), empty);
}

TEST(RequestSlots, NoSlotIsGivenTwiceAndTheLastOneIsTheLast) {
  const auto slots = RequestSlots::Create(1);
  ASSERT_TRUE(slots);
  SlotArena arena = slots->Arena(0);
  std::set<RequestSlot*> taken;
  while (RequestSlot* slot = arena.Take(1)) {
    Fill(*slot, 40);
    ASSERT_TRUE(taken.insert(slot).second);
  }
  EXPECT_EQ(taken.size(), RequestSlots::kSlotsPerArena);
  arena.Release(*taken.begin());
  EXPECT_EQ(arena.Take(1), *taken.begin());
  EXPECT_EQ(arena.Take(1), nullptr);
}

TEST(RequestSlots, WhatHasEndedLeavesNothing) {
  const auto slots = RequestSlots::Create(1);
  ASSERT_TRUE(slots);
  SlotArena before = slots->Arena(0);
  Fill(*before.Take(1), 40);
  Fill(*before.Take(2), 48);
  slots->ClearAllBut({2});
  SlotArena after = slots->Arena(0);
  EXPECT_TRUE(after.Leftovers(1).empty());
  EXPECT_EQ(after.Leftovers(2).size(), 1U);
}

TEST(RequestSlots, ARequestThatIsHeldEndsWithItsAnswer) {
  const auto slots = RequestSlots::Create(1);
  ASSERT_TRUE(slots);
  SlotArena arena = slots->Arena(0);
  RequestSlot* slot = arena.Take(1);
  Fill(*slot, 40);
  arena.SetCurrent(slot);
  const HeldRequest held = arena.Hold();
  arena.EndCurrent();
  EXPECT_EQ(slot->Length(), 40U);
  held.Answered();
  EXPECT_EQ(slot->Length(), 0U);
  // And one that nobody holds when the operation returns.
  RequestSlot* direct = arena.Take(1);
  Fill(*direct, 40);
  arena.SetCurrent(direct);
  arena.EndCurrent();
  EXPECT_EQ(direct->Length(), 0U);
  EXPECT_EQ(arena.in_use(), 0U);
}

TEST(RequestSlots, OnlyWhatIsUsedTakesMemory) {
  const auto slots = RequestSlots::Create(64);
  ASSERT_TRUE(slots);
  for (std::size_t i = 0; i < slots->arenas(); ++i) {
    SlotArena arena = slots->Arena(i);
    arena.Release(arena.Take(1));
  }
  EXPECT_TRUE(slots->InUse().empty());
  struct stat attributes{};
  ASSERT_EQ(::fstat(slots->fd(), &attributes), 0);
  EXPECT_LE(attributes.st_blocks * 512, 65 * 4096);
}

TEST(RequestSlots, AnotherFileIsRefused) {
  OwnedFd file(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
  const auto mapped = RequestSlots::Map(std::move(file));
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace forebay
