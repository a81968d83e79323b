#include "common/snapshot/nodeids.h"

#include <xxhash.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "common/model/object_version.h"

namespace forebay {
namespace {

constexpr std::uint64_t kMaxSalt = 1 << 16;

class Assigner {
 public:
  Assigner(const SnapshotOptions& options, const Listing& listing, const SnapshotTree& tree)
      : options_(options),
        listing_(listing),
        tree_(tree),
        mask_((1ULL << options.nodeid_bits) - 1),
        nodeids_{.by_row = std::vector<std::uint64_t>(tree.rows.size(), 0),
                 .slots = std::vector<std::uint32_t>(SnapshotSlots(tree.rows.size()), 0)} {}

  // What is kept comes first, so that nothing fresh can take its nodeid.
  Result<Nodeids> Assign() {
    nodeids_.by_row[0] = kRootNodeid;
    if (options_.previous != nullptr) KeepPrevious();
    for (std::uint32_t row = 1; row < tree_.rows.size(); ++row) {
      listing_.Passed(row);
      if (nodeids_.by_row[row] != 0) continue;
      std::uint64_t salt = 0;
      while (!TryGive(row, Candidate(row, salt))) {
        if (++salt == kMaxSalt) {
          return Fail(Code::kInternal, "no free nodeid for '" +
                                           std::string(tree_.PathOf(listing_, row)) + "' in " +
                                           std::to_string(options_.nodeid_bits) + " bits");
        }
      }
    }
    return std::move(nodeids_);
  }

 private:
  // Walks both generations side by side; directories come before what they hold.
  void KeepPrevious() {
    const Snapshot& previous = *options_.previous;
    std::vector<std::optional<std::uint32_t>> there(tree_.directories.size());
    there[kRootDirectory] = kRootDirectory;
    for (std::size_t d = 0; d < tree_.directories.size(); ++d) {
      if (!there[d]) continue;
      const auto& directory = tree_.directories[d];
      // Both are in byte order of their names.
      DirectoryCursor old = previous.ReadDirectory(*there[d]);
      bool has_old = old.Next();
      for (std::uint32_t i = 0; i < directory.row_count && has_old; ++i) {
        const std::uint32_t row = directory.first_row + i;
        listing_.Passed(row);
        const std::string_view name = tree_.NameOf(listing_, row);
        while (has_old && old.name() < name) has_old = old.Next();
        if (!has_old || old.name() != name || !IsUnchanged(row, old.row())) continue;
        Keep(row, old.row().nodeid);
        if (old.row().is_directory()) there[tree_.rows[row].number] = old.row().directory;
      }
    }
  }

  bool IsUnchanged(std::uint32_t row, const SnapshotRow& old) const {
    const SnapshotTree::Row what = tree_.rows[row];
    if (what.directory != 0 || old.is_directory()) {
      return what.directory != 0 && old.is_directory();
    }
    const ListedEntry& entry = listing_.entries()[what.number];
    return entry.attributes.size() == old.size &&
           listing_.StoredEtagOf(entry) == options_.previous->StoredEtagOf(old);
  }

  std::string_view KeyOf(std::string_view path) {
    if (IsSingleObjectPrefix(options_.prefix)) return options_.prefix;
    text_.assign(options_.prefix).append(path);
    return text_;
  }

  std::uint64_t Candidate(std::uint32_t row, std::uint64_t salt) {
    const std::string_view path = tree_.PathOf(listing_, row);
    if (tree_.rows[row].directory != 0) {
      text_.assign(reinterpret_cast<const char*>(options_.domain.bytes.data()),
                   options_.domain.bytes.size());
      text_.append(path);
      return kDirectoryNodeidBit | (XXH3_64bits_withSeed(text_.data(), text_.size(), salt) & mask_);
    }
    const ListedEntry& entry = listing_.entries()[tree_.rows[row].number];
    const ObjectVersion version = ComputeObjectVersion({.domain = options_.domain,
                                                        .endpoint = options_.endpoint,
                                                        .bucket = options_.bucket,
                                                        .key = KeyOf(path),
                                                        .etag = listing_.EtagOf(entry),
                                                        .size = entry.attributes.size()});
    const std::uint64_t words[2] = {version.high, version.low};
    const std::uint64_t hash = XXH3_64bits_withSeed(words, sizeof words, salt) & mask_;
    return kFirstFileNodeid + hash % (kDirectoryNodeidBit - kFirstFileNodeid);
  }

  // The slot of `nodeid`, or where it would be.
  std::uint64_t SlotOf(std::uint64_t nodeid) const {
    const std::uint64_t slots = nodeids_.slots.size();
    std::uint64_t slot = SnapshotNodeidSlot(nodeid, slots);
    while (nodeids_.slots[slot] != 0 && nodeids_.by_row[nodeids_.slots[slot]] != nodeid) {
      slot = slot + 1 == slots ? 0 : slot + 1;
    }
    return slot;
  }

  // No other row of the previous generation has it: who is in the slots need not be looked up.
  void Keep(std::uint32_t row, std::uint64_t nodeid) {
    const std::uint64_t slots = nodeids_.slots.size();
    std::uint64_t slot = SnapshotNodeidSlot(nodeid, slots);
    while (nodeids_.slots[slot] != 0) slot = slot + 1 == slots ? 0 : slot + 1;
    nodeids_.by_row[row] = nodeid;
    nodeids_.slots[slot] = row;
  }

  // A fresh row must also leave alone what any row of the previous generation had: the kernel may
  // still know that row by it.
  bool TryGive(std::uint32_t row, std::uint64_t nodeid) {
    const std::uint64_t slot = SlotOf(nodeid);
    if (nodeids_.slots[slot] != 0) return false;
    if (options_.previous != nullptr && options_.previous->FindNodeid(nodeid)) return false;
    nodeids_.by_row[row] = nodeid;
    nodeids_.slots[slot] = row;
    return true;
  }

  const SnapshotOptions& options_;
  const Listing& listing_;
  const SnapshotTree& tree_;
  const std::uint64_t mask_;
  Nodeids nodeids_;
  std::string text_;
};

}  // namespace

Result<Nodeids> AssignNodeids(const SnapshotOptions& options, const Listing& listing,
                              const SnapshotTree& tree) {
  return Assigner(options, listing, tree).Assign();
}

}  // namespace forebay
