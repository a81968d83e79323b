#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "fuse-client/supervisor/descriptor_store.h"
#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/kept_journal.h"
#include "fuse-client/supervisor/request_slots.h"

namespace forebay {

/// What a mount leaves with systemd or a holder, so that it outlives its supervisor, too: all
/// descriptors that workers keep with it, the slots of requests, and a journal of what is kept
/// beside them. One thread.
class StoredMount {
 public:
  /// What is mounted where, as it was asked for: another mount's store is of no use.
  struct Identity {
    std::string source;
    std::string mountpoint;
  };

  /// Takes back what an earlier supervisor has left. What is of another mount or of another
  /// hand-over format, or whose connection to the kernel has ended, is let go, and said. kInternal:
  /// no memory.
  static Result<StoredMount> Open(std::unique_ptr<DescriptorStore> store, const Identity& identity);

  /// One name for one place, however an absolute path was written: without "//", "/./" and a slash
  /// at the end.
  static std::string NameOf(const std::string& mountpoint);

  /// An earlier supervisor has left a mount that goes on.
  bool inherited() const { return slots_.has_value(); }
  /// Where that is mounted, without links: nobody serves it, so no one may look. "" = nowhere.
  const std::string& mountpoint() const { return mountpoint_; }
  /// Where a mount was that has been let go and is still in the tree.
  const std::string& abandoned() const { return abandoned_; }
  /// Of an inherited mount: how many threads its slots are for.
  std::size_t arenas() const { return slots_->arenas(); }
  /// Of an inherited mount; the caller's from now on, once.
  RequestSlots TakeSlots() { return std::move(*slots_); }
  KeptEntries TakeKept() { return std::move(kept_); }

  /// Of a mount that begins: before anything is kept.
  void Begin(const std::string& mountpoint, const RequestSlots& slots);
  /// As the supervisor keeps it; `fd` stays the caller's. Where nobody takes that, the entry stays
  /// what it was.
  void Keep(const std::string& key, const std::string& value, int fd);
  void Drop(std::string_view prefix);
  /// The mount has ended.
  void Forget();

  /// Somebody has it beside this process, so that it outlives this process.
  bool IsKept() const { return store_->IsThere(); }
  /// Readable when nobody has it any more; -1 = nothing to wait for.
  int fd() const { return store_->fd(); }
  /// Looks for somebody else, who gets what was begun and all of `kept`. kUnavailable, kTimeout,
  /// kDenied: there is nobody who takes all of it, and so nobody has it.
  Status KeepAgain(const RequestSlots& slots, const KeptEntries& kept);

 private:
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    dev_t special = 0;  // which device a device file is; 0 = no device file
    bool operator==(const File&) const = default;
  };

  StoredMount(std::unique_ptr<DescriptorStore> store, KeptJournal journal)
      : store_(std::move(store)), journal_(std::move(journal)) {}

  bool TakeOver(std::map<std::string, OwnedFd> left, const Identity& identity);
  bool DropDead();
  Status KeepFirst(const RequestSlots& slots);
  Status KeepOne(const std::string& key, const std::string& value, int fd);
  void GiveUp(Code why);
  void Warn(const Status& done);
  Result<std::uint64_t> NumberOf(const std::string& key, int fd);
  void Release(std::uint64_t number);
  static File FileOf(int fd);

  std::unique_ptr<DescriptorStore> store_;
  KeptJournal journal_;
  Identity identity_;
  std::map<std::uint64_t, File> held_;  // what is kept there, by number
  std::uint64_t last_number_ = 0;
  std::optional<RequestSlots> slots_;
  KeptEntries kept_;
  std::string mountpoint_;
  std::string abandoned_;
  std::string warned_;  // what was said last
};

}  // namespace forebay
