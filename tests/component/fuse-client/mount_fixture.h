#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/wire/handshake.h"
#include "fuse-client/mount.h"
#include "tests/fakes/fake_coordinator.h"
#include "tests/fakes/fake_node.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {

namespace fs = std::filesystem;
using fakes::FakeCoordinator;
using fakes::FakeNode;
using fakes::SampleLink;

inline constexpr int kSmallFiles = 300;
inline constexpr std::uint64_t kSmallBytes = 40'000;
inline constexpr std::uint64_t kBlockBytes = 1 << 20;
inline constexpr std::uint64_t kBigBytes = 5 * kBlockBytes + 12'345;

/// As Python and C do: a buffer of st_blksize or more.
inline std::string ReadAll(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "cannot open " + path;
  std::string text;
  std::string piece(131'072, '\0');
  ssize_t n = 0;
  while ((n = ::read(fd, piece.data(), piece.size())) > 0) {
    text.append(piece, 0, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return n < 0 ? "cannot read " + path : text;
}

inline std::string Expected(const std::string& key, std::uint64_t offset, std::size_t size) {
  const auto bytes = SampleLink::Bytes(key, offset, size);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

/// A real mount in this process, over a fake coordinator and two fake nodes.
class MountTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Before any thread: where the mount and the fakes find the secret.
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    ::setenv("FOREBAY_RUNTIME_DIR", runtime_dir_.path().c_str(), 1);
  }

  void SetUp() override {
    if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "mounting needs root and /dev/fuse here";
    }
    std::map<std::string, std::uint64_t> keys;
    for (int i = 0; i < kSmallFiles; ++i) {
      keys["train/d" + std::to_string(i % 3) + "/f" + std::to_string(i) + ".jpg"] = kSmallBytes;
    }
    keys["big.tar"] = kBigBytes;
    keys["empty"] = 0;
    link_ = std::make_unique<SampleLink>("sample", std::move(keys), kBlockBytes);
    link_->BuildSnapshot(dir_ / "built.fbs");
    const std::string secret(LoadOrCreateSecret().value().Reveal());
    coordinator_ = std::make_unique<FakeCoordinator>(secret);
    coordinator_->SetLink(link_->State(), ReadWholeFile(dir_ / "built.fbs").value());
    std::vector<NodeInfo> members;
    for (const char* id : {"n1", "n2"}) {
      nodes_.push_back(std::make_unique<FakeNode>(id, secret));
      members.push_back(nodes_.back()->Info());
    }
    coordinator_->SetRing(RingTable::Next({}, members, 1'700'000'000));
    fs::create_directory(mnt_);
    config_.source = "sample";
    config_.mountpoint = mnt_;
    config_.coordinator = {coordinator_->address()};
    config_.foreground = true;
    config_.state_dir = dir_ / "state";
    config_.threads = 2;
    config_.file_mode = 0444;
    config_.dir_mode = 0555;
    config_.failover_timeout = std::chrono::milliseconds(500);
  }

  void TearDown() override { Unmount(); }

  Status Mount() {
    stop_ = std::stop_source();
    services_ = std::make_unique<ProgramServices>(ProgramServices{
        metrics_, health_, stop_.get_token(), [this] { stop_.request_stop(); }, {}});
    daemon_ = std::make_unique<MountDaemon>(config_, config_.source, *services_);
    return daemon_->Start();
  }

  void Unmount(Duration drain = std::chrono::seconds(10)) {
    if (!daemon_) return;
    stop_.request_stop();
    daemon_->Stop(Deadline::After(drain));
    daemon_.reset();
  }

  bool IsMounted() const {
    struct stat above{};
    struct stat here{};
    return ::stat(dir_.path().c_str(), &above) == 0 && ::stat(mnt_.c_str(), &here) == 0 &&
           above.st_dev != here.st_dev;
  }

  /// How often the kernel has asked `op`, by the mount's own metrics: looking costs no request.
  std::uint64_t Count(const std::string& op) {
    std::istringstream lines(metrics_.Render());
    const std::string wanted = "op=\"" + op + "\"";
    std::uint64_t sum = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("forebay_fuse_ops_total{")) continue;
      if (line.find(wanted) != std::string::npos)
        sum += std::stoull(line.substr(line.rfind(' ') + 1));
    }
    return sum;
  }

  std::uint64_t ReadsAtNodes() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->reads();
    return sum;
  }

  /// Every path below the mount, found as `find` does.
  std::vector<std::string> Walk() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(mnt_)) {
      if (entry.is_regular_file()) paths.push_back(fs::relative(entry.path(), mnt_).string());
    }
    return paths;
  }

  static inline const fakes::TempDir runtime_dir_;
  fakes::TempDir dir_;
  std::string mnt_ = dir_ / "mnt";
  std::unique_ptr<SampleLink> link_;
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  MountConfig config_;
  Metrics metrics_;
  Health health_;
  std::stop_source stop_;
  std::unique_ptr<ProgramServices> services_;
  std::unique_ptr<MountDaemon> daemon_;
};

}  // namespace forebay
