// What the kernel asks of a real mount in this process, and what programs see.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "common/base/machine_id.h"
#include "fuse-client/mountpoint.h"
#include "tests/component/fuse-client/mount_fixture.h"
#include "tests/fakes/held_pages.h"

namespace forebay {
namespace {

TEST_F(MountTest, TheTreeAndEveryByteAreThoseOfTheLink) {
  ASSERT_TRUE(Mount());
  const std::vector<std::string> paths = Walk();
  ASSERT_EQ(paths.size(), link_->sizes().size());
  for (const std::string& path : paths) {
    const std::uint64_t size = link_->sizes().at(path);
    EXPECT_EQ(fs::file_size(mnt_ + "/" + path), size);
    EXPECT_EQ(ReadAll(mnt_ + "/" + path), Expected(path, 0, size)) << path;
  }
}

TEST_F(MountTest, AfterAWalkASmallFileCostsOneReadAndWithTheCacheWarmNothing) {
  ASSERT_TRUE(Mount());
  std::vector<std::string> paths = Walk();
  std::erase_if(paths, [](const std::string& path) { return !path.starts_with("train/"); });
  ASSERT_EQ(paths.size(), static_cast<std::size_t>(kSmallFiles));
  EXPECT_EQ(Count("lookup"), 0u);
  EXPECT_EQ(Count("getattr"), 1u);  // of the root
  EXPECT_LE(Count("readdirplus"), 20u);
  EXPECT_EQ(Count("read"), 0u);
  for (const std::string& path : paths) ReadAll(mnt_ + "/" + path);
  EXPECT_EQ(Count("read"), static_cast<std::uint64_t>(kSmallFiles));
  EXPECT_EQ(ReadsAtNodes(), static_cast<std::uint64_t>(kSmallFiles));
  EXPECT_EQ(Count("lookup"), 0u);
  EXPECT_EQ(Count("getattr"), 1u);
  EXPECT_LE(Count("open"), 1u);
  EXPECT_LE(Count("opendir"), 1u);
  EXPECT_LE(Count("flush"), 1u);
  // A kernel that is short of memory, or reclaims ahead, may have taken some pages by now.
  std::vector<std::unique_ptr<fakes::HeldPages>> pages;
  pages.reserve(paths.size());
  for (const std::string& path : paths) {
    pages.push_back(std::make_unique<fakes::HeldPages>(mnt_ + "/" + path));
    ASSERT_TRUE(pages.back()->held());
  }
  const std::uint64_t reads = Count("read");
  for (const std::string& path : paths) ReadAll(mnt_ + "/" + path);
  Walk();
  EXPECT_EQ(Count("read"), reads);
  EXPECT_EQ(Count("lookup"), 0u);
  EXPECT_LE(Count("readdirplus"), 20u);
}

TEST_F(MountTest, ABigFileIsRightInAnyOrderByManyReaders) {
  ASSERT_TRUE(Mount());
  const std::string path = mnt_ + "/big.tar";
  std::vector<std::thread> readers;
  readers.reserve(8);
  std::atomic<int> wrong{0};
  for (unsigned reader = 0; reader < 8; ++reader) {
    readers.emplace_back([&, reader] {
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      for (std::uint64_t i = 0; i < 40; ++i) {
        const std::uint64_t offset = (i * 7919 + reader * 104'729ULL) * 4099 % kBigBytes;
        std::string buffer(100'000, '\0');
        const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
        buffer.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
        const std::size_t left = std::min<std::size_t>(100'000, kBigBytes - offset);
        if (buffer != Expected("big.tar", offset, left)) ++wrong;
      }
      ::close(fd);
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
    void* mapped = ::mmap(nullptr, kBigBytes, PROT_READ, kind, fd, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(std::string(static_cast<const char*>(mapped), kBigBytes),
              Expected("big.tar", 0, kBigBytes));
    ::munmap(mapped, kBigBytes);
  }
  ::close(fd);
}

TEST_F(MountTest, EveryWriteFailsAtOnceWithReadOnlyFileSystem) {
  ASSERT_TRUE(Mount());
  const std::string file = mnt_ + "/empty";
  EXPECT_EQ(::open((mnt_ + "/new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::open(file.c_str(), O_WRONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::mkdir((mnt_ + "/dir").c_str(), 0755), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::unlink(file.c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::rename(file.c_str(), (mnt_ + "/other").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::chmod(file.c_str(), 0777), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::truncate(file.c_str(), 5), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::setxattr(file.c_str(), "user.x", "y", 1, 0), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(MountTest, NamesXattrsAndTotalsAreTheLinks) {
  ASSERT_TRUE(Mount());
  struct stat attributes{};
  EXPECT_EQ(::stat((mnt_ + "/nothing").c_str(), &attributes), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(::stat((mnt_ + "/" + std::string(256, 'x')).c_str(), &attributes), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
  ASSERT_EQ(::stat((mnt_ + "/big.tar").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_blksize, 128 * 1024);
  std::array<char, 256> value{};
  const ssize_t n =
      ::getxattr((mnt_ + "/big.tar").c_str(), "user.forebay.etag", value.data(), value.size());
  ASSERT_GT(n, 0);
  EXPECT_EQ(std::string(value.data(), static_cast<std::size_t>(n)), SampleLink::EtagOf("big.tar"));
  EXPECT_EQ(::getxattr((mnt_ + "/big.tar").c_str(), "user.none", value.data(), value.size()), -1);
  EXPECT_EQ(errno, ENODATA);
  struct statvfs totals{};
  ASSERT_EQ(::statvfs(mnt_.c_str(), &totals), 0);
  EXPECT_EQ(totals.f_files, link_->sizes().size() + 5);
  EXPECT_NE(totals.f_flag & ST_RDONLY, 0u);
}

TEST_F(MountTest, ControlFilesTellAboutTheMountAndFailuresHaveTheirReason) {
  ASSERT_TRUE(Mount());
  for (const auto& entry : fs::directory_iterator(mnt_)) {
    EXPECT_NE(entry.path().filename(), ".forebay");
  }
  const boost::json::value config = boost::json::parse(ReadAll(mnt_ + "/.forebay/config"));
  EXPECT_EQ(config.at("link").as_string(), "sample");
  EXPECT_EQ(config.at("generation").to_number<int>(), 1);
  EXPECT_EQ(ReadAll(mnt_ + "/.forebay/errors"), "");
  for (const auto& node : nodes_) {
    node->OnRead([](proto::ReadBlockRequest) -> FakeNode::Answer {
      return {Fail(Code::kDenied, "S3 says AccessDenied; check the link's credentials")};
    });
  }
  const int fd = ::open((mnt_ + "/train/d0/f0.jpg").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  char byte = 0;
  EXPECT_EQ(::read(fd, &byte, 1), -1);
  EXPECT_EQ(errno, EIO);
  ::close(fd);
  const std::string errors = ReadAll(mnt_ + "/.forebay/errors");
  EXPECT_NE(errors.find("EIO \"train/d0/f0.jpg\""), std::string::npos) << errors;
  EXPECT_NE(errors.find("AccessDenied"), std::string::npos) << errors;
}

TEST_F(MountTest, ANodeThatDiesUnderLoadCostsNoError) {
  ASSERT_TRUE(Mount());
  const std::vector<std::string> paths = Walk();
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    for (const std::string& path : paths) {
      if (ReadAll(mnt_ + "/" + path) != Expected(path, 0, link_->sizes().at(path))) ++wrong;
    }
  });
  nodes_[0]->Freeze();
  reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(MountTest, AnExternalUnmountEndsTheDaemon) {
  ASSERT_TRUE(Mount());
  ASSERT_EQ(::umount(mnt_.c_str()), 0);
  for (int i = 0; i < 500 && !stop_.stop_requested(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(stop_.stop_requested());
  Unmount();
  EXPECT_FALSE(IsMounted());
}

TEST_F(MountTest, WhileInUseAnUnmountIsBusyAndTheMountStaysGood) {
  ASSERT_TRUE(Mount());
  const int fd = ::open((mnt_ + "/big.tar").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::umount(mnt_.c_str()), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(ReadAll(mnt_ + "/train/d0/f0.jpg"), Expected("train/d0/f0.jpg", 0, kSmallBytes));
  Unmount(std::chrono::seconds(2));  // gives up waiting and detaches
  EXPECT_FALSE(IsMounted());
  char byte = 0;
  EXPECT_EQ(::pread(fd, &byte, 1, 4 << 20), -1);
  ::close(fd);
}

TEST_F(MountTest, WithoutACoordinatorARemountWorksFromDisk) {
  ASSERT_TRUE(Mount());
  ReadAll(mnt_ + "/empty");
  EXPECT_EQ(ReadAll(mnt_ + "/train/d0/f0.jpg").size(), kSmallBytes);
  Unmount();
  coordinator_->Stop();
  ASSERT_TRUE(Mount());
  EXPECT_EQ(ReadAll(mnt_ + "/train/d0/f0.jpg"), Expected("train/d0/f0.jpg", 0, kSmallBytes));
  const boost::json::value config = boost::json::parse(ReadAll(mnt_ + "/.forebay/config"));
  EXPECT_TRUE(config.at("namespace_from_disk").as_bool());
}

TEST_F(MountTest, ASubPathIsMountedAsARoot) {
  config_.source = "sample/train/d1";
  ASSERT_TRUE(Mount());
  EXPECT_EQ(Walk().size(), 100u);
  EXPECT_EQ(ReadAll(mnt_ + "/f1.jpg"), Expected("train/d1/f1.jpg", 0, kSmallBytes));
  EXPECT_FALSE(ReadAll(mnt_ + "/.forebay/stats").empty());
}

TEST_F(MountTest, OwnersAndWhatTheyHoldAreAttributesThatAreNotListed) {
  ASSERT_TRUE(Mount());
  const std::string file = mnt_ + "/big.tar";
  const auto attribute = [](const std::string& path, const char* name) -> std::string {
    std::array<char, 256> value{};
    const ssize_t n = ::getxattr(path.c_str(), name, value.data(), value.size());
    return n < 0 ? std::string("errno ") + std::to_string(errno)
                 : std::string(value.data(), static_cast<std::size_t>(n));
  };
  const std::string size = std::to_string(kBigBytes);
  const std::string owners = attribute(file, "user.forebay.owner");
  EXPECT_TRUE(owners == "n1,n2" || owners == "n2,n1") << owners;
  EXPECT_EQ(attribute(file, "user.forebay.cached"), "0/" + size);
  nodes_[1]->SayItHolds(true);
  EXPECT_EQ(attribute(file, "user.forebay.cached"), size + "/" + size);
  // One that is silent may hold what the others do not.
  nodes_[0]->Freeze();
  EXPECT_EQ(attribute(file, "user.forebay.cached"), size + "/" + size);
  nodes_[1]->SayItHolds(false);
  EXPECT_EQ(attribute(file, "user.forebay.cached"), "unknown");
  nodes_[0]->Thaw();
  EXPECT_EQ(attribute(mnt_ + "/empty", "user.forebay.owner"), "");
  EXPECT_EQ(attribute(mnt_ + "/empty", "user.forebay.cached"), "0/0");
  EXPECT_EQ(attribute(mnt_ + "/train", "user.forebay.owner"), "errno " + std::to_string(ENODATA));
  std::array<char, 256> names{};
  const ssize_t n = ::listxattr(file.c_str(), names.data(), names.size());
  ASSERT_GT(n, 0);
  EXPECT_EQ(std::string(names.data(), static_cast<std::size_t>(n)),
            std::string("user.forebay.etag\0user.forebay.key\0", 35));
}

TEST_F(MountTest, TheManifestHasALineForEveryFile) {
  ASSERT_TRUE(Mount());
  std::istringstream lines(ReadAll(mnt_ + "/.forebay/manifest"));
  std::map<std::string, std::uint64_t> sizes;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    sizes[line.substr(tab + 1)] = std::stoull(line);
  }
  EXPECT_EQ(sizes, link_->sizes());
}

TEST_F(MountTest, FailuresAreRememberedOverARestart) {
  ASSERT_TRUE(Mount());
  for (const auto& node : nodes_) {
    node->OnRead([](proto::ReadBlockRequest) -> FakeNode::Answer {
      return {Fail(Code::kDenied, "S3 says AccessDenied")};
    });
  }
  EXPECT_EQ(ReadAll(mnt_ + "/big.tar"), "cannot read " + mnt_ + "/big.tar");
  Unmount();
  ASSERT_TRUE(Mount());
  EXPECT_NE(ReadAll(mnt_ + "/.forebay/errors").find("\"big.tar\""), std::string::npos);
}

TEST_F(MountTest, EveryLinkIsADirectoryThatComesAndGoes) {
  config_.source = "/";
  ASSERT_TRUE(Mount());
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(mnt_)) {
      found.push_back(entry.path().filename().string());
    }
    return found;
  };
  const auto becomes = [&](const std::vector<std::string>& wanted) {
    for (int i = 0; i < 1000 && names() != wanted; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return names() == wanted;
  };
  EXPECT_EQ(names(), std::vector<std::string>{"sample"});
  EXPECT_EQ(ReadAll(mnt_ + "/sample/train/d0/f0.jpg"), Expected("train/d0/f0.jpg", 0, kSmallBytes));
  EXPECT_EQ(::mkdir((mnt_ + "/new").c_str(), 0755), -1);
  EXPECT_EQ(errno, EROFS);
  struct statvfs top{};
  ASSERT_EQ(::statvfs(mnt_.c_str(), &top), 0);
  EXPECT_EQ(top.f_flag & ST_RDONLY, ST_RDONLY) << "as the mount table says";
  coordinator_->SetLink({}, "");
  EXPECT_TRUE(becomes({}));
  EXPECT_FALSE(fs::exists(mnt_ + "/sample"));
  coordinator_->SetLink(link_->State(), ReadWholeFile(dir_ / "built.fbs").value());
  EXPECT_TRUE(becomes({"sample"}));
  EXPECT_EQ(ReadAll(mnt_ + "/sample/train/d1/f1.jpg"), Expected("train/d1/f1.jpg", 0, kSmallBytes));
  Unmount();
  EXPECT_FALSE(IsMounted());
}

TEST_F(MountTest, TheCoordinatorIsToldOfItOnceItIsMounted) {
  config_.source = "sample/train";
  std::set<std::uint64_t> incarnations;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Mount());
    proto::MountSelf self;
    for (int tries = 0; tries < 2000 && self.mountpoint().empty(); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      self = coordinator_->last_link_request().mount();
    }
    EXPECT_EQ(self.mountpoint(), mnt_);
    EXPECT_EQ(self.source(), "sample/train");
    EXPECT_EQ(self.host(), HostName());
    incarnations.insert(self.incarnation());
    Unmount();
    coordinator_->ForgetLinkRequest();
  }
  EXPECT_EQ(incarnations.size(), 2u) << "each is one of its own";
}

TEST_F(MountTest, EachBadMountpointHasItsOwnSentence) {
  const std::map<std::string, std::string> bad = {
      {dir_ / "missing", "does not exist"},
      {dir_ / "built.fbs", "is not a directory"},
      {"/proc", "is in use: a proc file system"},
  };
  for (const auto& [place, sentence] : bad) {
    config_.mountpoint = place;
    const Status mounted = Mount();
    ASSERT_FALSE(mounted);
    EXPECT_EQ(mounted.error().code, Code::kInvalid);
    EXPECT_NE(mounted.error().message.find(sentence), std::string::npos) << mounted.error().message;
    Unmount();
  }
  config_.mountpoint = mnt_;
  config_.source = "simple";
  const Status unknown = Mount();
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("did you mean sample?"), std::string::npos);
}

}  // namespace
}  // namespace forebay
