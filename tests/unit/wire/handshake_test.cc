#include "common/wire/handshake.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

struct Talk {
  Credentials credentials;
  proto::ClientHello hello;
  proto::ServerHello answer;
};

Talk SampleTalk() {
  Talk talk;
  talk.credentials.secret = Secret(std::string(32, 's'));
  talk.hello.set_version_min(1);
  talk.hello.set_version_max(1);
  talk.hello.set_role(proto::ROLE_CLIENT);
  talk.hello.set_nonce(std::string(32, 'c'));
  talk.hello.set_cluster(std::string(16, 'u'));
  talk.hello.set_peer_id("m1");
  talk.answer.set_version(1);
  talk.answer.set_role(proto::ROLE_NODE);
  talk.answer.set_nonce(std::string(32, 'n'));
  talk.answer.set_cluster(std::string(16, 'u'));
  return talk;
}

TEST(Proof, ChangesWithEverythingThatWasSaid) {
  const Talk said = SampleTalk();
  const std::string client = ClientProof(said.credentials, said.hello, said.answer);
  const std::string server = ServerProof(said.credentials, said.hello, said.answer);
  EXPECT_EQ(client.size(), 32u);
  EXPECT_FALSE(ProofMatches(client, server)) << "one end's proof sent back to it";
  const auto changed = [&](const auto& change) {
    Talk other = SampleTalk();
    change(other);
    return !ProofMatches(client, ClientProof(other.credentials, other.hello, other.answer)) &&
           !ProofMatches(server, ServerProof(other.credentials, other.hello, other.answer));
  };
  EXPECT_FALSE(changed([](Talk&) {}));
  EXPECT_TRUE(changed([](Talk& talk) { talk.credentials.secret = Secret(std::string(32, 'x')); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.hello.set_nonce(NewNonce()); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.answer.set_nonce(NewNonce()); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.hello.set_role(proto::ROLE_ADMIN); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.answer.set_role(proto::ROLE_COORDINATOR); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.hello.set_cluster(std::string(16, 'v')); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.answer.set_cluster(std::string(16, 'v')); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.hello.set_version_max(2); }));
  EXPECT_TRUE(changed([](Talk& talk) { talk.hello.set_peer_id("m2"); }));
}

class SecretFile : public ::testing::Test {
 protected:
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  SecretFile() { setenv("FOREBAY_RUNTIME_DIR", folder_.c_str(), 1); }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs any more
  ~SecretFile() override { unsetenv("FOREBAY_RUNTIME_DIR"); }

  const fakes::TempDir dir_;
  const std::string folder_ = dir_ / "run";
};

TEST_F(SecretFile, AllWhoStartAtOnceAgreeOnOne) {
  std::vector<std::string> secrets(8);
  std::vector<std::thread> threads;
  threads.reserve(secrets.size());
  for (std::string& secret : secrets) {
    threads.emplace_back([&secret] {
      const Result<Secret> loaded = LoadOrCreateSecret();
      secret = loaded ? std::string(loaded->Reveal()) : loaded.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& secret : secrets) EXPECT_EQ(secret, secrets.front());
  EXPECT_EQ(secrets.front().size(), 32u);
  struct stat info{};
  ASSERT_EQ(stat((folder_ + "/secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "drafts are left";
}

TEST_F(SecretFile, OneThatOthersMayReadIsRefused) {
  ASSERT_TRUE(LoadOrCreateSecret().has_value());
  ASSERT_EQ(chmod((folder_ + "/secret").c_str(), 0644), 0);
  const Result<Secret> loaded = LoadOrCreateSecret();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, Code::kDenied);
  EXPECT_NE(loaded.error().message.find(folder_), std::string::npos);
}

TEST_F(SecretFile, RootUsesTheOneOfTheUserToWhomItGaveTheDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  constexpr uid_t kService = 65534;
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chown(folder_.c_str(), kService, kService), 0);
  const Result<Secret> made = LoadOrCreateSecret();
  ASSERT_TRUE(made.has_value()) << made.error().message;
  struct stat info{};
  ASSERT_EQ(stat((folder_ + "/secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kService) << "or the service could not read it";
  EXPECT_TRUE(LoadOrCreateSecret() == made);
  // In a place where everybody makes directories it may be a stranger's.
  ASSERT_EQ(chmod(dir_.path().c_str(), 0777), 0);
  const Result<Secret> strange = LoadOrCreateSecret();
  ASSERT_FALSE(strange.has_value());
  EXPECT_EQ(strange.error().code, Code::kDenied);
}

TEST_F(SecretFile, ADamagedOneIsSaidSo) {
  ASSERT_TRUE(LoadOrCreateSecret().has_value());
  std::ofstream(folder_ + "/secret") << "short";
  EXPECT_EQ(LoadOrCreateSecret().error().code, Code::kInvalid);
}

}  // namespace
}  // namespace forebay
