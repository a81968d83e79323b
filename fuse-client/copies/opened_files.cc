#include "fuse-client/copies/opened_files.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>
#include <utility>

namespace forebay {

void TakeKeptOpen(std::string_view name, const Kept& kept, std::vector<KeptOpen>& opened) {
  name.remove_prefix(kOpenedKeys.size());
  KeptOpen found;
  std::from_chars(name.data(), name.data() + name.size(), found.handle, 16);
  std::istringstream value(kept.value);
  value >> found.nodeid >> found.backing >> found.damaged;
  if (value && found.handle != 0) opened.push_back(found);
}

OpenedFiles::OpenedFiles(Kernel kernel, const Keeper& keeper, std::uint32_t connection)
    : kernel_(std::move(kernel)), keeper_(keeper), connection_(connection) {}

void OpenedFiles::Restore(const std::vector<KeptOpen>& opened) {
  const std::scoped_lock lock(mutex_);
  for (const KeptOpen& kept : opened) {
    File& file = files_[kept.nodeid];
    file.backing = kept.backing;
    file.damaged = file.damaged || kept.damaged;
    file.handles.insert(kept.handle);
    nodeids_[kept.handle] = kept.nodeid;
  }
}

// The slash ends the number, so that no key is the beginning of another one's.
std::string OpenedFiles::KeyOf(std::uint64_t handle) const {
  return ConnectionKey(connection_) + fmt::format("{}{:016x}/", kOpenedKeys, handle);
}

void OpenedFiles::Keep(std::uint64_t nodeid, std::uint64_t handle, const File& file) const {
  keeper_.Keep(KeyOf(handle), fmt::format("{} {} {:d}", nodeid, file.backing, file.damaged));
}

/// With mutex_ held. The successor is told before the kernel is.
Result<std::int32_t> OpenedFiles::Join(std::uint64_t nodeid, std::uint64_t handle, File& file) {
  if (file.damaged) {
    return Fail(Code::kCorrupt,
                "the copy that the kernel reads this file from is damaged, and programs still have "
                "it open; it can be opened again when they have closed it");
  }
  if (file.handles.insert(handle).second) {
    nodeids_[handle] = nodeid;
    Keep(nodeid, handle, file);
  }
  return file.backing;
}

// The copy is looked for without the lock: what is found damaged is marked here.
Result<std::int32_t> OpenedFiles::Open(std::uint64_t nodeid, std::uint64_t handle,
                                       const FindCopy& find) {
  {
    const std::scoped_lock lock(mutex_);
    const auto open = files_.find(nodeid);
    if (open != files_.end()) return Join(nodeid, handle, open->second);
  }
  std::int32_t backing = 0;
  if (const Result<OwnedFd> copy = find()) {
    backing = kernel_.open_backing(copy->get()).value_or(0);
  }
  const std::scoped_lock lock(mutex_);
  const auto [open, first] = files_.try_emplace(nodeid);
  if (first) {
    open->second.backing = backing;
  } else if (backing != 0) {
    kernel_.close_backing(backing);  // somebody else was faster
  }
  return Join(nodeid, handle, open->second);
}

// What is kept goes first: a successor that believes in a backing file that the kernel has closed
// would have opens fail.
void OpenedFiles::Close(std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = nodeids_.find(handle);
  if (found == nodeids_.end()) return;  // not ours, or closed before
  keeper_.Drop(KeyOf(handle));
  const auto file = files_.find(found->second);
  nodeids_.erase(found);
  file->second.handles.erase(handle);
  if (!file->second.handles.empty()) return;
  if (file->second.backing != 0) kernel_.close_backing(file->second.backing);
  files_.erase(file);
}

void OpenedFiles::MarkDamaged(std::uint64_t nodeid) {
  const std::scoped_lock lock(mutex_);
  const auto found = files_.find(nodeid);
  if (found == files_.end() || found->second.backing == 0) return;
  found->second.damaged = true;
  for (const std::uint64_t handle : found->second.handles) Keep(nodeid, handle, found->second);
}

std::uint64_t OpenedFiles::by_passthrough() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = 0;
  for (const auto& [nodeid, file] : files_) count += file.backing != 0 ? 1 : 0;
  return count;
}

}  // namespace forebay
