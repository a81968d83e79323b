#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "common/base/config_option.h"
#include "common/base/result.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// Descriptors that somebody else keeps while this program is started again. One thread.
class DescriptorStore {
 public:
  DescriptorStore() = default;
  virtual ~DescriptorStore() = default;
  DescriptorStore(const DescriptorStore&) = delete;
  DescriptorStore& operator=(const DescriptorStore&) = delete;

  /// What has been kept, by name; the caller's from now on. Once.
  virtual std::map<std::string, OwnedFd> TakeBack() = 0;
  /// Under a name that nothing is kept under. kUnavailable: nobody takes it. kTimeout: nobody says
  /// whether it is taken. kDenied: it is too much.
  virtual Status Put(const std::string& name, int fd) = 0;
  /// Closes what is kept under this name.
  virtual void Remove(const std::string& name) = 0;

  /// Somebody keeps what was put.
  virtual bool IsThere() { return true; }
  /// Readable when nobody does any more; -1 = nothing to wait for.
  virtual int fd() const { return -1; }
  /// Looks for somebody else who does, with nothing put so far but what TakeBack answers.
  /// kUnavailable, kTimeout, kDenied: there is nobody.
  virtual Status FindAgain() { return {}; }
  /// Nobody does from now on, until FindAgain.
  virtual void Leave() {}
};

/// systemd, which keeps them for this service (sd_notify(3), FDSTORE=1; a unit asks for it with
/// FileDescriptorStoreMax=). Whoever speaks that protocol will do.
class SystemdStore final : public DescriptorStore {
 public:
  /// Null where nobody keeps descriptors of this very process: $NOTIFY_SOCKET and $FDSTORE are set,
  /// or it is not there. systemd sets $FDSTORE from 254 on; for older ones the unit does.
  static std::unique_ptr<SystemdStore> Of(const Environment& environment);

  /// Before this process opens descriptors that it wants to keep: they are where systemd has put
  /// them, from 3 on.
  std::map<std::string, OwnedFd> TakeBack() override;
  /// systemd does not replace. Nor does it take the same open file twice. Beyond the number that
  /// $FDSTORE says it would close what it gets, and tell its own log alone: kDenied.
  Status Put(const std::string& name, int fd) override;
  void Remove(const std::string& name) override;

 private:
  SystemdStore(Environment environment, std::size_t most)
      : environment_(std::move(environment)), most_(most) {}

  const Environment environment_;
  const std::size_t most_;
  std::set<std::string> kept_;  // names
};

/// Variables by which systemd tells a service of descriptors, notifications and its watchdog: no
/// child may take them for its own.
bool IsOfServiceManager(const std::string& variable);

}  // namespace forebay
