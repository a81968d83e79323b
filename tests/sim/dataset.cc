#include "tests/sim/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace forebay::sim {
namespace {

const std::string kPrefix = "data/";

std::vector<std::byte> MakeBytes(std::size_t object, std::uint32_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t at = 0; at < bytes.size(); ++at)
    bytes[at] = static_cast<std::byte>((object * 0x9E3779B1U + at * 0x85EBCA77U) >> 7U);
  return bytes;
}

}  // namespace

Dataset::Dataset(Shape shape)
    : object_bytes_(shape.object_bytes),
      blocks_of_object_((shape.object_bytes + shape.block_bytes - 1) / shape.block_bytes) {
  link_.id.bytes.fill(1);
  link_.name = "data";
  link_.origin.bucket = "bucket";
  link_.origin.prefix = kPrefix;
  link_.origin.endpoint = "http://127.0.0.1:7480";
  link_.domain.bytes.fill(2);
  link_.replicas = shape.replicas;
  link_.block_bytes = shape.block_bytes;
  for (std::size_t object = 0; object < shape.objects; ++object) {
    bytes_.push_back(MakeBytes(object, object_bytes_));
    BlockRequest request;
    request.link = link_.id;
    request.object = ObjectRef{KeyOf(object), EtagOf(object), object_bytes_};
    request.job = "job";
    const ObjectVersion version =
        VersionOf(link_, request.object.key, request.object.etag, request.object.size);
    for (std::uint64_t at = 0; at < object_bytes_; at += shape.block_bytes) {
      request.block = BlockAt(version, object_bytes_, shape.block_bytes, at);
      request.range = BlockRange{0, request.block.length};
      requests_.push_back(request);
    }
  }
}

std::string Dataset::KeyOf(std::size_t object) const {
  return fmt::format("{}{:06}", kPrefix, object);
}

std::string Dataset::EtagOf(std::size_t object) const { return fmt::format("{:032x}", object); }

std::size_t Dataset::ObjectOf(const std::string& key) const {
  return std::strtoull(key.c_str() + kPrefix.size(), nullptr, 10);
}

std::size_t Dataset::NumberOf(const std::string& key, std::uint64_t offset) const {
  return ObjectOf(key) * blocks_of_object_ + offset / link_.block_bytes;
}

ByteView Dataset::BytesOf(const std::string& key, std::uint64_t offset,
                          std::uint64_t length) const {
  return ByteView(bytes_[ObjectOf(key)]).subspan(offset, length);
}

}  // namespace forebay::sim
