#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// What a mount shows at one moment: the current generation, and those before it whose nodes
/// programs may still hold. Immutable.
struct GenerationView {
  std::shared_ptr<const Snapshot> snapshot;
  SnapshotRow root;                                      ///< The mount's root in `snapshot`.
  std::vector<std::shared_ptr<const Snapshot>> earlier;  ///< Newest first.

  struct Found {
    const Snapshot* snapshot = nullptr;
    SnapshotRow row;
    bool current = false;  ///< Of the current generation, not of an earlier one.
  };
  /// A node of the current generation, or else of the latest earlier one that has it: a file that
  /// was open goes on being the version that it was. `kRoot` is the mount's root.
  std::optional<Found> Find(std::uint64_t nodeid) const;

  static constexpr std::uint64_t kRoot = 1;
};

/// The generations of a mount's link, one after the other. Thread-safe: readers take the view of
/// the moment and keep it for as long as they need one; one thread at a time switches.
class Generations {
 public:
  /// Of so many generations before the current one nodes are still known; whoever has had a file
  /// open for longer gets ESTALE.
  static constexpr std::size_t kEarlierKept = 8;

  /// `sub_path` is the directory that is the mount's root, "" = the link's own. kNotFound,
  /// kInvalid: no such directory, or a file.
  static Result<std::unique_ptr<Generations>> Make(std::shared_ptr<const Snapshot> snapshot,
                                                   std::string_view sub_path);

  std::shared_ptr<const GenerationView> view() const {
    return view_.load(std::memory_order_acquire);
  }

  /// From now on `next` is shown. Errors as Make's: the mount's root is not in it; nothing changes
  /// then.
  Status Switch(std::shared_ptr<const Snapshot> next);

 private:
  Generations(std::shared_ptr<const GenerationView> view, std::string_view sub_path)
      : sub_path_(sub_path), view_(std::move(view)) {}

  const std::string sub_path_;
  std::atomic<std::shared_ptr<const GenerationView>> view_;
};

}  // namespace forebay
