#include "tests/sim/far_s3.h"

#include <algorithm>
#include <cstddef>

#include "common/base/executors.h"

namespace forebay::sim {
namespace {

constexpr std::chrono::milliseconds kFirstByteAtLeast{15};
constexpr std::chrono::milliseconds kFirstByteAtMost{60};
// As S3Client does it.
constexpr std::chrono::seconds kConnectTimeout{5};
constexpr std::chrono::milliseconds kPauseAtMost{200};

}  // namespace

std::uint64_t FarS3::again_of(std::size_t block) const {
  std::vector<BlockRange> parts = brought_[block];
  std::ranges::sort(parts);
  std::uint64_t again = 0;
  std::uint32_t end = 0;
  for (const BlockRange& part : parts) {
    if (part.begin < end) again += std::min(end, part.end) - part.begin;
    end = std::max(end, part.end);
  }
  return again;
}

// False: whoever asks wants no further attempt, or there is no time for one.
Task<bool> FarS3::AwaitRoute(const std::string* node, const GetRequest* request,
                             const std::size_t* block, Deadline deadline) {
  while (lost_.contains(*node)) {
    if (block != nullptr) ++in_vain_[*block];
    const bool waited =
        co_await SleepFor(std::min<Duration>(kConnectTimeout, deadline.at() - world_.now()));
    if (block != nullptr) --in_vain_[*block];
    if (!waited || world_.now() >= deadline.at()) co_return false;
    if (request != nullptr && request->before_pause) {
      const bool is_over = co_await request->before_pause(RetryReason::kTimeout);
      if (is_over) co_return false;
    }
    co_await SleepFor(world_.Between({}, kPauseAtMost));
  }
  co_return true;
}

Task<Result<ObjectHead>> FarS3::Head(std::string node, Deadline deadline) {
  const bool answers = co_await AwaitRoute(&node, nullptr, nullptr, deadline);
  if (!answers) co_return Fail(Code::kUnavailable, "S3 does not answer this node");
  co_return ObjectHead();
}

Task<Status> FarS3::Get(std::string node, GetRequest request, BodySink* sink, Deadline deadline) {
  const std::size_t block = data_.NumberOf(request.key, request.offset);
  const bool has_route = co_await AwaitRoute(&node, &request, &block, deadline);
  if (!has_route) co_return Fail(Code::kUnavailable, "S3 does not answer this node");
  ++gets_[block];
  ++all_;
  if (told_) told_(block, node);
  if (refuses_) co_return Fail(Code::kDenied, "S3 refuses");
  const std::uint64_t failures = failures_;
  const Duration first_byte = world_.Between(kFirstByteAtLeast, kFirstByteAtMost);
  const TimePoint answers = std::max(hangs_until_, world_.now()) + first_byte;
  const TimePoint until = std::min(answers, deadline.at());
  const bool waited = co_await SleepFor(until - world_.now());
  if (!waited) co_return Fail(Code::kTimeout, "the GET was cancelled");
  if (answers > deadline.at() || failures != failures_)
    co_return Fail(Code::kUnavailable, "S3 does not answer");
  const ByteView bytes = data_.BytesOf(request.key, request.offset, request.length);
  sink->OnAttempt();
  if (damaged_) {
    std::vector<std::byte> wrong(bytes.begin(), bytes.end());
    wrong.front() ^= std::byte{1};
    sink->OnData(wrong);
  } else {
    sink->OnData(bytes);
  }
  const auto begin = static_cast<std::uint32_t>(request.offset % data_.link().block_bytes);
  brought_[block].push_back({begin, begin + static_cast<std::uint32_t>(request.length)});
  co_return Status();
}

Task<Status> NodesS3::Get(GetRequest request, BodySink& sink, Deadline deadline) {
  if (request.stats != nullptr) request.stats->attempts = 1;
  Status got = co_await s3_.Get(node_, std::move(request), &sink, deadline);
  co_return got;
}

Task<Result<ListPage>> NodesS3::List(ListRequest, Deadline) {
  co_return Fail(Code::kInvalid, "nodes do not list");
}

Task<Result<VersionPage>> NodesS3::ListVersions(VersionsRequest, Deadline) {
  co_return Fail(Code::kInvalid, "this store keeps no versions");
}

Task<Result<ObjectHead>> NodesS3::Head(HeadRequest, Deadline deadline) {
  Result<ObjectHead> head = co_await s3_.Head(node_, deadline);
  co_return head;
}

}  // namespace forebay::sim
