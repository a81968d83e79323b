#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/object_version.h"
#include "common/wire/server.h"
#include "coordinator/name_uploads.h"
#include "coordinator/state_store.h"

namespace forebay {

/// Backups of the coordinator's state for administrators, in pieces, and back. On the event loop.
class BackupService {
 public:
  struct Parts {
    StateStore& store;
    std::uint64_t fence;
    Uuid certificates;  ///< The cluster that they are of; zero: there are none.
    NameUploads& uploads;
    Offload& offload;
    /// A backup has taken the place of the state: this coordinator ends and begins again.
    std::function<void()> restored;
  };
  explicit BackupService(Parts parts) : parts_(std::move(parts)) {}

  std::vector<MethodEntry> Methods();

 private:
  struct Taken {
    std::shared_ptr<const Buffer> bytes;
    TimePoint asked;
  };
  Task<Result<RpcReply>> Backup(RpcCall call);
  Task<Result<RpcReply>> Restore(RpcCall call);
  Task<Result<std::uint64_t>> Take();

  const Parts parts_;
  std::map<std::uint64_t, Taken> taken_;  // by number
  std::uint64_t next_ = 1;
};

}  // namespace forebay
