#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "fuse-client/copies/copy_record.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

class CopyDraft;

/// Whole copies of files in a folder of a local disk, which the kernel reads by itself:
/// FOLDER/LINK/ VERSION, and beside it VERSION.sums (CopyRecord). One process at a time uses the
/// folder. A copy is there whole or not at all, also after a crash or a power cut. What a machine's
/// earlier run has left is verified before it is handed out.
///
/// Never more than `limit` bytes, and never the last of the disk: when it is full nothing is added.
/// A copy that is used makes no room for another one: of a data set that is larger than the disk,
/// read once an epoch, as much as fits stays, and no epoch finds less. Copies of links that this
/// process does not mount go when room is needed.
///
/// Thread-safe. Calls look at the disk for a moment; those of a CopyDraft wait for it.
class CopyStore {
 public:
  struct Options {
    std::string folder;       ///< Absolute. Made where it is missing.
    std::uint64_t limit = 0;  ///< Bytes of all copies; 0 = what the disk has.
    /// One part in so many of the disk stays free of copies.
    std::uint64_t free_part = 20;
    /// The machine's run: what was written in another one is verified first. "" = unknown.
    std::string boot;
  };

  /// kUnavailable: another process uses the folder. kInternal: the disk refuses.
  static Result<std::unique_ptr<CopyStore>> Open(Options options);
  ~CopyStore();
  CopyStore(const CopyStore&) = delete;
  CopyStore& operator=(const CopyStore&) = delete;

  /// The run of this machine, for Options.
  static std::string ThisBoot();

  /// The copy, open for reading. kNotFound: there is none. kUnavailable: it is verified first,
  /// soon.
  Result<OwnedFd> Find(const CopyName& name);

  /// Begins a copy. kOverloaded: there is no room. kInvalid: there is one, or somebody writes it.
  /// kInternal: the disk refuses. The store outlives the draft.
  Result<std::unique_ptr<CopyDraft>> Begin(const Uuid& link, CopyRecord record);

  /// What becomes of copies of a link that this process mounts; the calls come without locks held.
  struct Listener {
    /// The file is shown by a generation that programs may still have files of.
    std::function<bool(std::uint64_t nodeid, const ObjectVersion& version)> is_shown;
    /// The copy was found damaged, and is gone.
    std::function<void(std::uint64_t nodeid, const Error& error)> damaged;
  };
  /// Until Detach with the same owner. Removes copies of the link that no listener's mount shows.
  void Attach(const void* owner, const Uuid& link, Listener listener);
  /// When it returns no call to the owner's listener is under way.
  void Detach(const void* owner);
  /// A listener's mount shows something else now.
  void RemoveUnshown(const Uuid& link);

  // For whoever verifies.

  struct ToVerify {
    CopyName name;
    bool wanted = false;  ///< Somebody wanted to open it.
  };
  /// The next copy that must be verified before its first use; with `round`, else the next of all.
  /// Waits until there is one, until `until`, or until `stop`.
  std::optional<ToVerify> NextToVerify(bool round, TimePoint until, const std::stop_token& stop);
  /// A copy is wanted that must be verified first.
  bool SomebodyWaits() const;
  /// Reads it and compares. What is not right, or cannot be read, is removed and counted.
  /// kNotFound: it has gone meanwhile. Otherwise as VerifyCopy.
  Status Verify(const CopyName& name, const std::function<bool(std::size_t bytes)>& after);

  struct Totals {
    std::uint64_t copies = 0;  ///< Whole ones.
    std::uint64_t bytes = 0;   ///< With those that are being written.
    std::uint64_t unverified = 0;
    std::uint64_t limit = 0;
    std::uint64_t verified_bytes = 0;  ///< Read again by Verify since the start.
    std::uint64_t damaged = 0;         ///< Found since the start.
    bool full = false;                 ///< The last draft found no room.
  };
  Totals totals() const;
  const std::string& folder() const { return options_.folder; }
  /// A file on the copies' disk, to try what the kernel takes. (Not the lock's own: what the kernel
  /// holds of that keeps it locked.)
  OwnedFd Probe() const;

 private:
  friend class CopyDraft;
  struct Copy {
    std::uint64_t nodeid = 0;
    std::uint64_t size = 0;
    bool verified = false;
    bool draft = false;
  };
  struct Attached {
    const void* owner;
    Uuid link;
    Listener listener;
  };

  CopyStore(Options options, OwnedFd lock) : options_(std::move(options)), lock_(std::move(lock)) {}
  void Scan(bool verified);
  void ScanLink(const std::string& folder, const Uuid& link, bool verified);
  std::string PathOf(const CopyName& name) const;
  bool HasRoom(std::uint64_t bytes) const;
  void MakeRoom(std::uint64_t bytes);
  void Erase(const CopyName& name);
  void NoteVerified(const CopyName& name);
  void NoteDamaged(const CopyName& name, const Error& error);
  void Committed(const CopyName& name);
  void KeepBoot();

  const Options options_;
  const OwnedFd lock_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<CopyName, Copy> copies_;   // guarded by mutex_, as all below
  std::deque<CopyName> wanted_;       // unverified, asked for by an open
  std::optional<CopyName> round_at_;  // the last of the round
  std::uint64_t used_ = 0;
  std::uint64_t unverified_ = 0;
  std::uint64_t verified_bytes_ = 0;
  std::uint64_t damaged_ = 0;
  bool full_ = false;
  std::mutex listeners_mutex_;  // held during calls to listeners; before mutex_
  std::vector<Attached> attached_;
};

/// A copy while it is written, from its beginning to its end. Ends as nothing unless Commit
/// succeeded. For one thread.
class CopyDraft {
 public:
  ~CopyDraft();
  CopyDraft(const CopyDraft&) = delete;
  CopyDraft& operator=(const CopyDraft&) = delete;

  /// The next piece: record.block_bytes of it, or the rest. kInternal: the disk refuses.
  Status Append(ByteView piece);
  /// All was appended. When it returns the copy can be found, and survives a power cut. kInvalid:
  /// something is missing.
  Status Commit();

 private:
  friend class CopyStore;
  CopyDraft(CopyStore& store, CopyName name, CopyRecord record, std::string path, OwnedFd file)
      : store_(store),
        name_(name),
        record_(std::move(record)),
        path_(std::move(path)),
        file_(std::move(file)) {}

  CopyStore& store_;
  const CopyName name_;
  CopyRecord record_;
  const std::string path_;  // temporary
  OwnedFd file_;
  std::uint64_t written_ = 0;
  bool committed_ = false;
};

}  // namespace forebay
