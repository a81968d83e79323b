#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fuse-client/copies/opened_files.h"
#include "fuse-client/fuse_session.h"
#include "fuse-client/kernel_inodes.h"
#include "fuse-client/namespace_snapshot.h"
#include "fuse-client/order/kept_orders.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/keeper.h"
#include "proto/handover.pb.h"

namespace forebay {

/// A mount that an earlier process has made and this one goes on with.
struct InheritedMount {
  proto::KeptMount mount;
  OwnedFd fd;
  std::uint32_t connection = 0;
  std::string first_message;
  /// Those whose nodes the kernel may know, oldest first; the last is shown. Unless it is the top.
  std::vector<MountedNamespace> generations;
  /// The generation that the kernel was last told the changes of.
  std::uint64_t announced = 0;
  std::string stats;      ///< MountStats::Save.
  OwnedFd kernel_inodes;  ///< KernelInodes::file; none: of an earlier release.
  std::vector<KeptOrder> orders;
  std::vector<KeptOpen> opened;
  std::string copy_counts;  ///< LinkCopies::Save.
};

/// All that the keeper has, taken out of it. What cannot be read is dropped there and said.
std::vector<InheritedMount> TakeInheritedMounts(Keeper& keeper);

// The entries of a mount, by which TakeInheritedMounts finds it.

void KeepMount(const Keeper& keeper, std::uint32_t connection, const proto::KeptMount& mount,
               int fd);
void KeepFirstMessage(const Keeper& keeper, std::uint32_t connection, std::string_view message);
/// With its listing, as a descriptor: on disk it makes room for later ones.
void KeepGeneration(const Keeper& keeper, std::uint32_t connection, const MountedNamespace& found);
void DropGeneration(const Keeper& keeper, std::uint32_t connection, std::uint64_t generation);
void KeepAnnounced(const Keeper& keeper, std::uint32_t connection, std::uint64_t generation);
void KeepStats(const Keeper& keeper, std::uint32_t connection, std::string_view stats);
void KeepCopyCounts(const Keeper& keeper, std::uint32_t connection, std::string_view counts);
void KeepKernelInodes(const Keeper& keeper, std::uint32_t connection, const KernelInodes& inodes);
void DropMount(const Keeper& keeper, std::uint32_t connection);

/// How a session begins that goes on with `mount`, and keeps what its successor needs.
FuseConnection ConnectionOf(const Keeper& keeper, std::uint32_t id, OwnedFd fd,
                            std::string first_message, bool large = false,
                            bool passthrough = false);

}  // namespace forebay
