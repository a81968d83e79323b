#include "fuse-client/supervisor/stored_mount.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace forebay {
namespace {

/// What a store has, for the test to look at and to break.
struct StoreState {
  std::map<std::string, OwnedFd> here;
  std::size_t most = 100;
  std::size_t puts = 0;
  bool there = true;
  std::size_t gone_after = 1000;  ///< So many more are taken.
};

OwnedFd Copy(const OwnedFd& fd) { return OwnedFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

class PlayedStore final : public DescriptorStore {
 public:
  explicit PlayedStore(StoreState& kept) : kept_(kept) {}

  std::map<std::string, OwnedFd> TakeBack() override {
    std::map<std::string, OwnedFd> copies;
    for (const auto& [name, fd] : kept_.here) copies[name] = Copy(fd);
    return copies;
  }
  Status Put(const std::string& name, int fd) override {
    ++kept_.puts;
    if (kept_.gone_after == 0) kept_.there = false;
    if (!kept_.there) return Fail(Code::kUnavailable, "gone");
    --kept_.gone_after;
    if (kept_.here.size() >= kept_.most) return Fail(Code::kDenied, "full");
    kept_.here[name] = OwnedFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return {};
  }
  void Remove(const std::string& name) override { kept_.here.erase(name); }
  bool IsThere() override { return kept_.there; }
  Status FindAgain() override {
    kept_.there = true;
    return {};
  }
  void Leave() override { kept_.there = false; }

 private:
  StoreState& kept_;
};

OwnedFd NewFile() { return OwnedFd(::memfd_create("kept", MFD_CLOEXEC)); }

ino_t InodeOf(const OwnedFd& fd) {
  struct stat attributes{};
  EXPECT_EQ(::fstat(fd.get(), &attributes), 0);
  return attributes.st_ino;
}

class StoredMountTest : public ::testing::Test {
 protected:
  StoredMountTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    fuse_ = OwnedFd(ends[0]);
    kernel_ = OwnedFd(ends[1]);
  }

  StoredMount Open(const std::string& mountpoint = "/mnt/a") {
    Result<StoredMount> stored = StoredMount::Open(std::make_unique<PlayedStore>(kept_),
                                                   {.source = "data", .mountpoint = mountpoint});
    EXPECT_TRUE(stored) << stored.error().message;
    return std::move(*stored);
  }
  /// Of a mount that is new.
  StoredMount Begun(const std::string& mountpoint = "/mnt/a") {
    StoredMount stored = Open(mountpoint);
    EXPECT_FALSE(stored.inherited());
    stored.Begin("/mnt/a", slots_);
    stored.Keep(ConnectionKey(1), "mount", fuse_.get());
    return stored;
  }

  StoreState kept_;
  OwnedFd fuse_;
  OwnedFd kernel_;
  const RequestSlots slots_ = *RequestSlots::Create(1);
};

TEST_F(StoredMountTest, AMountPointIsOnePlaceHoweverItIsWritten) {
  EXPECT_EQ(StoredMount::NameOf("/mnt//x/./y/"), "/mnt/x/y");
  EXPECT_EQ(StoredMount::NameOf("/"), "/");
  EXPECT_EQ(StoredMount::NameOf("/./"), "/");
  // A link may be there.
  EXPECT_EQ(StoredMount::NameOf("/mnt/x/../y"), "/mnt/x/../y");
  (void)Begun("/mnt/a/");
  EXPECT_TRUE(Open("/mnt//a").inherited());
  EXPECT_FALSE(Open("/mnt/b").inherited());
}

TEST_F(StoredMountTest, ARefusedDescriptorLeavesWhatWasThere) {
  const OwnedFd old = NewFile();
  const OwnedFd next = NewFile();
  const std::string key = ConnectionKey(1) + "order";
  {
    StoredMount stored = Begun();
    stored.Keep(key, "old", old.get());
    kept_.most = kept_.here.size();
    stored.Keep(key, "new", next.get());
    stored.Keep(key + "2", "another", next.get());
  }
  StoredMount successor = Open();
  ASSERT_TRUE(successor.inherited());
  const KeptEntries found = successor.TakeKept();
  EXPECT_EQ(found.at(key).value, "old");
  ASSERT_TRUE(found.at(key).fd);
  EXPECT_EQ(InodeOf(found.at(key).fd), InodeOf(old));
  EXPECT_FALSE(found.at(key + "2").fd);
}

TEST_F(StoredMountTest, IsHeldAgainOnlyByOneThatHasAllOfIt) {
  KeptEntries entries;
  entries[ConnectionKey(1)] = {"mount", Copy(fuse_)};
  for (int i = 0; i < 5; ++i) {
    entries[ConnectionKey(1) + std::to_string(i)] = {"listing", NewFile()};
  }
  StoredMount stored = Begun();
  // It goes while it is given the mount: nobody asks it for the rest.
  kept_.here.clear();
  kept_.gone_after = 4;
  kept_.puts = 0;
  EXPECT_EQ(stored.KeepAgain(slots_, entries).error().code, Code::kUnavailable);
  EXPECT_EQ(kept_.puts, 5U);
  EXPECT_FALSE(stored.IsKept());
  // It has no room: nobody has the mount, and it has no part of it either.
  kept_.gone_after = 1000;
  kept_.most = 4;
  const Status refused = stored.KeepAgain(slots_, entries);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_FALSE(stored.IsKept());
  EXPECT_TRUE(kept_.here.empty());
  kept_.most = 100;
  EXPECT_TRUE(stored.KeepAgain(slots_, entries));
  EXPECT_TRUE(stored.IsKept());
  StoredMount successor = Open();
  ASSERT_TRUE(successor.inherited());
  EXPECT_EQ(successor.TakeKept().size(), entries.size());
}

}  // namespace
}  // namespace forebay
