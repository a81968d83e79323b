#include "common/snapshot/nodeids.h"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
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
        nodeids_(tree.rows.size(), 0) {}

  Result<Nodeids> Assign() {
    nodeids_[0] = kRootNodeid;
    if (options_.previous != nullptr) KeepPrevious();
    std::vector<std::uint32_t> fresh;
    for (std::uint32_t row = 1; row < nodeids_.size(); ++row) {
      if (nodeids_[row] != 0) continue;
      nodeids_[row] = Candidate(row, 0);
      fresh.push_back(row);
    }
    SortRows();
    if (Status status = Separate(fresh); !status) return Fail(status.error());
    Nodeids done{.by_row = std::move(nodeids_), .ascending = {}};
    done.ascending.reserve(sorted_.size());
    for (const auto& [nodeid, row] : sorted_) done.ascending.push_back(row);
    return done;
  }

 private:
  // Walks both generations side by side; directories come before what they hold.
  void KeepPrevious() {
    const Snapshot& previous = *options_.previous;
    std::vector<std::optional<std::uint32_t>> there(tree_.directories.size());
    there[kRootDirectory] = kRootDirectory;
    for (std::size_t d = 0; d < tree_.directories.size(); ++d) {
      const auto& directory = tree_.directories[d];
      if (!there[d]) continue;
      for (std::uint32_t i = 0; i < directory.row_count; ++i) {
        const std::uint32_t row = directory.first_row + i;
        const auto old = previous.Lookup(*there[d], tree_.NameOf(listing_, row));
        if (!old || !IsUnchanged(row, *old)) continue;
        nodeids_[row] = old->nodeid;
        if (old->is_directory()) there[tree_.rows[row].number] = old->directory;
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
           listing_.EtagOf(entry) == options_.previous->EtagOf(old);
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
                                                        .key = KeyAtPath(options_.prefix, path),
                                                        .etag = listing_.EtagOf(entry),
                                                        .size = entry.attributes.size()});
    const std::uint64_t words[2] = {version.high, version.low};
    const std::uint64_t hash = XXH3_64bits_withSeed(words, sizeof words, salt) & mask_;
    return kFirstFileNodeid + hash % (kDirectoryNodeidBit - kFirstFileNodeid);
  }

  void SortRows() {
    sorted_.clear();
    sorted_.reserve(nodeids_.size());
    for (std::uint32_t row = 0; row < nodeids_.size(); ++row) {
      sorted_.emplace_back(nodeids_[row], row);
    }
    std::ranges::sort(sorted_);
  }

  // True when a row other than `row` had or has `nodeid`. A fresh row must also leave alone what a
  // row of the previous generation had: the kernel may still know it by that number.
  bool IsTaken(std::uint64_t nodeid) const {
    const auto at =
        std::ranges::lower_bound(sorted_, nodeid, {}, [](const auto& p) { return p.first; });
    return (at != sorted_.end() && at->first == nodeid) || WasTaken(nodeid);
  }
  bool WasTaken(std::uint64_t nodeid) const {
    return options_.previous != nullptr && options_.previous->FindNodeid(nodeid).has_value();
  }

  // Hashes those fresh rows again that are not alone with their nodeid, and sorts again.
  Status Separate(const std::vector<std::uint32_t>& fresh) {
    std::vector<std::uint32_t> clashing;
    for (const std::uint32_t row : fresh) {
      if (WasTaken(nodeids_[row]) || !OwnsNodeid(row)) clashing.push_back(row);
    }
    if (clashing.empty()) return {};
    std::set<std::uint64_t> added;
    for (const std::uint32_t row : clashing) {
      std::uint64_t salt = 1;
      std::uint64_t nodeid = Candidate(row, salt);
      while (IsTaken(nodeid) || added.contains(nodeid)) {
        if (++salt == kMaxSalt) {
          return Fail(Code::kInternal, "no free nodeid for '" +
                                           std::string(tree_.PathOf(listing_, row)) + "' in " +
                                           std::to_string(options_.nodeid_bits) + " bits");
        }
        nodeid = Candidate(row, salt);
      }
      nodeids_[row] = nodeid;
      added.insert(nodeid);
    }
    SortRows();
    return {};
  }

  // Of the rows with one nodeid the first fresh one owns it; a kept row is not in `previous` twice,
  // and a fresh row that meets it is WasTaken.
  bool OwnsNodeid(std::uint32_t row) const {
    const auto at = std::ranges::lower_bound(sorted_, std::pair(nodeids_[row], row));
    return at == sorted_.begin() || std::prev(at)->first != nodeids_[row];
  }

  const SnapshotOptions& options_;
  const Listing& listing_;
  const SnapshotTree& tree_;
  const std::uint64_t mask_;
  std::vector<std::uint64_t> nodeids_;  // by row; 0 = none yet
  std::vector<std::pair<std::uint64_t, std::uint32_t>> sorted_;
  std::string text_;
};

}  // namespace

Result<Nodeids> AssignNodeids(const SnapshotOptions& options, const Listing& listing,
                              const SnapshotTree& tree) {
  return Assigner(options, listing, tree).Assign();
}

}  // namespace forebay
