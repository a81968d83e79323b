#include "tests/sim/far_s3.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/executors.h"
#include "common/model/key_rules.h"

namespace forebay::sim {
namespace {

constexpr std::uint32_t kObjectBytes = 96;
constexpr std::chrono::milliseconds kFirstByteAtLeast{15};
constexpr std::chrono::milliseconds kFirstByteAtMost{60};
const std::string kPrefix = "data/";

}  // namespace

Dataset::Dataset(std::size_t objects, std::uint32_t replicas) {
  link_.id.bytes.fill(1);
  link_.name = "data";
  link_.origin.bucket = "bucket";
  link_.origin.prefix = kPrefix;
  link_.origin.endpoint = "http://127.0.0.1:7480";
  link_.domain.bytes.fill(2);
  link_.replicas = replicas;
  for (std::size_t i = 0; i < objects; ++i) {
    BlockRequest request;
    request.link = link_.id;
    request.object =
        ObjectRef{fmt::format("{}{:06}", kPrefix, i), fmt::format("{:032x}", i), kObjectBytes};
    request.block.version =
        VersionOf(link_, request.object.key, request.object.etag, request.object.size);
    request.block.length = kObjectBytes;
    request.range = BlockRange{0, kObjectBytes};
    request.job = "job";
    requests_.push_back(std::move(request));
  }
}

std::size_t Dataset::NumberOf(const std::string& key) const {
  return std::strtoull(key.c_str() + kPrefix.size(), nullptr, 10);
}

std::vector<std::byte> Dataset::BytesOf(std::size_t i) {
  std::vector<std::byte> bytes(kObjectBytes);
  for (std::size_t at = 0; at < bytes.size(); ++at)
    bytes[at] = static_cast<std::byte>((i * 0x9E3779B1U + at * 0x85EBCA77U) >> 7U);
  return bytes;
}

bool Dataset::AreRight(std::size_t i, ByteView bytes) const {
  return std::ranges::equal(bytes, BytesOf(i));
}

Task<Status> FarS3::Get(std::string node, std::string key, BodySink* sink, Deadline deadline) {
  const std::size_t object = data_.NumberOf(key);
  ++gets_[object];
  ++all_;
  if (told_) told_(object, node);
  const Duration first_byte = world_.Between(kFirstByteAtLeast, kFirstByteAtMost);
  const TimePoint answers = std::max(hangs_until_, world_.now()) + first_byte;
  const TimePoint until = std::min(answers, deadline.at());
  const bool waited = co_await SleepFor(until - world_.now());
  if (!waited) co_return Fail(Code::kTimeout, "the GET was cancelled");
  if (answers > deadline.at()) co_return Fail(Code::kUnavailable, "S3 does not answer");
  const std::vector<std::byte> bytes = Dataset::BytesOf(object);
  sink->OnAttempt();
  sink->OnData(ByteView(bytes.data(), bytes.size()));
  co_return Status();
}

Task<Status> NodesS3::Get(GetRequest request, BodySink& sink, Deadline deadline) {
  if (request.stats != nullptr) request.stats->attempts = 1;
  Status got = co_await s3_.Get(node_, std::move(request.key), &sink, deadline);
  co_return got;
}

Task<Result<ListPage>> NodesS3::List(ListRequest, Deadline) {
  co_return Fail(Code::kInvalid, "nodes do not list");
}

Task<Result<ObjectHead>> NodesS3::Head(LinkOrigin, std::string, Deadline) {
  co_return Fail(Code::kInvalid, "nodes do not ask for heads");
}

}  // namespace forebay::sim
