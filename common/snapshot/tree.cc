#include "common/snapshot/tree.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace forebay {
namespace {

constexpr std::uint32_t kNumberMask = SnapshotTree::kMaxRows - 1;

bool IsBelow(std::string_view path, std::string_view directory) {
  return path.size() > directory.size() && path[directory.size()] == '/' &&
         path.starts_with(directory);
}

// Walks the sorted paths with a stack of open directories.
class TreeMaker {
 public:
  explicit TreeMaker(Listing& listing) : listing_(listing) {
    tree_.directories.emplace_back();
    open_.push_back(kRootDirectory);
  }

  Result<SnapshotTree> Make() {
    const auto entries = listing_.entries();
    if (entries.size() >= SnapshotTree::kMaxRows) return TooLarge();
    children_.reserve(entries.size());
    // An entry is placed when the next one that counts is known.
    std::optional<std::uint32_t> waiting;
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      listing_.Passed(i);
      const bool last_of_its_key = i + 1 == entries.size() || PathOf(i + 1) != PathOf(i);
      if (!last_of_its_key) continue;
      if (entries[i].out_of_range()) {
        listing_.Hide(PathOf(i), HiddenReason::kOutOfRange);
        continue;
      }
      if (waiting) Place(*waiting, IsBelow(PathOf(i), PathOf(*waiting)));
      waiting = i;
      if (children_.size() >= SnapshotTree::kMaxRows - 1) return TooLarge();
    }
    if (waiting) Place(*waiting, false);
    CloseDownTo(0);
    PlaceRows();
    return std::move(tree_);
  }

 private:
  std::string_view PathOf(std::uint32_t i) const { return listing_.PathOf(listing_.entries()[i]); }

  // `shadowed`: the next entry makes a directory of its name.
  void Place(std::uint32_t i, bool shadowed) {
    const ListedEntry& entry = listing_.entries()[i];
    const std::string_view path = PathOf(i);
    if (path.ends_with('/')) {
      if (entry.attributes.size() > 0) listing_.Hide(path, HiddenReason::kMarkerWithBytes);
      const std::uint32_t directory = OpenDirectoryOf(path);
      Touch(directory, entry.mtime_unix_s);
      tree_.directories[directory].marker = i;
    } else if (shadowed) {
      listing_.Hide(path, HiddenReason::kShadowedByDirectory);
    } else {
      const std::uint32_t directory = OpenDirectoryOf(path);
      Touch(directory, entry.mtime_unix_s);
      AddChild(directory, {.directory = 0, .number = i & kNumberMask});
    }
  }

  struct Child {
    std::uint32_t parent;
    SnapshotTree::Row row;
  };

  static std::unexpected<Error> TooLarge() {
    return Fail(Code::kInvalid,
                "the listing has more than 2^31 files and directories: link parts of it");
  }

  void Touch(std::uint32_t directory, std::uint32_t mtime_unix_s) {
    std::uint32_t& newest = tree_.directories[directory].mtime_unix_s;
    newest = std::max(newest, mtime_unix_s);
  }

  void AddChild(std::uint32_t parent, SnapshotTree::Row row) {
    ++tree_.directories[parent].row_count;
    children_.push_back({parent, row});
  }

  void CloseDownTo(std::size_t depth) {
    while (open_.size() > depth) {
      tree_.directories[open_.back()].end = static_cast<std::uint32_t>(tree_.directories.size());
      open_.pop_back();
    }
  }

  // Opens, and where they are new makes, the directories above the last '/' of `path`.
  std::uint32_t OpenDirectoryOf(std::string_view path) {
    std::size_t depth = open_.size();
    while (depth > 1 && !IsBelow(path, tree_.directories[open_[depth - 1]].path)) --depth;
    CloseDownTo(depth);
    const std::size_t above = depth == 1 ? 0 : tree_.directories[open_.back()].path.size() + 1;
    for (std::size_t slash = path.find('/', above); slash != std::string_view::npos;
         slash = path.find('/', slash + 1)) {
      const auto number = static_cast<std::uint32_t>(tree_.directories.size());
      AddChild(open_.back(), {.directory = 1, .number = number & kNumberMask});
      tree_.directories.push_back({.path = path.substr(0, slash), .parent = open_.back()});
      open_.push_back(number);
    }
    return open_.back();
  }

  void PlaceRows() {
    auto& directories = tree_.directories;
    std::uint32_t next = 1;  // row 0 is the root
    for (auto& directory : directories) {
      directory.first_row = next;
      next += directory.row_count;
    }
    for (std::size_t d = directories.size() - 1; d > 0; --d) {
      Touch(directories[d].parent, directories[d].mtime_unix_s);
    }
    tree_.rows.resize(next);
    tree_.rows[0] = {.directory = 1, .number = kRootDirectory};
    std::vector<std::uint32_t> filled(directories.size(), 0);
    for (const Child& child : children_) {
      const std::uint32_t row = directories[child.parent].first_row + filled[child.parent]++;
      tree_.rows[row] = child.row;
      if (child.row.directory != 0) directories[child.row.number].row = row;
    }
  }

  Listing& listing_;
  SnapshotTree tree_;
  std::vector<std::uint32_t> open_;  // from the root down
  std::vector<Child> children_;      // in the order of the walk
};

}  // namespace

std::optional<std::uint32_t> SnapshotTree::EntryOf(std::uint32_t row) const {
  const Row what = rows[row];
  if (what.directory == 0) return what.number;
  const std::uint32_t marker = directories[what.number].marker;
  return marker == kNoMarker ? std::nullopt : std::optional(marker);
}

std::string_view SnapshotTree::PathOf(const Listing& listing, std::uint32_t row) const {
  const Row what = rows[row];
  return what.directory != 0 ? directories[what.number].path
                             : listing.PathOf(listing.entries()[what.number]);
}

std::string_view SnapshotTree::NameOf(const Listing& listing, std::uint32_t row) const {
  const std::string_view path = PathOf(listing, row);
  return path.substr(path.rfind('/') + 1);  // npos + 1 = 0
}

Result<SnapshotTree> BuildTree(Listing& listing) { return TreeMaker(listing).Make(); }

}  // namespace forebay
