// One coordinator takes over from another: what it needs, what it says, what it does not do.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <thread>

#include "common/base/files.h"
#include "common/wire/coordinators.h"
#include "common/wire/messages.h"
#include "coordinator/rocksdb_state_store.h"
#include "coordinator/standby.h"
#include "proto/coordinator_state.pb.h"
#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

class TakeoverTest : public ClusterTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir / "a");
    std::filesystem::create_directories(dir / "b");
    Result<std::unique_ptr<RocksDbStateStore>> opened = RocksDbStateStore::Open(dir / "shared");
    ASSERT_TRUE(opened.has_value());
    shared_ = std::move(*opened);
    for (int i = 0; i < 40; ++i) store.Put("p/f" + std::to_string(i), 100);
  }

  /// A coordinator of its own folder, elected for the term that begins now.
  void Lead(const std::string& folder, std::vector<std::string> others = {}) {
    std::filesystem::create_directories(dir / folder);
    state_name = folder;
    leads_ = std::make_shared<std::atomic<bool>>(true);
    leadership =
        Leadership{.store = shared_,
                   .holds = [leads = leads_] { return leads->load(); },
                   .others = [others]() -> Result<std::vector<std::string>> { return others; }};
    StartCoordinator();
  }

  std::unique_ptr<Standby> StandBy(const std::string& folder) {
    StandbyOptions options;
    options.listen = "127.0.0.1:0";
    options.credentials.role = proto::ROLE_COORDINATOR;
    options.credentials.id = "coordinator";
    options.credentials.program = "forebay-coordinator test";
    options.credentials.secret = Secret(secret);
    options.state_dir = dir / folder;
    options.leader = [this] { return leader_; };
    options.trouble = [] { return std::string("etcd does not answer"); };
    Result<std::unique_ptr<Standby>> standby = Standby::Start(std::move(options));
    if (!standby) {
      ADD_FAILURE() << standby.error().message;
      return nullptr;
    }
    return std::move(*standby);
  }

  std::filesystem::path FileIn(const std::string& folder, const proto::LinkState& link) {
    return dir / folder / "snapshots" / UuidFromBytes(link.spec().id()).ToString() /
           (std::to_string(link.generation().generation()) + ".fbs");
  }
  void WaitForFile(const std::filesystem::path& file) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(30));
    while (!std::filesystem::exists(file) && !deadline.Expired()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(std::filesystem::exists(file)) << file;
  }

  /// All bytes of the current generation, from `from`.
  Result<RpcReply> ReadSnapshot(const proto::LinkState& link, const std::string& from) {
    proto::ReadSnapshotRequest request;
    request.set_link(link.spec().id());
    request.set_generation(link.generation().generation());
    request.set_length(static_cast<std::uint32_t>(link.generation().snapshot_bytes()));
    return peer.Call(from, Method::kReadSnapshot, request);
  }

  Caller peer{proto::ROLE_COORDINATOR, "coordinator", secret};

  std::shared_ptr<StateStore> shared_;
  std::shared_ptr<std::atomic<bool>> leads_;
  std::string leader_;  // as standbys know it; set before they start
};

TEST_F(TakeoverTest, AStandbyHasCopiedWhatItNeedsAndListsNothing) {
  Lead("a");
  MakeLink("l", "p/");
  const proto::LinkState link = *GetLink("l");
  leader_ = address();
  std::unique_ptr<Standby> standby = StandBy("b");
  WaitForFile(FileIn("b", link));
  *leads_ = false;
  StopCoordinator();
  standby.reset();
  const std::uint64_t lists = store.lists();
  Lead("b");
  const proto::LinkState after = *GetLink("l");
  EXPECT_EQ(after.generation().SerializeAsString(), link.generation().SerializeAsString());
  EXPECT_TRUE(ReadSnapshot(after, address()).has_value());
  EXPECT_EQ(store.lists(), lists);
}

TEST_F(TakeoverTest, WhatIsNotHereComesFromAnotherCoordinator) {
  Lead("a");
  MakeLink("l", "p/");
  const proto::LinkState link = *GetLink("l");
  leader_ = address();
  const std::unique_ptr<Standby> standby = StandBy("b");
  WaitForFile(FileIn("b", link));
  *leads_ = false;
  StopCoordinator();
  const std::uint64_t lists = store.lists();
  Lead("c", {"127.0.0.1:1", standby->address()});
  EXPECT_TRUE(ReadSnapshot(*GetLink("l"), address()).has_value());
  EXPECT_EQ(store.lists(), lists);
}

/// Makes the change that publishes a second generation, and does not say so: as etcd may, which is
/// then no longer led by who asked.
class DoubtfulStore final : public StateStore {
 public:
  DoubtfulStore(std::shared_ptr<StateStore> store, std::shared_ptr<std::atomic<bool>> leads)
      : store_(std::move(store)), leads_(std::move(leads)) {}

  Result<std::uint64_t> ClaimAbove(std::uint64_t least) override {
    return store_->ClaimAbove(least);
  }
  Result<std::optional<std::string>> Get(const std::string& key) override {
    return store_->Get(key);
  }
  Result<std::vector<std::pair<std::string, std::string>>> Scan(
      const std::string& prefix) override {
    return store_->Scan(prefix);
  }
  Status Write(const StateBatch& batch, std::uint64_t fence) override {
    if (!leads_->load()) return Fail(Code::kUnavailable, "the change before is in doubt");
    Status written = store_->Write(batch, fence);
    const bool publishes = std::ranges::any_of(batch.changes(), [](const auto& change) {
      proto::LinkRecord link;
      return change.key.starts_with("link/") && change.value &&
             link.ParseFromString(*change.value) && link.generation().generation() > 1;
    });
    if (!publishes) return written;
    *leads_ = false;
    return Fail(Code::kUnavailable, "etcd does not answer");
  }

 private:
  const std::shared_ptr<StateStore> store_;
  const std::shared_ptr<std::atomic<bool>> leads_;
};

TEST_F(TakeoverTest, AGenerationThatWasPublishedInDoubtIsNotLost) {
  Lead("a");
  MakeLink("l", "p/");
  StopCoordinator();
  leads_ = std::make_shared<std::atomic<bool>>(true);
  leadership->store = std::make_shared<DoubtfulStore>(shared_, leads_);
  leadership->holds = [leads = leads_] { return leads->load(); };
  StartCoordinator();
  store.Put("p/later", 100);
  proto::RefreshRequest request;
  request.mutable_target()->set_text("l");
  ASSERT_TRUE(admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request).has_value());
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  while (*leads_ && !deadline.Expired()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_FALSE(*leads_);
  StopCoordinator();
  const std::uint64_t lists = store.lists();
  Lead("a");
  const proto::LinkState link = *GetLink("l");
  EXPECT_EQ(link.generation().generation(), 2u);
  EXPECT_TRUE(ReadSnapshot(link, address()).has_value());
  EXPECT_EQ(store.lists(), lists) << "nobody had deleted its listing";
}

TEST_F(TakeoverTest, WhatIsDamagedHereComesFromAnotherCoordinator) {
  Lead("a");
  MakeLink("l", "p/");
  const proto::LinkState link = *GetLink("l");
  leader_ = address();
  const std::unique_ptr<Standby> standby = StandBy("b");
  WaitForFile(FileIn("b", link));
  *leads_ = false;
  StopCoordinator();
  const std::filesystem::path file = FileIn("a", link);
  std::string bytes = ReadWholeFile(file).value();
  const std::string whole = bytes;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(file, bytes).has_value());
  const std::uint64_t lists = store.lists();
  Lead("a", {"127.0.0.1:1", standby->address()});
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  while (ReadWholeFile(file).value() != whole) {
    ASSERT_FALSE(deadline.Expired()) << "it is not found";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  StopCoordinator();  // whatever it began has ended
  EXPECT_EQ(store.lists(), lists);
  Lead("a");
  EXPECT_EQ(GetLink("l")->generation().SerializeAsString(), link.generation().SerializeAsString());
}

// Reading a large file takes longer than a takeover may, and so does having it from elsewhere.
TEST_F(TakeoverTest, ItServesBeforeTheFileIsReadThatAnInterruptedRefreshBuildsOn) {
  Lead("a");
  proto::LinkRequest wanted = LinkRequestFor("l", "p/");
  wanted.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kOnDemand));
  const auto made = admin.Ask<proto::LinkReply>(address(), Method::kLink, wanted);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  WaitForTask(made->task_id());
  const proto::LinkState link = *GetLink("l");
  store.HangAfter(0);
  proto::RefreshRequest request;
  request.mutable_target()->set_text("l");
  const auto begun = admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request);
  ASSERT_TRUE(begun.has_value()) << begun.error().message;
  ASSERT_TRUE(store.WaitUntilHanging());
  *leads_ = false;
  StopCoordinator();
  const std::filesystem::path file = FileIn("a", link);
  std::string bytes = ReadWholeFile(file).value();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(file, bytes).has_value());
  // Who else there is, is known when this one serves, and asked when its own file has been read.
  leads_ = std::make_shared<std::atomic<bool>>(true);
  std::promise<void> serves;
  const std::shared_future<void> served = serves.get_future().share();
  std::atomic<bool> served_first{true};
  leadership.emplace(Leadership{.store = shared_,
                                .holds = [leads = leads_] { return leads->load(); },
                                .others = [&]() -> Result<std::vector<std::string>> {
                                  const auto waited = served.wait_for(std::chrono::seconds(5));
                                  served_first = waited == std::future_status::ready;
                                  return std::vector<std::string>();
                                }});
  StartCoordinator();
  serves.set_value();
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  const auto is_new = [&] {
    const auto now = GetLink("l");
    return now && now->generation().generation() > link.generation().generation();
  };
  while (!is_new() && !deadline.Expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(is_new()) << "it is listed again";
  StopCoordinator();
  EXPECT_TRUE(served_first);
}

TEST_F(TakeoverTest, WhatNobodyHasIsListedAgain) {
  Lead("a");
  MakeLink("l", "p/");
  const std::uint64_t before = GetLink("l")->generation().generation();
  *leads_ = false;
  StopCoordinator();
  const std::uint64_t lists = store.lists();
  Lead("c", {"127.0.0.1:1"});
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  Result<proto::LinkState> link = GetLink("l");
  while (link && !link->has_generation() && !deadline.Expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    link = GetLink("l");
  }
  ASSERT_TRUE(link && link->has_generation());
  EXPECT_GT(link->generation().generation(), before);
  EXPECT_GT(store.lists(), lists);
}

// A file that was damaged on the way is not taken: the next look fetches it again.
TEST_F(TakeoverTest, AFileThatIsNotWhatWasPublishedIsFetchedAgain) {
  Lead("a");
  MakeLink("l", "p/");
  const proto::LinkState link = *GetLink("l");
  leader_ = address();
  const std::filesystem::path file = FileIn("b", link);
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::copy_file(FileIn("a", link), file);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const std::unique_ptr<Standby> standby = StandBy("b");
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  Result<RpcReply> copy = ReadSnapshot(link, standby->address());
  while (!copy && !deadline.Expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    copy = ReadSnapshot(link, standby->address());
  }
  ASSERT_TRUE(copy.has_value()) << copy.error().message;
  const Result<RpcReply> original = ReadSnapshot(link, address());
  ASSERT_TRUE(original.has_value());
  EXPECT_TRUE(std::ranges::equal(copy->payload.bytes, original->payload.bytes));
}

TEST_F(TakeoverTest, AStandbyRefusesEverythingAndSaysWhoLeads) {
  leader_ = "10.0.0.7:7440";
  const std::unique_ptr<Standby> standby = StandBy("b");
  for (const Method method : {Method::kGetRing, Method::kGetLinks, Method::kReadSnapshot}) {
    const Result<RpcReply> reply = client.Call(standby->address(), method, proto::Empty());
    ASSERT_FALSE(reply.has_value());
    EXPECT_EQ(reply.error().code, Code::kUnavailable);
    EXPECT_EQ(reply.error().message,
              "this coordinator is not the leader, the leader is at 10.0.0.7:7440");
  }
  const auto verb = admin.Call(standby->address(), Method::kLink, LinkRequestFor("l", "p/"));
  EXPECT_EQ(verb.error().code, Code::kUnavailable);
  const auto named = client.Ask<proto::GetLeaderReply>(standby->address(), Method::kGetLeader,
                                                       proto::GetLeaderRequest());
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->leader(), "10.0.0.7:7440");
}

TEST_F(TakeoverTest, AStandbyThatDoesNotKnowSaysWhy) {
  const std::unique_ptr<Standby> standby = StandBy("b");
  const Result<RpcReply> reply =
      client.Call(standby->address(), Method::kGetLinks, proto::GetLinksRequest());
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_NE(reply.error().message.find("etcd does not answer"), std::string::npos);
}

TEST_F(TakeoverTest, OneThatNoLongerLeadsAnswersNothingAndWritesNothing) {
  Lead("a");
  MakeLink("l", "p/");
  *leads_ = false;
  const Result<RpcReply> reply =
      client.Call(address(), Method::kGetLinks, proto::GetLinksRequest());
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  const auto before = *shared_->Scan("");
  StopCoordinator();
  EXPECT_EQ(*shared_->Scan(""), before);
}

// From lists with the leader behind dead addresses, and with standbys alone.
TEST_F(TakeoverTest, EveryListLeadsToTheLeader) {
  Lead("a");
  MakeLink("l", "p/");
  leader_ = address();
  const std::unique_ptr<Standby> standby = StandBy("b");
  const std::vector<std::vector<std::string>> lists = {
      {address()},
      {"127.0.0.1:1", standby->address(), address()},
      {standby->address()},
      {"127.0.0.1:1", standby->address()}};
  for (const std::vector<std::string>& list : lists) {
    asio::io_context context;
    ClientPoolOptions options;
    options.credentials.role = proto::ROLE_CLIENT;
    options.credentials.id = "mount";
    options.credentials.program = "test";
    options.credentials.secret = Secret(secret);
    ClientPool pool(context, options, [] { return std::uint64_t{0}; }, [](std::uint64_t) {});
    Coordinators coordinators(pool, list);
    const proto::GetLinksRequest request;
    for (int i = 0; i < 2; ++i) {
      std::future<Result<RpcReply>> reply = asio::co_spawn(
          context, coordinators.Ask(Method::kGetLinks, request, std::chrono::seconds(5)),
          asio::use_future);
      context.restart();
      while (reply.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        context.run_one();
      }
      const Result<RpcReply> answer = reply.get();
      ASSERT_TRUE(answer.has_value()) << answer.error().message;
      EXPECT_EQ(coordinators.Current(), address());
    }
    pool.Close();
    context.restart();
    context.poll();
  }
}

// Another one may serve it, and goes on: nothing was claimed.
TEST_F(TakeoverTest, AStateOfANewerVersionIsLeftAlone) {
  Lead("a");
  StopCoordinator();
  const std::uint64_t fence = *shared_->Claim();
  EXPECT_EQ(**shared_->Get("state/format"), "1") << "a new state has a format";
  StateBatch raised;
  raised.Put("state/format", "2");
  ASSERT_TRUE(shared_->Write(raised, fence).has_value());
  const Result<std::unique_ptr<Coordinator>> refused = TryToStart();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().message,
            "the coordinator's state has format 2, and this version reads 1: use the version that "
            "wrote it, or a newer one");
  EXPECT_TRUE(shared_->Write(raised, fence).has_value());
}

}  // namespace
}  // namespace forebay
