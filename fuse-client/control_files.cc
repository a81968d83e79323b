#include "fuse-client/control_files.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/wall_clock.h"

namespace forebay {

// Ids begin at the time of start: a successor process that takes over the mount never gives an id
// again that the kernel still holds from its predecessor (up to 2^24 renderings a second).
ControlFiles::ControlFiles(std::vector<File> files)
    : files_(std::move(files)),
      next_nodeid_(kControlNodeidBit | (static_cast<std::uint64_t>(UnixSeconds()) << 24)) {}

std::optional<ControlFiles::Rendering> ControlFiles::Lookup(std::string_view name) {
  const auto file = std::find_if(files_.begin(), files_.end(),
                                 [&](const File& candidate) { return candidate.name == name; });
  if (file == files_.end()) return std::nullopt;
  auto text = std::make_shared<const std::string>(file->render());
  const ByteView bytes = std::as_bytes(std::span(*text));
  std::scoped_lock lock(mutex_);
  const Rendering rendering{next_nodeid_++, bytes.size(), UnixSeconds()};
  texts_.emplace(rendering.nodeid, Text{rendering, Slice{std::move(text), bytes}});
  return rendering;
}

std::optional<ControlFiles::Rendering> ControlFiles::Find(std::uint64_t nodeid) const {
  std::scoped_lock lock(mutex_);
  const auto it = texts_.find(nodeid);
  if (it == texts_.end()) return std::nullopt;
  return it->second.rendering;
}

std::optional<Slice> ControlFiles::Read(std::uint64_t nodeid) const {
  std::scoped_lock lock(mutex_);
  const auto it = texts_.find(nodeid);
  if (it == texts_.end()) return std::nullopt;
  return it->second.bytes;
}

// A rendering is answered to exactly one lookup, so the first forget is the last.
void ControlFiles::Forget(std::uint64_t nodeid) {
  std::scoped_lock lock(mutex_);
  texts_.erase(nodeid);
}

std::size_t ControlFiles::renderings() const {
  std::scoped_lock lock(mutex_);
  return texts_.size();
}

}  // namespace forebay
