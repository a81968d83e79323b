#include "fuse-client/control_files.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "common/base/wall_clock.h"

namespace forebay {

// Ids begin at the time of start: a successor process that takes over the mount never gives an id
// again that the kernel still holds from its predecessor (up to 2^20 renderings a millisecond).
ControlFiles::ControlFiles(std::vector<File> files)
    : files_(std::move(files)),
      next_nodeid_(kControlNodeidBit | (static_cast<std::uint64_t>(UnixMilliseconds()) << 20)) {}

const ControlFiles::File* ControlFiles::FileOf(std::string_view name) const {
  const auto file = std::ranges::find(files_, name, &File::name);
  return file == files_.end() ? nullptr : &*file;
}

bool ControlFiles::IsSlow(std::string_view name) const {
  const File* file = FileOf(name);
  return file != nullptr && file->render_slowly != nullptr;
}

Result<ControlFiles::Rendering> ControlFiles::Lookup(std::string_view name) {
  const File* file = FileOf(name);
  if (file == nullptr) return Fail(Code::kNotFound, "there is no such control file");
  Slice slice;
  if (file->render_slowly) {
    Result<Slice> rendered = file->render_slowly();
    if (!rendered) return Fail(rendered.error());
    slice = std::move(*rendered);
  } else {
    auto text = std::make_shared<const std::string>(file->render());
    const ByteView bytes = std::as_bytes(std::span(*text));
    slice = Slice{std::move(text), bytes};
  }
  std::scoped_lock lock(mutex_);
  const Rendering rendering{next_nodeid_++, slice.bytes.size(), UnixSeconds()};
  texts_.emplace(rendering.nodeid, Text{rendering, std::move(slice)});
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
