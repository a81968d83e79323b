// What every StateStore promises, tried on the embedded one and on a real etcd.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "coordinator/etcd_state_store.h"
#include "coordinator/rocksdb_state_store.h"
#include "tests/fakes/etcd_server.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

class Stores {
 public:
  virtual ~Stores() = default;
  /// As another process would see the state; ends what was opened before.
  virtual StateStore& Open() = 0;
  /// What keeps this kind from being tried; "" = nothing.
  virtual std::string Missing() const { return ""; }
};

class RocksDbStores final : public Stores {
 public:
  StateStore& Open() override {
    store_.reset();
    Result<std::unique_ptr<RocksDbStateStore>> opened = RocksDbStateStore::Open(dir_ / "state");
    if (!opened) throw std::runtime_error(opened.error().message);
    store_ = std::move(*opened);
    return *store_;
  }

 private:
  fakes::TempDir dir_;
  std::unique_ptr<RocksDbStateStore> store_;
};

class EtcdStores final : public Stores {
 public:
  std::string Missing() const override {
    return server_ ? "" : "etcd does not start: ops/setup installs it";
  }
  StateStore& Open() override {
    store_.reset();
    client_ = std::make_unique<EtcdClient>(EtcdOptions{.endpoints = {server_->endpoint()}});
    store_ = std::make_unique<EtcdStateStore>(*client_, std::nullopt);
    return *store_;
  }

 private:
  std::unique_ptr<fakes::EtcdServer> server_ = fakes::EtcdServer::Start();
  std::unique_ptr<EtcdClient> client_;
  std::unique_ptr<EtcdStateStore> store_;
};

using Rows = std::vector<std::pair<std::string, std::string>>;

template <typename Kind>
class StateStoreConformance : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(stores_.Missing(), ""); }
  Kind stores_;
};
using Kinds = ::testing::Types<RocksDbStores, EtcdStores>;
TYPED_TEST_SUITE(StateStoreConformance, Kinds);

TYPED_TEST(StateStoreConformance, KeepsWhatItAcceptedForTheNextProcess) {
  {
    StateStore& store = this->stores_.Open();
    const Result<std::uint64_t> fence = store.Claim();
    ASSERT_TRUE(fence.has_value()) << fence.error().message;
    StateBatch batch;
    batch.Put("a/1", "one");
    batch.Put("a/2", std::string("t\0wo\xFF", 5));
    batch.Put("a/3", "");
    batch.Put("b", "three");
    ASSERT_TRUE(store.Write(batch, *fence).has_value());
    StateBatch removal;
    removal.Delete("a/1");
    removal.Delete("never there");
    ASSERT_TRUE(store.Write(removal, *fence).has_value());
  }
  StateStore& store = this->stores_.Open();
  EXPECT_EQ(*store.Get("a/1"), std::nullopt);
  EXPECT_EQ(*store.Get("a/3"), "");
  EXPECT_EQ(*store.Get("b"), "three");
  EXPECT_EQ(*store.Scan("a/"), (Rows{{"a/2", std::string("t\0wo\xFF", 5)}, {"a/3", ""}}));
  EXPECT_EQ(*store.Scan("c"), Rows{});
}

TYPED_TEST(StateStoreConformance, AScanIsInByteOrderAndTakesExactlyThePrefix) {
  StateStore& store = this->stores_.Open();
  const std::uint64_t fence = *store.Claim();
  StateBatch batch;
  for (const char* key : {"k/b", "k/a", "k", "k0", "k/\x7F", "k/\xFF"}) batch.Put(key, key);
  ASSERT_TRUE(store.Write(batch, fence).has_value());
  EXPECT_EQ(*store.Scan("k/"),
            (Rows{{"k/a", "k/a"}, {"k/b", "k/b"}, {"k/\x7F", "k/\x7F"}, {"k/\xFF", "k/\xFF"}}));
  EXPECT_EQ(*store.Scan("k/\xFF"), (Rows{{"k/\xFF", "k/\xFF"}}));
}

TYPED_TEST(StateStoreConformance, RefusesTheWritesOfAReplacedCoordinatorAsAWhole) {
  StateStore& store = this->stores_.Open();
  const std::uint64_t old_fence = *store.Claim();
  const std::uint64_t new_fence = *store.Claim();
  EXPECT_GT(new_fence, old_fence);
  StateBatch batch;
  batch.Put("x", "1");
  batch.Put("y", "2");
  const Status refused = store.Write(batch, old_fence);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_EQ(*store.Get("x"), std::nullopt);
  EXPECT_EQ(*store.Get("y"), std::nullopt);
  EXPECT_TRUE(store.Write(batch, new_fence).has_value());
}

TYPED_TEST(StateStoreConformance, AFenceOutlivesTheProcess) {
  const std::uint64_t before = *this->stores_.Open().Claim();
  EXPECT_GT(*this->stores_.Open().Claim(), before);
}

TYPED_TEST(StateStoreConformance, TheLastChangeOfAKeyCounts) {
  StateStore& store = this->stores_.Open();
  const std::uint64_t fence = *store.Claim();
  StateBatch batch;
  batch.Put("a", "1");
  batch.Put("a", "2");
  batch.Put("b", "1");
  batch.Delete("b");
  batch.Delete("c");
  batch.Put("c", "3");
  ASSERT_TRUE(store.Write(batch, fence).has_value());
  EXPECT_EQ(*store.Get("a"), "2");
  EXPECT_EQ(*store.Get("b"), std::nullopt);
  EXPECT_EQ(*store.Get("c"), "3");
}

// Of a ring of a thousand nodes, of a preload's failures, of many nodes that go out at once.
TYPED_TEST(StateStoreConformance, LargeValuesAndBatchesAreKeptWhole) {
  std::string large(5'000'001, 'x');
  for (std::size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i);
  {
    StateStore& store = this->stores_.Open();
    const std::uint64_t fence = *store.Claim();
    StateBatch batch;
    for (int i = 0; i < 1000; ++i) batch.Put("many/" + std::to_string(i), std::string(300, 'a'));
    batch.Put("large", large);
    const Status written = store.Write(batch, fence);
    ASSERT_TRUE(written.has_value()) << written.error().message;
    StateBatch wide;
    for (int i = 0; i < 8; ++i) wide.Put("wide/" + std::to_string(i), std::string(400'000, 'w'));
    ASSERT_TRUE(store.Write(wide, fence).has_value());
  }
  StateStore& store = this->stores_.Open();
  ASSERT_TRUE(store.Claim().has_value());
  EXPECT_EQ(store.Scan("many/")->size(), 1000u);
  EXPECT_TRUE(*store.Get("large") == large);
  const Result<Rows> wide = store.Scan("wide/");
  ASSERT_TRUE(wide.has_value()) << wide.error().message;
  ASSERT_EQ(wide->size(), 8u);
  for (const auto& [key, value] : *wide) EXPECT_EQ(value, std::string(400'000, 'w')) << key;
}

TYPED_TEST(StateStoreConformance, ALargeValueIsReplacedAndDeleted) {
  StateStore& store = this->stores_.Open();
  const std::uint64_t fence = *store.Claim();
  for (const char fill : {'a', 'b'}) {
    StateBatch batch;
    batch.Put("k", std::string(1'200'000, fill));
    ASSERT_TRUE(store.Write(batch, fence).has_value());
    EXPECT_TRUE(*store.Get("k") == std::string(1'200'000, fill));
  }
  StateBatch small;
  small.Put("k", "small");
  ASSERT_TRUE(store.Write(small, fence).has_value());
  EXPECT_EQ(*store.Scan("k"), (Rows{{"k", "small"}}));
  StateBatch removal;
  removal.Delete("k");
  ASSERT_TRUE(store.Write(removal, fence).has_value());
  EXPECT_EQ(*store.Scan(""), *store.Scan("fence"));
}

}  // namespace
}  // namespace forebay
