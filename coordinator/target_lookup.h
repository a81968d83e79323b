#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"
#include "coordinator/link_registry.h"
#include "coordinator/namespace_index.h"

namespace forebay {

/// A target that exists: a row of a complete snapshot.
struct LocatedTarget {
  LinkSpec link;
  std::string path;  ///< From the link's root, no slash at the ends; "" = the whole link.
  std::shared_ptr<const Snapshot> snapshot;
  SnapshotRow row;
};

/// Finds a TARGET in the current generation of its link. kNotFound, kInvalid: as ResolveTarget, or
/// nothing is there; kUnavailable: the link is still being listed.
Result<LocatedTarget> LocateTarget(const std::string& target, const LinkRegistry& links,
                                   const NamespaceIndex& index);

/// What a request is about: one target, or the parts of a set.
struct LocatedTargets {
  std::string name;  ///< Of the link, or of the set.
  bool is_set = false;
  std::vector<LocatedTarget> all;  ///< One at least.
};

/// As LocateTarget; of a set all parts, or why one of them fails.
Result<LocatedTargets> LocateTargets(const std::string& target, const LinkRegistry& links,
                                     const NamespaceIndex& index);

}  // namespace forebay
