#pragma once

#include <cstdint>
#include <string>

#include "common/model/block_id.h"
#include "common/model/block_source.h"
#include "common/model/link.h"
#include "common/model/object_version.h"
#include "tests/fakes/sample_link.h"

namespace forebay::testing {

/// Of each block of a trace, which is an object of its own.
inline constexpr std::uint32_t kTraceBlockBytes = 4096;

inline Uuid LinkIdOf(std::uint32_t link) {
  Uuid id;
  id.bytes[0] = static_cast<std::uint8_t>(link + 1);
  return id;
}

inline LinkSpec LinkOf(std::uint32_t link) {
  LinkSpec spec;
  spec.id = LinkIdOf(link);
  spec.name = "link" + std::to_string(link);
  spec.origin.bucket = "bucket";
  spec.origin.endpoint = "http://127.0.0.1:7480";
  spec.block_bytes = kTraceBlockBytes;
  return spec;
}

inline ObjectRef ObjectOf(std::uint32_t block) {
  const std::string key = "b" + std::to_string(block);
  return {key, fakes::SampleLink::EtagOf(key), kTraceBlockBytes};
}

inline BlockId IdOf(std::uint32_t block) {
  const ObjectRef object = ObjectOf(block);
  const ObjectVersion version = VersionOf(LinkOf(0), object.key, object.etag, object.size);
  return BlockAt(version, object.size, kTraceBlockBytes, 0);
}

}  // namespace forebay::testing
