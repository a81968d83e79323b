#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/model/block_source.h"
#include "common/model/limits.h"
#include "common/model/link.h"

namespace forebay::sim {

/// The link that everybody reads: objects whose bytes follow from their number. Immutable.
class Dataset {
 public:
  struct Shape {
    std::size_t objects = 48;
    std::uint32_t replicas = 1;
    std::uint32_t object_bytes = 96;
    std::uint64_t block_bytes = kDefaultBlockBytes;
  };
  explicit Dataset(Shape shape);

  const LinkSpec& link() const { return link_; }
  std::size_t objects() const { return bytes_.size(); }
  std::uint32_t object_bytes() const { return object_bytes_; }
  std::string KeyOf(std::size_t object) const;
  std::string EtagOf(std::size_t object) const;

  /// Blocks are numbered, object after object.
  std::size_t size() const { return requests_.size(); }
  /// For all bytes of block `i`.
  const BlockRequest& RequestFor(std::size_t i) const { return requests_[i]; }
  /// Of the block that holds the object's byte at `offset`.
  std::size_t NumberOf(const std::string& key, std::uint64_t offset) const;
  /// Of the object's bytes; the range lies inside.
  ByteView BytesOf(const std::string& key, std::uint64_t offset, std::uint64_t length) const;

 private:
  std::size_t ObjectOf(const std::string& key) const;

  LinkSpec link_;
  std::uint32_t object_bytes_;
  std::size_t blocks_of_object_;
  std::vector<BlockRequest> requests_;
  std::vector<std::vector<std::byte>> bytes_;  // by object
};

}  // namespace forebay::sim
