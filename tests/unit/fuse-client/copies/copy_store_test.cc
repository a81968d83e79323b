#include "fuse-client/copies/copy_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fuse-client/copies/copy_scrubber.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlock = 8192;
const Uuid kLink = Uuid::Parse("11111111-2222-3333-4444-555555555555");
const Uuid kOther = Uuid::Parse("66666666-7777-8888-9999-aaaaaaaaaaaa");

std::string BytesFor(std::uint64_t seed, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(seed * 31 + i * 7 + i / 251);
  return bytes;
}

ByteView ViewOf(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

CopyName NameOf(std::uint64_t seed, const Uuid& link = kLink) {
  return {link, {.high = 7, .low = seed}};
}

CopyRecord RecordFor(std::uint64_t seed, std::uint64_t size) {
  CopyRecord record;
  record.version = {.high = 7, .low = seed};
  record.nodeid = 1000 + seed;
  record.size = size;
  record.block_bytes = kBlock;
  return record;
}

class CopyStoreTest : public testing::Test {
 protected:
  CopyStore& Open(std::uint64_t limit = 0, const std::string& boot = "this run") {
    store_.reset();
    CopyStore::Options options;
    options.folder = folder_ / "copies";
    options.limit = limit;
    options.boot = boot;
    auto store = CopyStore::Open(options);
    EXPECT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
    return *store_;
  }

  static Status Fill(CopyDraft& draft, const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
      const Status appended = draft.Append(ViewOf(bytes.substr(at, kBlock)));
      if (!appended) return appended;
    }
    return {};
  }

  Status Copy(std::uint64_t seed, std::size_t size, const Uuid& link = kLink) {
    auto draft = store_->Begin(link, RecordFor(seed, size));
    if (!draft) return Fail(draft.error());
    const Status filled = Fill(**draft, BytesFor(seed, size));
    if (!filled) return filled;
    return (*draft)->Commit();
  }

  std::string PathOf(std::uint64_t seed, const Uuid& link = kLink) const {
    return folder_ / ("copies/" + link.ToString() + "/" + NameOf(seed).version.ToString());
  }

  /// Everything below the link's folder.
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / ("copies/" + kLink.ToString()))) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  Code WhyNot(std::uint64_t seed, const Uuid& link = kLink) {
    const auto found = store_->Find(NameOf(seed, link));
    return found ? Code{} : found.error().code;
  }

  std::string Read(std::uint64_t seed) {
    const auto found = store_->Find(NameOf(seed));
    if (!found) return "not found";
    std::string bytes(1 << 20, '\0');
    bytes.resize(static_cast<std::size_t>(::pread(found->get(), bytes.data(), bytes.size(), 0)));
    return bytes;
  }

  void Damage(std::uint64_t seed, std::uint64_t offset) const {
    std::fstream file(PathOf(seed), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char wrong = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(wrong);
  }

  fakes::TempDir folder_;
  std::unique_ptr<CopyStore> store_;
};

TEST_F(CopyStoreTest, ACopyIsFoundWhenItIsWholeAndOutlivesTheStore) {
  CopyStore& store = Open();
  const std::string bytes = BytesFor(1, 3 * kBlock + 100);
  {
    auto draft = store.Begin(kLink, RecordFor(1, bytes.size()));
    ASSERT_TRUE(draft);
    ASSERT_TRUE(Fill(**draft, bytes));
    EXPECT_EQ(WhyNot(1), Code::kNotFound);
    EXPECT_EQ(store.totals().copies, 0U);
    EXPECT_EQ(store.Begin(kLink, RecordFor(1, bytes.size())).error().code, Code::kInvalid);
    ASSERT_TRUE((*draft)->Commit());
  }
  EXPECT_EQ(Read(1), bytes);
  EXPECT_EQ(WhyNot(2), Code::kNotFound);
  EXPECT_EQ(WhyNot(1, kOther), Code::kNotFound);
  Open();
  EXPECT_EQ(Read(1), bytes);
  EXPECT_EQ(store_->totals().bytes, bytes.size());
}

TEST_F(CopyStoreTest, AnEmptyFileHasACopy) {
  Open();
  ASSERT_TRUE(Copy(1, 0));
  EXPECT_EQ(Read(1), "");
  EXPECT_TRUE(store_->Verify(NameOf(1), nullptr));
}

TEST_F(CopyStoreTest, ADraftThatEndsEarlyLeavesNothing) {
  CopyStore& store = Open(10 * kBlock);
  {
    auto draft = store.Begin(kLink, RecordFor(1, 10 * kBlock));
    ASSERT_TRUE(draft);
    ASSERT_TRUE((*draft)->Append(ViewOf(BytesFor(1, kBlock))));
    EXPECT_EQ((*draft)->Commit().error().code, Code::kInvalid);
  }
  EXPECT_EQ(Files(), std::vector<std::string>());
  EXPECT_EQ(store.totals().bytes, 0U);
  EXPECT_TRUE(Copy(1, 10 * kBlock));
}

TEST_F(CopyStoreTest, WhatACrashLeftIsRemovedAtTheStart) {
  Open();
  ASSERT_TRUE(Copy(1, kBlock));
  ASSERT_TRUE(Copy(2, kBlock));
  ASSERT_TRUE(Copy(3, kBlock));
  const std::vector<std::string> whole = {NameOf(1).version.ToString(),
                                          NameOf(1).version.ToString() + ".sums"};
  std::ofstream(PathOf(9) + ".77.0.tmp") << "half a copy";
  std::ofstream(PathOf(8) + ".sums") << "a record alone";
  std::ofstream(PathOf(7)) << "a copy without its record";
  fs::resize_file(PathOf(2), 10);
  fs::resize_file(PathOf(3) + ".sums", 30);
  Open();
  EXPECT_EQ(Files(), whole);
  EXPECT_EQ(store_->totals().copies, 1U);
  EXPECT_EQ(store_->totals().bytes, kBlock);
}

TEST_F(CopyStoreTest, WhenItIsFullNothingIsAddedAndNothingGoes) {
  CopyStore& store = Open(5 * kBlock);
  store.Attach(this, kLink, {[](auto, const auto&) { return true; }, [](auto, const auto&) {}});
  ASSERT_TRUE(Copy(1, 3 * kBlock));
  EXPECT_EQ(Copy(2, 3 * kBlock).error().code, Code::kOverloaded);
  EXPECT_TRUE(store.totals().full);
  EXPECT_EQ(Read(1), BytesFor(1, 3 * kBlock));
  EXPECT_TRUE(Copy(3, 2 * kBlock));
  EXPECT_FALSE(store.totals().full);
  // What is being written counts.
  store.Detach(this);
  auto draft = Open(5 * kBlock).Begin(kOther, RecordFor(4, kBlock));
  ASSERT_TRUE(draft);
  EXPECT_LE(store_->totals().bytes, 5 * kBlock);
}

TEST_F(CopyStoreTest, TheLastOfTheDiskStaysFree) {
  store_.reset();
  CopyStore::Options options;
  options.folder = folder_ / "copies";
  options.free_part = 1;  // all of it
  auto store = CopyStore::Open(options);
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->Begin(kLink, RecordFor(1, kBlock)).error().code, Code::kOverloaded);
}

TEST_F(CopyStoreTest, CopiesOfLinksThatAreNotMountedMakeRoom) {
  CopyStore& store = Open(4 * kBlock);
  store.Attach(this, kLink, {[](auto, const auto&) { return true; }, [](auto, const auto&) {}});
  ASSERT_TRUE(Copy(1, 2 * kBlock, kOther));
  ASSERT_TRUE(Copy(2, 2 * kBlock));
  EXPECT_TRUE(Copy(3, 2 * kBlock));
  EXPECT_EQ(WhyNot(1, kOther), Code::kNotFound);
  EXPECT_EQ(Read(2), BytesFor(2, 2 * kBlock));
  EXPECT_EQ(Read(3), BytesFor(3, 2 * kBlock));
  store.Detach(this);
}

TEST_F(CopyStoreTest, VersionsThatNoMountShowsAreRemoved) {
  CopyStore& store = Open();
  ASSERT_TRUE(Copy(1, kBlock));
  ASSERT_TRUE(Copy(2, kBlock));
  ASSERT_TRUE(Copy(1, kBlock, kOther));
  const auto held = store.Find(NameOf(1));
  ASSERT_TRUE(held);
  std::uint64_t shown = 1001;
  store.Attach(this, kLink,
               {[&](std::uint64_t nodeid, const ObjectVersion&) { return nodeid == shown; },
                [](auto, const auto&) {}});
  EXPECT_EQ(WhyNot(2), Code::kNotFound);
  EXPECT_EQ(Read(1), BytesFor(1, kBlock));
  shown = 0;
  store.RemoveUnshown(kLink);
  EXPECT_EQ(WhyNot(1), Code::kNotFound);
  EXPECT_EQ(Files(), std::vector<std::string>());
  // Who has it open reads on; other links have their own.
  std::string bytes(kBlock, '\0');
  EXPECT_EQ(::pread(held->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(kBlock));
  EXPECT_EQ(bytes, BytesFor(1, kBlock));
  EXPECT_TRUE(store.Find(NameOf(1, kOther)));
  store.Detach(this);
}

TEST_F(CopyStoreTest, ADamagedCopyIsFoundAndWithdrawn) {
  CopyStore& store = Open();
  std::vector<std::uint64_t> damaged;
  store.Attach(this, kLink,
               {[](auto, const auto&) { return true; },
                [&](std::uint64_t nodeid, const Error& error) {
                  damaged.push_back(nodeid);
                  EXPECT_EQ(error.code, Code::kCorrupt);
                  EXPECT_NE(error.message.find("at 16384"), std::string::npos) << error.message;
                }});
  for (const std::uint64_t seed : {1U, 2U}) ASSERT_TRUE(Copy(seed, 3 * kBlock + 5));
  Damage(1, 3 * kBlock - 1);
  EXPECT_TRUE(store.Verify(NameOf(2), nullptr));
  EXPECT_EQ(store.Verify(NameOf(1), nullptr).error().code, Code::kCorrupt);
  EXPECT_EQ(damaged, std::vector<std::uint64_t>{1001});
  EXPECT_EQ(store.totals().damaged, 1U);
  EXPECT_EQ(WhyNot(1), Code::kNotFound);
  EXPECT_FALSE(fs::exists(PathOf(1)));
  EXPECT_TRUE(Copy(1, 3 * kBlock + 5));  // again
  EXPECT_EQ(Read(1), BytesFor(1, 3 * kBlock + 5));
  store.Detach(this);
}

TEST_F(CopyStoreTest, TheLastBytesAreComparedToo) {
  Open();
  ASSERT_TRUE(Copy(1, 3 * kBlock + 5));
  Damage(1, 3 * kBlock + 4);
  EXPECT_EQ(store_->Verify(NameOf(1), nullptr).error().code, Code::kCorrupt);
}

TEST_F(CopyStoreTest, ACopyOfAnotherSizeIsNotHandedOut) {
  Open();
  ASSERT_TRUE(Copy(1, kBlock));
  fs::resize_file(PathOf(1), kBlock - 1);
  EXPECT_EQ(WhyNot(1), Code::kNotFound);
  EXPECT_EQ(store_->totals().damaged, 1U);
}

TEST_F(CopyStoreTest, CopiesOfAnEarlierRunOfTheMachineAreVerifiedFirst) {
  Open();
  ASSERT_TRUE(Copy(1, kBlock));
  ASSERT_TRUE(Copy(2, kBlock));
  Damage(2, 0);
  Open(0, "the next run");
  EXPECT_EQ(store_->totals().unverified, 2U);
  EXPECT_EQ(WhyNot(2), Code::kUnavailable);
  // A process that ends before all are verified changes nothing for the one after it.
  EXPECT_EQ(WhyNot(1), Code::kUnavailable);
  Open(0, "the next run");
  EXPECT_EQ(WhyNot(1), Code::kUnavailable);
  EXPECT_TRUE(store_->SomebodyWaits());
  const std::stop_source stop;
  const auto next = store_->NextToVerify(false, Clock::now(), stop.get_token());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->name, NameOf(1));
  EXPECT_TRUE(next->wanted);
  EXPECT_TRUE(store_->Verify(next->name, nullptr));
  EXPECT_EQ(Read(1), BytesFor(1, kBlock));
  const auto last = store_->NextToVerify(false, Clock::now(), stop.get_token());
  ASSERT_TRUE(last);
  EXPECT_FALSE(last->wanted);
  EXPECT_EQ(store_->Verify(last->name, nullptr).error().code, Code::kCorrupt);
  EXPECT_EQ(WhyNot(2), Code::kNotFound);
  Open(0, "the next run");
  EXPECT_EQ(Read(1), BytesFor(1, kBlock));
}

TEST_F(CopyStoreTest, AnUnknownRunVerifiesAll) {
  Open(0, "");
  ASSERT_TRUE(Copy(1, kBlock));
  Open(0, "");
  EXPECT_EQ(WhyNot(1), Code::kUnavailable);
}

TEST_F(CopyStoreTest, TheFolderIsForOneAtATime) {
  Open();
  CopyStore::Options options;
  options.folder = folder_ / "copies";
  const auto second = CopyStore::Open(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_TRUE(store_->Probe());
  store_.reset();
  EXPECT_TRUE(CopyStore::Open(options));
}

TEST_F(CopyStoreTest, TheScrubberGoesRoundAndFindsDamage) {
  CopyStore& store = Open();
  for (const std::uint64_t seed : {1U, 2U, 3U}) ASSERT_TRUE(Copy(seed, 3 * kBlock));
  const CopyScrubber scrubber(store, {.bytes_per_second = 1ULL << 40, .round_every = Duration(0)});
  const auto until = [](const auto& condition) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(30));
    while (!condition() && !deadline.Expired()) std::this_thread::yield();
    return condition();
  };
  // Two rounds at least.
  EXPECT_TRUE(until([&] { return store.totals().verified_bytes > 18 * kBlock; }));
  EXPECT_EQ(store.totals().damaged, 0U);
  Damage(2, kBlock);
  EXPECT_TRUE(until([&] { return store.totals().damaged == 1; }));
  EXPECT_EQ(WhyNot(2), Code::kNotFound);
  EXPECT_EQ(Read(1), BytesFor(1, 3 * kBlock));
}

TEST_F(CopyStoreTest, TheScrubberKeepsToItsRate) {
  CopyStore& store = Open();
  ASSERT_TRUE(Copy(1, 3 * kBlock));
  // A piece is 8 KiB: the second would come after more than two hours.
  {
    const CopyScrubber scrubber(store, {.bytes_per_second = 1, .round_every = Duration(0)});
  }
  const auto scrubber = std::make_unique<CopyScrubber>(
      store, CopyScrubber::Options{.bytes_per_second = 1, .round_every = Duration(0)});
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  while (store.totals().verified_bytes == 0 && !deadline.Expired()) std::this_thread::yield();
  EXPECT_LE(store.totals().verified_bytes, 2 * kBlock);
}

}  // namespace
}  // namespace forebay
