#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/buffer.h"
#include "common/model/object_version.h"
#include "common/snapshot/snapshot.h"
#include "proto/coordinator.pb.h"

namespace forebay::fakes {

/// A made-up link: keys with sizes, and bytes that follow from key and offset, so that every fake
/// and every test knows them without storing any.
class SampleLink {
 public:
  SampleLink(std::string name, std::map<std::string, std::uint64_t> sizes_by_key,
             std::uint64_t block_bytes = 4 << 20);

  /// Builds the snapshot file of `generation` at `path`, behind `previous` where there is one.
  void BuildSnapshot(const std::string& path, std::uint64_t generation = 1,
                     std::shared_ptr<const Snapshot> previous = nullptr);
  /// For the next generation.
  void Put(const std::string& key, std::uint64_t size) { sizes_[key] = size; }
  void Erase(const std::string& key) { sizes_.erase(key); }
  std::shared_ptr<const Snapshot> OpenSnapshot(const std::string& path) const;

  /// What a coordinator says of it, after BuildSnapshot.
  proto::LinkState State() const;

  const std::string& name() const { return name_; }
  const std::map<std::string, std::uint64_t>& sizes() const { return sizes_; }
  std::uint64_t block_bytes() const { return block_bytes_; }
  Uuid id() const { return id_; }

  static std::byte ByteAt(std::string_view key, std::uint64_t offset);
  static std::shared_ptr<const Buffer> Bytes(std::string_view key, std::uint64_t offset,
                                             std::size_t size);
  static std::string EtagOf(std::string_view key);

 private:
  std::string name_;
  std::map<std::string, std::uint64_t> sizes_;
  std::uint64_t block_bytes_;
  Uuid id_ = Uuid::Random();
  Uuid domain_ = Uuid::Random();
  proto::LinkState state_;
};

}  // namespace forebay::fakes
