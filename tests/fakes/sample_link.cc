#include "tests/fakes/sample_link.h"

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <utility>

#include "common/snapshot/snapshot_builder.h"

namespace forebay::fakes {

namespace {

std::uint64_t HashOf(std::string_view key) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

SampleLink::SampleLink(std::string name, std::map<std::string, std::uint64_t> sizes_by_key,
                       std::uint64_t block_bytes)
    : name_(std::move(name)), sizes_(std::move(sizes_by_key)), block_bytes_(block_bytes) {}

std::byte SampleLink::ByteAt(std::string_view key, std::uint64_t offset) {
  const std::uint64_t mixed = (HashOf(key) + offset / 8) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::byte>(mixed >> (8 * (offset % 8)));
}

std::shared_ptr<const Buffer> SampleLink::Bytes(std::string_view key, std::uint64_t offset,
                                                std::size_t size) {
  auto buffer = std::make_shared<Buffer>(size);
  const std::uint64_t hash = HashOf(key);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t at = offset + i;
    buffer->data()[i] =
        static_cast<std::byte>(((hash + at / 8) * 0x9E3779B97F4A7C15ULL) >> (8 * (at % 8)));
  }
  return buffer;
}

std::string SampleLink::EtagOf(std::string_view key) {
  return fmt::format("{:016x}{:016x}", HashOf(key), HashOf(key) * 31);
}

void SampleLink::BuildSnapshot(const std::string& path, std::uint64_t generation,
                               std::shared_ptr<const Snapshot> previous) {
  SnapshotOptions options;
  options.id = {id_, generation};
  options.domain = domain_;
  options.endpoint = "http://127.0.0.1:1";
  options.bucket = "bucket";
  options.block_bytes = block_bytes_;
  options.listed_unix_s = 1'700'000'000;
  options.previous = std::move(previous);
  SnapshotBuilder builder(options, path);
  for (const auto& [key, size] : sizes_) {
    const std::string etag = EtagOf(key);
    const bool archived = key.starts_with("glacier/");
    const Status added = builder.Add({key, size, etag, 1'600'000'000, archived});
    if (!added) throw std::runtime_error(added.error().message);
  }
  const Result<FinishedSnapshot> finished = builder.Finish();
  if (!finished) throw std::runtime_error(finished.error().message);
  state_.mutable_spec()->set_id(id_.bytes.data(), id_.bytes.size());
  state_.mutable_spec()->set_name(name_);
  state_.mutable_spec()->set_block_bytes(block_bytes_);
  state_.set_state(1);
  proto::GenerationInfo& info = *state_.mutable_generation();
  info.set_generation(generation);
  info.set_snapshot_bytes(finished->file_bytes);
  info.set_digest_high(finished->digest.high);
  info.set_digest_low(finished->digest.low);
  info.set_objects(finished->totals.objects);
  info.set_bytes(finished->totals.bytes);
}

std::shared_ptr<const Snapshot> SampleLink::OpenSnapshot(const std::string& path) const {
  Result<std::shared_ptr<const Snapshot>> snapshot = Snapshot::Open(path);
  if (!snapshot) throw std::runtime_error(snapshot.error().message);
  return *snapshot;
}

proto::LinkState SampleLink::State() const { return state_; }

}  // namespace forebay::fakes
