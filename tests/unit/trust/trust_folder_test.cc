#include "common/trust/trust_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/files.h"
#include "common/trust/tls.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fakes/test_cluster.h"

namespace forebay {
namespace {

using testing::HasSubstr;

class TrustFolderTest : public testing::Test {
 protected:
  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }
  static mode_t ModeOf(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }

  std::vector<std::string> TakeActions() const {
    std::vector<std::string> lines;
    EXPECT_TRUE(folder_.TellActions([&](const std::string& line) { lines.push_back(line); }));
    return lines;
  }

  const fakes::TempDir temp_;
  const TestCluster cluster_;
  const TrustFolder folder_{temp_ / "trust"};
};

TEST_F(TrustFolderTest, WhatWasDoneByHandIsTakenOnceInItsOrder) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_COORDINATOR, "c")).has_value());
  EXPECT_THAT(TakeActions(), testing::IsEmpty());
  ASSERT_TRUE(folder_.NoteAction("first").has_value());
  ASSERT_TRUE(folder_.NoteAction("second").has_value());
  EXPECT_EQ(ModeOf(At("actions")), 0600u);
  {
    const auto lock = folder_.Lock();
    ASSERT_TRUE(lock);
    EXPECT_THAT(TakeActions(), testing::IsEmpty()) << "another program writes";
  }
  EXPECT_THAT(TakeActions(), testing::ElementsAre("first", "second"));
  EXPECT_THAT(TakeActions(), testing::IsEmpty());
}

TEST_F(TrustFolderTest, OfTooManyActionsTheOldestGo) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_COORDINATOR, "c")).has_value());
  std::string text;
  for (std::size_t i = 0; i < TrustFolder::kMostActions; ++i) text += std::to_string(i) + "\n";
  std::ofstream(At("actions")) << text;
  ASSERT_TRUE(folder_.NoteAction("newest").has_value());
  const std::vector<std::string> actions = TakeActions();
  ASSERT_EQ(actions.size(), TrustFolder::kMostActions);
  EXPECT_EQ(actions.front(), "1");
  EXPECT_EQ(actions.back(), "newest");
}

TEST_F(TrustFolderTest, KeepsAMemberAndItsAuthority) {
  EXPECT_EQ(folder_.Exists(), Result<bool>(false));
  const MemberProof node = cluster_.Member(proto::ROLE_NODE, "n1");
  ASSERT_TRUE(folder_.SaveAuthority(cluster_.authority()).has_value());
  ASSERT_TRUE(folder_.Save(node).has_value());
  EXPECT_EQ(folder_.Exists(), Result<bool>(true));
  const Result<MemberProof> back = folder_.Load(proto::ROLE_NODE);
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->self, node.self);
  const Result<Authority> authority = folder_.LoadAuthority();
  ASSERT_TRUE(authority.has_value()) << authority.error().message;
  EXPECT_EQ(authority->certificate().KeyHash(), cluster_.authority().certificate().KeyHash());
  for (const char* secret : {"node.key", "ca.key"}) EXPECT_EQ(ModeOf(At(secret)), 0600u) << secret;
  EXPECT_EQ(ModeOf(folder_.path()), 0700u);
}

TEST_F(TrustFolderTest, ARoleWithoutACertificateIsToldToJoin) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_NODE, "n1")).has_value());
  const Result<MemberProof> client = folder_.Load(proto::ROLE_CLIENT);
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::kInvalid);
  EXPECT_THAT(client.error().message, HasSubstr("forebay join"));
}

TEST_F(TrustFolderTest, KeysThatOthersMayReadAreRefused) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_NODE, "n1")).has_value());
  ASSERT_EQ(chmod(At("node.key").c_str(), 0640), 0);
  const Result<MemberProof> open = folder_.Load(proto::ROLE_NODE);
  ASSERT_FALSE(open.has_value());
  EXPECT_EQ(open.error().code, Code::kDenied);
  EXPECT_THAT(open.error().message, HasSubstr("chmod 600"));
  ASSERT_EQ(chmod(At("node.key").c_str(), 0600), 0);
  std::filesystem::rename(At("node.key"), At("real.key"));
  std::filesystem::create_symlink(At("real.key"), At("node.key"));
  EXPECT_EQ(folder_.Load(proto::ROLE_NODE).error().code, Code::kDenied) << "a link";
}

TEST_F(TrustFolderTest, FilesThatDoNotFitTogetherAreRefused) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_NODE, "n1")).has_value());
  const MemberProof other = cluster_.Member(proto::ROLE_NODE, "n1");
  ASSERT_TRUE(WriteFileAtomically(At("node.key"), other.key.ToPem().Reveal()).has_value());
  EXPECT_THAT(folder_.Load(proto::ROLE_NODE).error().message, HasSubstr("belong to its key"));
  ASSERT_TRUE(WriteFileAtomically(At("node.key"), "no key").has_value());
  EXPECT_THAT(folder_.Load(proto::ROLE_NODE).error().message, HasSubstr("no private key"));
  std::filesystem::copy(At("node.pem"), At("admin.pem"));
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_NODE, "n1")).has_value());
  const MemberProof admin = cluster_.Member(proto::ROLE_ADMIN, "a");
  ASSERT_TRUE(WriteFileAtomically(At("admin.key"), admin.key.ToPem().Reveal()).has_value());
  ASSERT_TRUE(WriteFileAtomically(At("admin.pem"), "-----BEGIN").has_value());
  EXPECT_THAT(folder_.Load(proto::ROLE_ADMIN).error().message, HasSubstr("holds no certificate"));
}

TEST_F(TrustFolderTest, NewCertificatesComeIntoForceAndWrongOnesDoNot) {
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_NODE, "n1")).has_value());
  const Result<std::shared_ptr<Trust>> trust = Trust::Open(folder_, proto::ROLE_NODE);
  ASSERT_TRUE(trust.has_value() && *trust) << trust.error().message;
  const auto first = (*trust)->Current();
  const std::int64_t ends = (*trust)->ends_unix_s();
  const Validity longer{.begins_unix_s = UnixSeconds() - 60, .ends_unix_s = ends + 1000};
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_NODE, "n1", longer)).has_value());
  ASSERT_TRUE((*trust)->Reload().has_value());
  EXPECT_NE((*trust)->Current(), first);
  EXPECT_EQ((*trust)->ends_unix_s(), ends + 1000);
  const auto second = (*trust)->Current();
  ASSERT_TRUE(folder_.Save(cluster_.Member(proto::ROLE_NODE, "n2")).has_value());
  EXPECT_EQ((*trust)->Reload().error().code, Code::kInvalid) << "another member";
  ASSERT_TRUE(WriteFileAtomically(At("node.pem"), "").has_value());
  EXPECT_FALSE((*trust)->Reload().has_value());
  EXPECT_EQ((*trust)->Current(), second) << "what was in force stays";
}

TEST_F(TrustFolderTest, SaysBeforehandWhetherItCanBeWrittenAndMakesNothing) {
  EXPECT_TRUE(TrustFolder(temp_ / "not/made/yet").CheckWritable());
  EXPECT_FALSE(std::filesystem::exists(temp_ / "not"));
  EXPECT_TRUE(TrustFolder(temp_ / ".").CheckWritable());
  std::ofstream(temp_ / "file") << "x";
  for (const char* const name : {"file", "file/below", "file/far/below"}) {
    const Status refused = TrustFolder(temp_ / name).CheckWritable();
    ASSERT_FALSE(refused) << name;
    EXPECT_THAT(refused.error().message, HasSubstr("certificates cannot be kept in")) << name;
  }
}

TEST_F(TrustFolderTest, AMachineOfNoClusterHasNoTrust) {
  const Result<std::shared_ptr<Trust>> trust = Trust::Open(folder_, proto::ROLE_NODE);
  ASSERT_TRUE(trust.has_value()) << trust.error().message;
  EXPECT_EQ(*trust, nullptr);
}

}  // namespace
}  // namespace forebay
