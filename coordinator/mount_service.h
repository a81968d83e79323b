#pragma once

#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/wire/server.h"
#include "coordinator/link_registry.h"
#include "coordinator/mount_book.h"

namespace forebay {

/// Tells administrators which mounts there are. On the event loop.
class MountService {
 public:
  /// `mounts` is told of what mounts ask by ClientService.
  MountService(const LinkRegistry& links, const MountBook& mounts)
      : links_(links), mounts_(mounts), began_(Clock::now()) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> ListMounts(RpcCall call) const;
  std::vector<MountBook::Wanted> LinksOf(const std::string& name) const;

  const LinkRegistry& links_;
  const MountBook& mounts_;
  const TimePoint began_;
};

}  // namespace forebay
