// What has changed with a refresh is kept with the generation, and served.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/component/coordinator/cluster_fixture.h"

namespace forebay {
namespace {

class DeltasTest : public ClusterTest {
 protected:
  DeltasTest() {
    for (int i = 0; i < 200; ++i) store.Put("data/" + std::to_string(i), 10);
    StartCoordinator();
    MakeLink("data", "data/");
  }

  void Refresh() {
    proto::RefreshRequest request;
    request.mutable_target()->set_text("data");
    const auto reply = admin.Ask<proto::RefreshReply>(address(), Method::kRefresh, request);
    ASSERT_TRUE(reply) << reply.error().message;
    ASSERT_EQ(WaitForTask(reply->task_id()).state(), 1u);
  }

  void Change() {
    store.Put("data/" + std::to_string(++changed_), 11);
    ASSERT_NO_FATAL_FAILURE(Refresh());
  }

  proto::GenerationInfo Generation() { return GetLink("data")->generation(); }

  proto::ReadSnapshotRequest RequestFor(const proto::GenerationDelta& delta) {
    proto::ReadSnapshotRequest request;
    request.set_link(GetLink("data")->spec().id());
    request.set_generation(delta.after());
    request.set_before(delta.before());
    request.set_length(static_cast<std::uint32_t>(delta.bytes()));
    return request;
  }

  Result<std::string> Read(const proto::ReadSnapshotRequest& request) {
    std::string bytes;
    const auto reply =
        client.Ask<proto::ReadSnapshotReply>(address(), Method::kReadSnapshot, request, &bytes);
    if (!reply) return Fail(reply.error());
    return bytes;
  }

  /// A refresh tidies up behind its end.
  bool KeepsDeltaFiles(std::size_t count) const {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (DeltaFiles() != count && !deadline.Expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return DeltaFiles() == count;
  }

 private:
  std::size_t DeltaFiles() const {
    std::size_t count = 0;
    std::error_code error;  // files go meanwhile
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / state_name, error))
      count += entry.path().extension() == ".fbd" ? 1 : 0;
    return count;
  }

  int changed_ = 0;
};

TEST_F(DeltasTest, EachLeadsFromTheGenerationBefore) {
  EXPECT_EQ(Generation().deltas_size(), 0);
  ASSERT_NO_FATAL_FAILURE(Change());
  ASSERT_NO_FATAL_FAILURE(Change());
  const proto::GenerationInfo now = Generation();
  ASSERT_EQ(now.deltas_size(), 2);
  EXPECT_EQ(now.deltas(0).before(), 1u);
  EXPECT_EQ(now.deltas(0).after(), 2u);
  EXPECT_EQ(now.deltas(1).before(), 2u);
  EXPECT_EQ(now.deltas(1).after(), 3u);
  EXPECT_EQ(now.deltas(1).after_digest_high(), now.digest_high());
  const auto bytes = Read(RequestFor(now.deltas(1)));
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(bytes->substr(0, 8), "FBDIFF\r\n");
}

TEST_F(DeltasTest, TheLastEightAreKept) {
  for (int i = 0; i < 11; ++i) ASSERT_NO_FATAL_FAILURE(Change());
  const proto::GenerationInfo now = Generation();
  ASSERT_EQ(now.deltas_size(), 8);
  EXPECT_EQ(now.deltas(0).before(), 4u);
  EXPECT_EQ(now.deltas(7).after(), now.generation());
  EXPECT_TRUE(KeepsDeltaFiles(8));
}

TEST_F(DeltasTest, WhereTooMuchHasChangedNoneLeadsOn) {
  ASSERT_NO_FATAL_FAILURE(Change());
  for (int i = 0; i < 200; ++i) store.Put("data/" + std::to_string(i), 12);
  ASSERT_NO_FATAL_FAILURE(Refresh());
  EXPECT_EQ(Generation().deltas_size(), 0);
  EXPECT_TRUE(KeepsDeltaFiles(0));
}

TEST_F(DeltasTest, ARestartServesThemOn) {
  ASSERT_NO_FATAL_FAILURE(Change());
  StopCoordinator();
  StartCoordinator();
  ASSERT_EQ(Generation().deltas_size(), 1);
  EXPECT_TRUE(Read(RequestFor(Generation().deltas(0))));
}

TEST_F(DeltasTest, NoOtherFileIsServedThanTheOneThatIsMeant) {
  ASSERT_NO_FATAL_FAILURE(Change());
  const proto::GenerationDelta delta = Generation().deltas(0);
  proto::ReadSnapshotRequest request = RequestFor(delta);
  request.set_digest_high(delta.digest_high());
  request.set_digest_low(delta.digest_low());
  EXPECT_TRUE(Read(request));
  request.set_digest_low(delta.digest_low() ^ 1);
  EXPECT_EQ(Read(request).error().code, Code::kNotFound);
  // Nor a whole one.
  request.set_before(0);
  request.set_digest_high(Generation().digest_high());
  request.set_digest_low(Generation().digest_low());
  EXPECT_TRUE(Read(request));
  request.set_digest_low(delta.digest_low());
  EXPECT_EQ(Read(request).error().code, Code::kNotFound);
}

TEST_F(DeltasTest, WhatIsNotThereIsSaidToBeGone) {
  ASSERT_NO_FATAL_FAILURE(Change());
  proto::ReadSnapshotRequest request = RequestFor(Generation().deltas(0));
  request.set_before(77);
  EXPECT_EQ(Read(request).error().code, Code::kNotFound);
  request = RequestFor(Generation().deltas(0));
  request.set_offset(1 << 20);
  EXPECT_EQ(Read(request).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace forebay
