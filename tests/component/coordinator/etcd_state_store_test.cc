#include "coordinator/etcd_state_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "coordinator/election.h"
#include "tests/fakes/etcd_server.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

class EtcdStateStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = fakes::EtcdServer::Start();
    ASSERT_NE(server_, nullptr) << "etcd does not start: ops/setup installs it";
  }
  EtcdOptions Options() const { return EtcdOptions{.endpoints = {server_->endpoint()}}; }

  static StateBatch One(const std::string& key, const std::string& value) {
    StateBatch batch;
    batch.Put(key, value);
    return batch;
  }

  std::unique_ptr<fakes::EtcdServer> server_;
};

// Two processes: neither knows of the other but through etcd.
TEST_F(EtcdStateStoreTest, ACoordinatorThatWasReplacedChangesNothingAndHearsWhy) {
  EtcdClient client(Options());
  EtcdStateStore first(client, std::nullopt);
  EtcdStateStore second(client, std::nullopt);
  const std::uint64_t old_fence = *first.Claim();
  ASSERT_TRUE(first.Write(One("k", "old"), old_fence).has_value());
  const std::uint64_t new_fence = *second.Claim();
  const Status refused = first.Write(One("k", "late"), old_fence);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_NE(refused.error().message.find("newer coordinator"), std::string::npos);
  StateBatch many;
  for (int i = 0; i < 500; ++i) many.Put("m" + std::to_string(i), "late");
  EXPECT_EQ(first.Write(many, old_fence).error().code, Code::kDenied);
  EXPECT_EQ(*second.Get("k"), "old");
  EXPECT_TRUE(second.Scan("m")->empty());
  EXPECT_TRUE(second.Write(One("k", "new"), new_fence).has_value());
}

TEST_F(EtcdStateStoreTest, OnlyWhoLeadsClaims) {
  EtcdClient client(Options());
  EtcdTransaction lead;
  lead.changes.push_back({.key = "/forebay/leader", .value = "a"});
  ASSERT_TRUE(client.Commit(lead)->done);
  const std::int64_t created = (*client.Get("/forebay/leader"))->create_revision;
  EtcdStateStore right(client, EtcdCondition{.key = "/forebay/leader", .created = created});
  EXPECT_TRUE(right.Claim().has_value());
  EtcdStateStore wrong(client, EtcdCondition{.key = "/forebay/leader", .created = created + 1});
  const Result<std::uint64_t> claimed = wrong.Claim();
  ASSERT_FALSE(claimed.has_value());
  EXPECT_EQ(claimed.error().code, Code::kDenied);
  EXPECT_TRUE(right.Write(One("k", "v"), 1).has_value());
}

// As a crash between the moment when a large batch is made and its application leaves it.
TEST_F(EtcdStateStoreTest, ALargeBatchThatWasMadeIsFinishedByTheNextCoordinator) {
  EtcdClient client(Options());
  {
    EtcdStateStore store(client, std::nullopt);
    StateBatch batch;
    for (int i = 0; i < 300; ++i) batch.Put("m" + std::to_string(i), "v");
    ASSERT_TRUE(store.Write(batch, *store.Claim()).has_value());
  }
  // "redo" names a batch: one key goes, one comes.
  EtcdTransaction torn;
  torn.changes.push_back({.key = "/forebay/parts/x/00000000",
                          .value = "D17:/forebay/state/m1P18:/forebay/state/new3:vyz"});
  torn.changes.push_back({.key = "/forebay/redo", .value = "px 1 48"});
  torn.changes.push_back({.key = "/forebay/parts/orphan/00000000", .value = "nobody's"});
  ASSERT_TRUE(client.Commit(torn)->done);
  EtcdStateStore store(client, std::nullopt);
  const Result<std::uint64_t> fence = store.Claim();
  ASSERT_TRUE(fence.has_value()) << fence.error().message;
  EXPECT_EQ(*store.Get("m1"), std::nullopt);
  EXPECT_EQ(*store.Get("new"), "yz");
  EXPECT_FALSE(client.Get("/forebay/redo")->has_value());
  EXPECT_TRUE(client.Scan("/forebay/parts/")->empty());
}

TEST_F(EtcdStateStoreTest, AnEndpointThatIsDownOrHangsIsPassedOver) {
  const auto hanging = fakes::EtcdServer::Start();
  ASSERT_NE(hanging, nullptr);
  hanging->Pause();
  EtcdOptions options = Options();
  options.endpoints = {"http://127.0.0.1:1", hanging->endpoint(), server_->endpoint()};
  EtcdClient client(options);
  EtcdStateStore store(client, std::nullopt);
  const Result<std::uint64_t> fence = store.Claim();
  EXPECT_TRUE(fence.has_value()) << fence.error().message;
  EXPECT_TRUE(store.Write(One("k", "v"), fence.value_or(0)).has_value());
  hanging->Continue();
}

TEST_F(EtcdStateStoreTest, WithoutEtcdEveryCallFailsInTimeAndSaysWhere) {
  EtcdClient client(Options());
  for (const bool killed : {false, true}) {
    server_->Continue();
    EtcdStateStore store(client, std::nullopt);
    const std::uint64_t fence = *store.Claim();
    if (killed) {
      server_->Kill();
    } else {
      server_->Pause();
    }
    const TimePoint begun = Clock::now();
    const Status written = store.Write(One("k", killed ? "2" : "1"), fence);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
    ASSERT_FALSE(written.has_value());
    EXPECT_EQ(written.error().code, Code::kUnavailable);
    EXPECT_NE(written.error().message.find(server_->endpoint()), std::string::npos);
  }
}

// The request lies in a paused etcd, which may make it when it goes on: who reads the state after
// the next claim sees whether it did, and that does not change any more.
TEST_F(EtcdStateStoreTest, AWriteInDoubtEndsTheClaimAndIsDecidedByTheNext) {
  EtcdClient client(Options());
  int told = 0;
  EtcdStateStore store(client, std::nullopt, [&] { ++told; });
  const std::uint64_t fence = *store.Claim();
  ASSERT_TRUE(store.Write(One("k", "old"), fence).has_value());
  StateBatch large;
  for (int i = 0; i < 300; ++i) large.Put("m" + std::to_string(i), "v");
  for (const StateBatch& batch : {One("k", "in doubt"), large}) {
    const std::uint64_t claimed = *store.Claim();
    const std::string before = **store.Get("k");
    told = 0;
    server_->Pause();
    const Status given_up = store.Write(batch, claimed);
    server_->Continue();
    ASSERT_FALSE(given_up.has_value());
    EXPECT_NE(given_up.error().message.find("not known"), std::string::npos);
    // etcd answers again, but what the writer knows of it may be wrong.
    const Status later = store.Write(One("k", "later"), claimed);
    ASSERT_FALSE(later.has_value());
    EXPECT_EQ(later.error().code, Code::kUnavailable);
    EXPECT_EQ(told, 1);

    const std::uint64_t again = *store.Claim();
    const std::string decided = **store.Get("k");
    const std::size_t rows = store.Scan("m")->size();
    EXPECT_TRUE(decided == before || decided == "in doubt") << decided;
    EXPECT_TRUE(rows == 0 || rows == 300) << rows;
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(*store.Get("k"), decided);
      ASSERT_EQ(store.Scan("m")->size(), rows);
      ASSERT_TRUE(store.Write(One("other", std::to_string(i)), again).has_value());
    }
  }
}

// One that hangs may make the change although another one refuses it.
TEST_F(EtcdStateStoreTest, ARefusalAfterAnEndpointThatHangsIsInDoubt) {
  const auto strict = fakes::EtcdServer::Start({"--max-txn-ops", "1"});
  ASSERT_NE(strict, nullptr);
  EtcdClient alone(EtcdOptions{.endpoints = {strict->endpoint()}});
  EXPECT_EQ(EtcdStateStore(alone, std::nullopt).Write(One("k", "v"), 0).error().code,
            Code::kInvalid);
  EtcdClient both(EtcdOptions{.endpoints = {server_->endpoint(), strict->endpoint()}});
  EtcdStateStore store(both, std::nullopt);
  const std::uint64_t fence = *store.Claim();
  server_->Pause();
  const Status written = store.Write(One("k", "v"), fence);
  server_->Continue();
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::kUnavailable) << written.error().message;
}

// What was not sent leaves nothing in doubt: etcd that is full when another endpoint is lost costs
// no claim.
TEST_F(EtcdStateStoreTest, ARefusalAfterAnEndpointThatIsGoneIsNoDoubt) {
  const auto strict = fakes::EtcdServer::Start({"--max-txn-ops", "1"});
  ASSERT_NE(strict, nullptr);
  EtcdClient both(EtcdOptions{.endpoints = {"http://127.0.0.1:1", strict->endpoint()}});
  const Status written = EtcdStateStore(both, std::nullopt).Write(One("k", "v"), 0);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::kInvalid) << written.error().message;
}

// Its revision is of the whole scan: a page that is read later shows no later change.
TEST_F(EtcdStateStoreTest, AScanOfManyPagesIsOfOneMoment) {
  EtcdClient client(Options());
  EtcdStateStore store(client, std::nullopt);
  const std::uint64_t fence = *store.Claim();
  std::atomic<bool> done{false};
  StateBatch all;
  for (int i = 0; i < 90; ++i) all.Put(fmt::format("m{:04}", i), "0");
  for (int i = 900; i < 990; ++i) all.Put(fmt::format("m{:04}", i), "0");
  for (int from = 100; from < 900; from += 90) {
    StateBatch between;
    for (int i = from; i < from + 90; ++i) between.Put(fmt::format("m{:04}", i), "-");
    ASSERT_TRUE(store.Write(between, fence).has_value());
  }
  ASSERT_TRUE(store.Write(all, fence).has_value());
  // Of the first page and of the last one, always the same number.
  std::thread writer([&] {
    for (int number = 1; !done; ++number) {
      StateBatch both;
      both.Put("m0000", std::to_string(number));
      both.Put("m0989", std::to_string(number));
      ASSERT_TRUE(store.Write(both, fence).has_value());
    }
  });
  for (int i = 0; i < 100; ++i) {
    const Result<std::vector<EtcdPair>> rows = client.Scan("/forebay/state/m");
    ASSERT_TRUE(rows.has_value());
    ASSERT_EQ(rows->front().value, rows->back().value);
  }
  done = true;
  writer.join();
}

TEST_F(EtcdStateStoreTest, EtcdsUsersAreNamedInOneSentence) {
  const EtcdOptions anybody = Options();
  EtcdClient admin(anybody);
  EtcdHttp http(anybody);
  const auto post = [&](const std::string& path, const std::string& body) {
    const auto answer = http.Post(server_->endpoint(), path, body, Secret(),
                                  Deadline::After(std::chrono::seconds(5)));
    ASSERT_TRUE(answer.has_value());
    ASSERT_EQ(answer->status, 200) << answer->body;
  };
  post("/v3/auth/user/add", R"({"name":"root","password":"rootpw"})");
  post("/v3/auth/role/add", R"({"name":"root"})");
  post("/v3/auth/user/grant", R"({"user":"root","role":"root"})");
  post("/v3/auth/enable", "{}");

  const Result<std::optional<EtcdPair>> nobody = admin.Get("/forebay/k");
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code, Code::kDenied);
  EXPECT_NE(nobody.error().message.find("--etcd-user"), std::string::npos)
      << nobody.error().message;

  const fakes::TempDir dir;
  std::ofstream(dir / "password") << "wrong\n";
  EtcdOptions options = Options();
  options.user = "root";
  options.password_file = dir / "password";
  EtcdClient wrong(options);
  const Result<std::optional<EtcdPair>> refused = wrong.Get("/forebay/k");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_NE(refused.error().message.find("'root'"), std::string::npos) << refused.error().message;

  std::ofstream(dir / "password") << "rootpw\n";
  EtcdClient right(options);
  EtcdStateStore store(right, std::nullopt);
  const Result<std::uint64_t> fence = store.Claim();
  ASSERT_TRUE(fence.has_value()) << fence.error().message;
  EXPECT_TRUE(store.Write(One("k", "v"), *fence).has_value());
}

TEST_F(EtcdStateStoreTest, AWatchHearsOfAChangeBeforeItsTimeIsOver) {
  EtcdClient client(Options());
  const Result<EtcdClient::Outcome> before =
      client.Commit({.changes = {{.key = "/w/a", .value = "1"}}});
  ASSERT_TRUE(before.has_value());
  const TimePoint begun = Clock::now();
  ASSERT_TRUE(client.WaitForChange("/w/", before->revision, std::chrono::milliseconds(2000)));
  EXPECT_GE(Clock::now() - begun, std::chrono::milliseconds(1500));
  std::thread writer([&] {
    EXPECT_TRUE(client.Commit({.changes = {{.key = "/w/b", .value = "1"}}}).has_value());
  });
  const TimePoint waiting = Clock::now();
  EXPECT_TRUE(client.WaitForChange("/w/", before->revision, std::chrono::seconds(60)));
  EXPECT_LT(Clock::now() - waiting, std::chrono::seconds(30));
  writer.join();
}

// Others would send administrators in a circle.
TEST_F(EtcdStateStoreTest, ALeaderThatEtcdNoLongerAnswersDoesNotNameItself) {
  EtcdClient client(Options());
  Election election(client);
  election.Start("127.0.0.1:1");
  const auto reached = [](const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(30));
    while (!condition() && !deadline.Expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return condition();
  };
  ASSERT_TRUE(reached([&] { return election.Leads(); }));
  EXPECT_EQ(election.Leader(), "127.0.0.1:1");
  EXPECT_EQ(election.Trouble(), "");
  server_->Pause();
  ASSERT_TRUE(reached([&] { return !election.Leads(); }));
  EXPECT_EQ(election.Leader(), "");
  EXPECT_NE(election.Trouble().find("etcd"), std::string::npos) << election.Trouble();
  server_->Continue();
}

}  // namespace
}  // namespace forebay
