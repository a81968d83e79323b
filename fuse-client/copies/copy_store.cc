#include "fuse-client/copies/copy_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/model/block_id.h"

namespace forebay {

namespace fs = std::filesystem;

namespace {

const std::string kLockName = "lock";
const std::string kBootName = "boot";
const std::string kSums = ".sums";

std::unexpected<Error> Refused(const std::string& what) {
  return Fail(Code::kInternal, what + ": " + std::generic_category().message(errno));
}

ObjectVersion VersionNamed(const std::string& name) {
  ObjectVersion version;
  if (name.size() != 32 || name.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return version;
  }
  version.high = std::stoull(name.substr(0, 16), nullptr, 16);
  version.low = std::stoull(name.substr(16), nullptr, 16);
  return version;
}

}  // namespace

std::string CopyStore::ThisBoot() {
  return ReadWholeFile("/proc/sys/kernel/random/boot_id").value_or("");
}

Result<std::unique_ptr<CopyStore>> CopyStore::Open(Options options) {
  const Status made = MakePrivateFolder(options.folder);
  if (!made) return Fail(made.error());
  const std::string path = options.folder + "/" + kLockName;
  OwnedFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return Refused("opening " + path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Refused("locking " + path);
    return Fail(Code::kUnavailable, "another mount keeps its copies in " + options.folder);
  }
  const std::string boot = ReadWholeFile(options.folder + "/" + kBootName).value_or("");
  const bool verified = !options.boot.empty() && boot == options.boot;
  std::unique_ptr<CopyStore> store(new CopyStore(std::move(options), std::move(lock)));
  store->Scan(verified);
  if (store->unverified_ == 0) store->KeepBoot();
  return store;
}

CopyStore::~CopyStore() = default;

OwnedFd CopyStore::Probe() const {
  return OwnedFd(::open((options_.folder + "/" + kLockName).c_str(), O_RDONLY | O_CLOEXEC));
}

/// From now on a process of this run of the machine need not verify what it finds.
void CopyStore::KeepBoot() {
  const Status kept = WriteFileAtomically(options_.folder + "/" + kBootName, options_.boot);
  if (!kept) spdlog::warn("{}; copies are verified again at the next start", kept.error().message);
}

void CopyStore::Scan(bool verified) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder, error)) {
    const Uuid link = Uuid::Parse(entry.path().filename().string());
    if (!link.IsZero() && entry.is_directory(error)) {
      ScanLink(entry.path().string(), link, verified);
    }
  }
}

/// All that is no copy with its record was left by somebody who was killed.
void CopyStore::ScanLink(const std::string& folder, const Uuid& link, bool verified) {
  std::set<std::string> kept;
  std::vector<std::string> all;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    all.push_back(file);
    const CopyName name{link, VersionNamed(file)};
    if (name.version == ObjectVersion()) continue;
    const Result<CopyRecord> record = CopyRecord::Load(PathOf(name) + kSums);
    std::error_code sized;
    if (!record || record->version != name.version || entry.file_size(sized) != record->size) {
      continue;
    }
    copies_[name] = {.nodeid = record->nodeid, .size = record->size, .verified = verified};
    used_ += record->size;
    if (!verified) ++unverified_;
    kept.insert(file);
    kept.insert(file + kSums);
  }
  for (const std::string& file : all) {
    if (!kept.contains(file)) fs::remove(folder + "/" + file, error);
  }
}

std::string CopyStore::PathOf(const CopyName& name) const {
  return options_.folder + "/" + name.link.ToString() + "/" + name.version.ToString();
}

Result<OwnedFd> CopyStore::Find(const CopyName& name) {
  std::uint64_t size = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(name);
    if (found == copies_.end() || found->second.draft) return Fail(Code::kNotFound, "no copy");
    if (!found->second.verified) {
      if (std::ranges::find(wanted_, name) == wanted_.end()) wanted_.push_back(name);
      changed_.notify_all();
      return Fail(Code::kUnavailable, "the copy is verified first");
    }
    size = found->second.size;
  }
  const std::string path = PathOf(name);
  OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat attributes{};
  if (file && ::fstat(file.get(), &attributes) == 0 &&
      static_cast<std::uint64_t>(attributes.st_size) == size) {
    return file;
  }
  NoteDamaged(name, {Code::kCorrupt, path + " has gone or has another size than was written"});
  return Fail(Code::kNotFound, "no copy");
}

/// With mutex_ held.
bool CopyStore::HasRoom(std::uint64_t bytes) const {
  if (options_.limit != 0 && used_ + bytes > options_.limit) return false;
  struct statvfs disk{};
  if (::statvfs(options_.folder.c_str(), &disk) != 0) return false;
  const std::uint64_t kept = disk.f_blocks * disk.f_frsize / options_.free_part;
  return disk.f_bavail * disk.f_frsize >= bytes + kept;
}

/// Copies of links that nobody here mounts.
void CopyStore::MakeRoom(std::uint64_t bytes) {
  std::set<Uuid> mounted;
  {
    const std::scoped_lock lock(listeners_mutex_);
    for (const Attached& attached : attached_) mounted.insert(attached.link);
  }
  const std::scoped_lock lock(mutex_);
  for (auto copy = copies_.begin(); copy != copies_.end() && !HasRoom(bytes);) {
    const auto next = std::next(copy);
    if (!copy->second.draft && !mounted.contains(copy->first.link)) Erase(copy->first);
    copy = next;
  }
}

Result<std::unique_ptr<CopyDraft>> CopyStore::Begin(const Uuid& link, CopyRecord record) {
  const CopyName name{link, record.version};
  const std::uint64_t size = record.size;
  MakeRoom(size);
  {
    const std::scoped_lock lock(mutex_);
    if (copies_.contains(name)) return Fail(Code::kInvalid, "there is a copy");
    full_ = !HasRoom(size);
    if (full_) return Fail(Code::kOverloaded, "no room in " + options_.folder);
    copies_[name] = {.nodeid = record.nodeid, .size = size, .verified = true, .draft = true};
    used_ += size;
  }
  const std::string path = TemporaryNameFor(PathOf(name));
  const Status made = MakePrivateFolder(fs::path(path).parent_path().string());
  OwnedFd file(made ? ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1);
  const int number = errno;
  const bool opened = static_cast<bool>(file);
  std::unique_ptr<CopyDraft> draft(
      new CopyDraft(*this, name, std::move(record), path, std::move(file)));
  if (!made) return Fail(made.error());
  errno = number;
  if (!opened) return Refused("creating " + path);
  // Its place on the disk at once, where the file system can do that: a full disk is found now.
  if (size > 0 && ::fallocate(draft->file_.get(), 0, 0, static_cast<off_t>(size)) != 0 &&
      errno == ENOSPC) {
    const std::scoped_lock lock(mutex_);
    full_ = true;
    return Fail(Code::kOverloaded, "no room in " + options_.folder);
  }
  return draft;
}

/// With mutex_ held. Who has it open reads on.
void CopyStore::Erase(const CopyName& name) {
  const auto found = copies_.find(name);
  if (found == copies_.end()) return;
  const std::string path = PathOf(name);
  used_ -= found->second.size;
  if (!found->second.verified) --unverified_;
  std::erase(wanted_, name);
  copies_.erase(found);  // last: `name` may be its key
  ::unlink(path.c_str());
  ::unlink((path + kSums).c_str());
}

void CopyStore::Attach(const void* owner, const Uuid& link, Listener listener) {
  {
    const std::scoped_lock lock(listeners_mutex_);
    attached_.push_back({owner, link, std::move(listener)});
  }
  RemoveUnshown(link);
}

void CopyStore::Detach(const void* owner) {
  const std::scoped_lock lock(listeners_mutex_);
  std::erase_if(attached_, [&](const Attached& attached) { return attached.owner == owner; });
}

void CopyStore::RemoveUnshown(const Uuid& link) {
  const std::scoped_lock listeners(listeners_mutex_);
  std::vector<std::pair<CopyName, std::uint64_t>> copies;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, copy] : copies_) {
      if (name.link == link && !copy.draft) copies.emplace_back(name, copy.nodeid);
    }
  }
  for (const auto& [name, nodeid] : copies) {
    const auto shows = [&](const Attached& attached) {
      return attached.link == link && attached.listener.is_shown(nodeid, name.version);
    };
    if (std::ranges::any_of(attached_, shows)) continue;
    const std::scoped_lock lock(mutex_);
    Erase(name);
  }
}

std::optional<CopyStore::ToVerify> CopyStore::NextToVerify(bool round, TimePoint until,
                                                           const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !wanted_.empty() || unverified_ > 0; };
  if (!round || copies_.empty()) changed_.wait_until(lock, stop, until, ready);
  if (stop.stop_requested()) return std::nullopt;
  if (!wanted_.empty()) {
    const CopyName name = wanted_.front();
    wanted_.pop_front();
    return ToVerify{name, true};
  }
  for (const auto& [name, copy] : copies_) {
    if (!copy.verified) return ToVerify{name, false};
  }
  if (!round) return std::nullopt;
  auto next = round_at_ ? copies_.upper_bound(*round_at_) : copies_.begin();
  while (next != copies_.end() && next->second.draft) ++next;
  if (next == copies_.end()) {
    round_at_.reset();
    return std::nullopt;
  }
  round_at_ = next->first;
  return ToVerify{next->first, false};
}

bool CopyStore::SomebodyWaits() const {
  const std::scoped_lock lock(mutex_);
  return !wanted_.empty();
}

Status CopyStore::Verify(const CopyName& name,
                         const std::function<bool(std::size_t bytes)>& after) {
  const std::string path = PathOf(name);
  const Result<CopyRecord> record = CopyRecord::Load(path + kSums);
  Status status;
  if (!record) {
    status = Fail(record.error());
  } else {
    status = VerifyCopy(path, *record, [&](std::size_t bytes) {
      {
        const std::scoped_lock lock(mutex_);
        verified_bytes_ += bytes;
      }
      return !after || after(bytes);
    });
  }
  if (status) {
    NoteVerified(name);
  } else if (status.error().code != Code::kUnavailable) {
    NoteDamaged(name, status.error());
  }
  return status;
}

void CopyStore::NoteVerified(const CopyName& name) {
  bool all = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(name);
    if (found == copies_.end() || std::exchange(found->second.verified, true)) return;
    all = --unverified_ == 0;
  }
  if (all) KeepBoot();
}

void CopyStore::NoteDamaged(const CopyName& name, const Error& error) {
  const std::scoped_lock listeners(listeners_mutex_);
  std::uint64_t nodeid = 0;
  bool all = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = copies_.find(name);
    if (found == copies_.end()) return;  // removed meanwhile
    nodeid = found->second.nodeid;
    const bool was_unverified = !found->second.verified;
    Erase(name);
    ++damaged_;
    all = was_unverified && unverified_ == 0;
  }
  if (all) KeepBoot();
  spdlog::error("{}; the copy is removed", error.message);
  for (const Attached& attached : attached_) {
    if (attached.link == name.link) attached.listener.damaged(nodeid, error);
  }
}

void CopyStore::Committed(const CopyName& name) {
  const std::scoped_lock lock(mutex_);
  copies_[name].draft = false;
}

CopyStore::Totals CopyStore::totals() const {
  const std::scoped_lock lock(mutex_);
  const auto drafts =
      std::ranges::count_if(copies_, [](const auto& at) { return at.second.draft; });
  return {.copies = copies_.size() - static_cast<std::size_t>(drafts),
          .bytes = used_,
          .unverified = unverified_,
          .limit = options_.limit,
          .verified_bytes = verified_bytes_,
          .damaged = damaged_,
          .full = full_};
}

CopyDraft::~CopyDraft() {
  if (committed_) return;
  ::unlink(path_.c_str());
  const std::scoped_lock lock(store_.mutex_);
  store_.Erase(name_);
}

Status CopyDraft::Append(ByteView piece) {
  record_.sums.push_back(CellChecksum(piece.data(), piece.size()));
  while (!piece.empty()) {
    const ssize_t n =
        ::pwrite(file_.get(), piece.data(), piece.size(), static_cast<off_t>(written_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Refused("writing " + path_);
    written_ += static_cast<std::uint64_t>(n);
    piece = piece.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status CopyDraft::Commit() {
  const std::string path = store_.PathOf(name_);
  const std::string record = record_.Encode();
  if (written_ != record_.size || !CopyRecord::Decode(record)) {
    return Fail(Code::kInvalid, "a part of " + path + " is missing");
  }
  file_ = OwnedFd();
  // Its record first: a copy without one is nothing.
  Status status = WriteFileAtomically(path + kSums, record);
  if (status) status = CommitFile(path_, path);
  if (!status) return status;
  committed_ = true;
  store_.Committed(name_);
  return {};
}

}  // namespace forebay
