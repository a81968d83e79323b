#include "fuse-client/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <iterator>
#include <optional>
#include <utility>

namespace forebay {

namespace {

/// What stands in a path before that from the root of a mount of `directory`.
Result<std::string> RootOf(const Snapshot& snapshot, std::uint32_t directory) {
  const std::optional<SnapshotDirectory> root = snapshot.DirectoryAt(directory);
  if (!root) return Fail(Code::kCorrupt, "the local copy of the listing is damaged; mount again");
  return root->path.empty() ? std::string() : std::string(root->path) + "/";
}

Status WriteManifest(const Snapshot& snapshot, std::uint32_t directory,
                     const LargeText::Sink& sink) {
  const Result<std::string> root = RootOf(snapshot, directory);
  if (!root) return Fail(root.error());
  return snapshot.ForEachFile(directory, [&](const SnapshotRow& row, std::string_view path) {
    path.remove_prefix(std::min(root->size(), path.size()));
    return sink(ManifestLine(path, row.size));
  });
}

Status WriteAttributes(const Snapshot& snapshot, std::uint32_t directory,
                       const LargeText::Sink& sink) {
  const Result<std::string> root = RootOf(snapshot, directory);
  if (!root) return Fail(root.error());
  return snapshot.ForEachLine([&](const SnapshotRow& row, std::string_view json) {
    const std::string path = snapshot.PathOf(row);
    if (!path.starts_with(*root)) return true;
    return sink(AttributesLine(std::string_view(path).substr(root->size()), json));
  });
}

}  // namespace

std::string ManifestLine(std::string_view path, std::uint64_t size) {
  std::string line = std::to_string(size);
  line.push_back('\t');
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\\') {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
    } else {
      line.push_back(c);
    }
  }
  line.push_back('\n');
  return line;
}

std::string AttributesLine(std::string_view path, std::string_view json) {
  return fmt::format("{{\"path\":{},\"attributes\":{}}}\n",
                     boost::json::serialize(boost::json::string(path)), json);
}

std::shared_ptr<LargeText> MakeManifest(std::shared_ptr<const Snapshot> snapshot,
                                        std::uint32_t directory, std::string folder) {
  auto write = [snapshot = std::move(snapshot), directory](const LargeText::Sink& sink) {
    return WriteManifest(*snapshot, directory, sink);
  };
  return std::make_shared<LargeText>(std::move(folder), "manifest", std::move(write));
}

std::shared_ptr<LargeText> MakeAttributes(std::shared_ptr<const Snapshot> snapshot,
                                          std::uint32_t directory, std::string folder) {
  auto write = [snapshot = std::move(snapshot), directory](const LargeText::Sink& sink) {
    return WriteAttributes(*snapshot, directory, sink);
  };
  return std::make_shared<LargeText>(std::move(folder), "attributes.jsonl", std::move(write));
}

}  // namespace forebay
