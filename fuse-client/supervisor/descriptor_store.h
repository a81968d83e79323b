#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/config_option.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// Descriptors that systemd keeps for this service while it restarts (sd_notify(3), FDSTORE=1; a
/// unit asks for it with FileDescriptorStoreMax=). Whoever speaks that protocol will do, in a
/// container, too. One thread.
class DescriptorStore {
 public:
  /// Nothing where nobody keeps descriptors of this very process: $NOTIFY_SOCKET and $FDSTORE are
  /// set, or it is not there. systemd sets $FDSTORE from 254 on; for older ones the unit does.
  static std::optional<DescriptorStore> Of(const Environment& environment);

  /// What systemd has kept, by name; the caller's from now on. Once, before this process opens
  /// descriptors that it wants to keep: they are where systemd has put them, from 3 on.
  std::map<std::string, OwnedFd> TakeBack() const;

  /// Under a name that nothing is kept under: systemd does not replace. Nor does it take the same
  /// open file twice. kUnavailable: it does not take it.
  Status Put(const std::string& name, int fd) const;
  /// Closes what is kept under this name.
  void Remove(const std::string& name) const;

 private:
  explicit DescriptorStore(Environment environment) : environment_(std::move(environment)) {}

  Environment environment_;
};

/// Variables by which systemd tells a service of descriptors, notifications and its watchdog: no
/// child may take them for its own.
bool IsOfServiceManager(const std::string& variable);

}  // namespace forebay
