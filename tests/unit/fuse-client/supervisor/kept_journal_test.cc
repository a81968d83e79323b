#include "fuse-client/supervisor/kept_journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <random>

namespace forebay {
namespace {

using Texts = std::map<std::string, std::pair<std::string, std::uint64_t>>;

Texts TextsOf(const KeptJournal& journal) {
  Texts texts;
  for (const auto& [key, record] : journal.records()) {
    texts[key] = {record.value, record.descriptor};
  }
  return texts;
}

/// What a process would read that takes over now.
Texts WrittenIn(const KeptJournal& journal) {
  const Result<KeptJournal> read = KeptJournal::Open(OwnedFd(::dup(journal.fd())));
  return read ? TextsOf(*read) : Texts{{"", {read.error().message, 0}}};
}

TEST(KeptJournal, ASuccessorReadsWhatWasKeptAndNotDropped) {
  Result<KeptJournal> journal = KeptJournal::Create();
  ASSERT_TRUE(journal) << journal.error().message;
  ASSERT_TRUE(journal->Keep("a/1", {"one", 7}));
  ASSERT_TRUE(journal->Keep("a/2", {std::string("t\0wo", 4), 0}));
  ASSERT_TRUE(journal->Keep("b", {"", 8}));
  ASSERT_TRUE(journal->Keep("a/1", {"another", 9}));
  EXPECT_EQ(
      WrittenIn(*journal),
      (Texts{{"a/1", {"another", 9}}, {"a/2", {std::string("t\0wo", 4), 0}}, {"b", {"", 8}}}));
  ASSERT_TRUE(journal->Drop("a/"));
  EXPECT_EQ(WrittenIn(*journal), (Texts{{"b", {"", 8}}}));
}

// Each step is compared as whoever takes over would see it, over many rewrites.
TEST(KeptJournal, ChangesForEverTakeBoundedMemory) {
  Result<KeptJournal> journal = KeptJournal::Create();
  ASSERT_TRUE(journal) << journal.error().message;
  constexpr unsigned kSeed = 20261122;
  std::mt19937 random(kSeed);
  Texts model;
  std::size_t written = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "k" + std::to_string(random() % 20) + "/";
    if (random() % 8 == 0) {
      model.erase(key);
      ASSERT_TRUE(journal->Drop(key));
    } else {
      const std::string value(random() % 20000, static_cast<char>('a' + i % 26));
      written += value.size();
      model[key] = {value, random() % 5};
      ASSERT_TRUE(journal->Keep(key, {value, model[key].second}));
    }
    if (i % 50 == 0) {
      ASSERT_EQ(WrittenIn(*journal), model) << "seed " << kSeed << ", step " << i;
    }
  }
  EXPECT_EQ(WrittenIn(*journal), model);
  struct stat file{};
  ASSERT_EQ(::fstat(journal->fd(), &file), 0);
  ASSERT_GT(written, 4 * KeptJournal::kSlackBytes) << "nothing was rewritten: this shows nothing";
  // Twenty entries of at most 20,000 bytes, three times, and the slack.
  EXPECT_LT(static_cast<std::size_t>(file.st_blocks) * 512, 3 * KeptJournal::kSlackBytes);
}

// As when its writer was killed between the record and the word that makes it count.
TEST(KeptJournal, WhatWasNotCommittedIsNotThere) {
  Result<KeptJournal> journal = KeptJournal::Create();
  ASSERT_TRUE(journal) << journal.error().message;
  ASSERT_TRUE(journal->Keep("a", {"one", 0}));
  std::uint64_t committed = 0;
  constexpr off_t kCommitted = 16;
  ASSERT_EQ(::pread(journal->fd(), &committed, sizeof committed, kCommitted), 8);
  const Texts before = WrittenIn(*journal);
  ASSERT_TRUE(journal->Keep("a", {"two", 3}));
  ASSERT_NE(WrittenIn(*journal), before);
  ASSERT_EQ(::pwrite(journal->fd(), &committed, sizeof committed, kCommitted), 8);
  EXPECT_EQ(WrittenIn(*journal), before);
}

TEST(KeptJournal, AnotherFileIsRefused) {
  OwnedFd empty(::memfd_create("empty", MFD_CLOEXEC));
  EXPECT_EQ(KeptJournal::Open(std::move(empty)).error().code, Code::kInvalid);
  OwnedFd other(::memfd_create("other", MFD_CLOEXEC));
  const std::string text(8192, 'x');
  ASSERT_EQ(::write(other.get(), text.data(), text.size()), 8192);
  EXPECT_EQ(KeptJournal::Open(std::move(other)).error().code, Code::kInvalid);
  EXPECT_EQ(KeptJournal::Open(OwnedFd()).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace forebay
