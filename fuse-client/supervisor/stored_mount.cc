#include "fuse-client/supervisor/stored_mount.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <set>

namespace forebay {

namespace {

/// The name that the journal is kept under; every other descriptor's is a number.
constexpr const char* kJournal = "journal";

/// Entries of the supervisor's own; no worker sees them.
constexpr std::string_view kOwn = "supervisor/";
constexpr const char* kFormat = "supervisor/format";
constexpr const char* kSource = "supervisor/source";
constexpr const char* kAsked = "supervisor/asked";
constexpr const char* kMountpoint = "supervisor/mountpoint";
constexpr const char* kSlots = "supervisor/slots";

std::string ValueOf(const KeptJournal& journal, const char* key) {
  const auto found = journal.records().find(key);
  return found == journal.records().end() ? "" : found->second.value;
}

/// The kernel's connection has ended: the mount is in no tree, or was forced out.
bool HasEnded(int fuse) {
  pollfd look{fuse, 0, 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

}  // namespace

std::string StoredMount::NameOf(const std::string& mountpoint) {
  std::filesystem::path name;
  for (const std::filesystem::path& part : std::filesystem::path(mountpoint)) {
    if (!part.empty() && part != ".") name /= part;
  }
  return name.string();
}

Result<StoredMount> StoredMount::Open(std::unique_ptr<DescriptorStore> store,
                                      const Identity& identity) {
  std::map<std::string, OwnedFd> left = store->TakeBack();
  const bool any = !left.empty();
  if (any) {
    Result<KeptJournal> journal = KeptJournal::Open(std::move(left[kJournal]));
    if (journal) {
      StoredMount found(std::move(store), std::move(*journal));
      if (found.TakeOver(std::move(left), identity)) return found;
      // What it does not go on with is closed there, too.
      found.Forget();
      Result<KeptJournal> fresh = KeptJournal::Create();
      if (!fresh) return Fail(fresh.error());
      StoredMount made(std::move(found.store_), std::move(*fresh));
      made.identity_ = identity;
      made.abandoned_ = found.abandoned_;
      return made;
    }
    spdlog::error("{}; it is mounted anew", journal.error().message);
    for (const auto& [name, fd] : left) store->Remove(name);
  }
  Result<KeptJournal> fresh = KeptJournal::Create();
  if (!fresh) return Fail(fresh.error());
  StoredMount made(std::move(store), std::move(*fresh));
  made.identity_ = identity;
  return made;
}

bool StoredMount::TakeOver(std::map<std::string, OwnedFd> left, const Identity& identity) {
  identity_ = identity;
  std::map<std::uint64_t, OwnedFd> numbered;
  for (auto& [name, fd] : left) {
    std::uint64_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number == 0 || !fd) continue;
    last_number_ = std::max(last_number_, number);
    held_[number] = FileOf(fd.get());
    numbered[number] = std::move(fd);
  }
  mountpoint_ = ValueOf(journal_, kMountpoint);
  for (const auto& [key, record] : journal_.records()) {
    last_number_ = std::max(last_number_, record.descriptor);
    Kept entry{record.value, {}};
    const auto fd = numbered.find(record.descriptor);
    // Two entries may have one descriptor.
    if (fd != numbered.end()) {
      entry.fd = OwnedFd(::fcntl(fd->second.get(), F_DUPFD_CLOEXEC, 0));
    }
    kept_.emplace(key, std::move(entry));
  }
  if (ValueOf(journal_, kFormat) != std::to_string(kHandoverFormat) ||
      ValueOf(journal_, kSource) != identity.source ||
      NameOf(ValueOf(journal_, kAsked)) != NameOf(identity.mountpoint)) {
    spdlog::warn("what was mounted at {} is another mount than {} at {}; it ends", mountpoint_,
                 identity.source, identity.mountpoint);
    abandoned_ = mountpoint_;
    return false;
  }
  if (!DropDead()) return false;
  Result<RequestSlots> slots = RequestSlots::Map(std::move(kept_[kSlots].fd));
  if (!slots) {
    spdlog::error("{}; {} is mounted anew", slots.error().message, mountpoint_);
    abandoned_ = mountpoint_;
    return false;
  }
  slots_ = std::move(*slots);
  std::erase_if(kept_, [](const auto& entry) { return entry.first.starts_with(kOwn); });
  std::set<std::uint64_t> referred;
  for (const auto& [key, record] : journal_.records()) referred.insert(record.descriptor);
  for (const auto& [number, fd] : numbered) {
    // Stored, but not written down any more when the supervisor was killed.
    if (!referred.contains(number)) Release(number);
  }
  return true;
}

/// False: no connection is left.
bool StoredMount::DropDead() {
  std::set<std::string> dead;
  std::size_t alive = 0;
  for (const auto& [key, entry] : kept_) {
    if (ConnectionOfKey(key) == 0) continue;
    if (entry.fd && !HasEnded(entry.fd.get())) {
      ++alive;
    } else {
      dead.insert(key);
    }
  }
  for (const std::string& key : dead) {
    Drop(key);
    std::erase_if(kept_, [&](const auto& entry) { return entry.first.starts_with(key); });
  }
  if (alive == 0) {
    spdlog::warn("what was mounted at {} has been unmounted; it is mounted anew", mountpoint_);
  }
  return alive > 0;
}

void StoredMount::Begin(const std::string& mountpoint, const RequestSlots& slots) {
  mountpoint_ = mountpoint;
  const Status kept = KeepFirst(slots);
  if (kept) return;
  Warn(kept);
  GiveUp(kept.error().code);
}

Status StoredMount::KeepFirst(const RequestSlots& slots) {
  // First of all: without it the others are descriptors that nobody can name.
  Status kept = store_->Put(kJournal, journal_.fd());
  const std::initializer_list<std::pair<const char*, std::string>> values = {
      {kFormat, std::to_string(kHandoverFormat)},
      {kSource, identity_.source},
      {kAsked, identity_.mountpoint},
      {kMountpoint, mountpoint_}};
  for (const auto& [key, value] : values) {
    if (kept) kept = KeepOne(key, value, -1);
  }
  return kept ? KeepOne(kSlots, "", slots.fd()) : kept;
}

void StoredMount::Keep(const std::string& key, const std::string& value, int fd) {
  Warn(KeepOne(key, value, fd));
}

// The descriptor is stored before it is written down and removed after: killed between the two, a
// supervisor leaves one too many, never one too few. One that nobody takes leaves the entry as it
// was: with its old value and its old descriptor, which belong together.
Status StoredMount::KeepOne(const std::string& key, const std::string& value, int fd) {
  const auto before = journal_.records().find(key);
  const bool known = before != journal_.records().end();
  const std::uint64_t replaced = known ? before->second.descriptor : 0;
  const Result<std::uint64_t> number = fd < 0 ? Result<std::uint64_t>(0) : NumberOf(key, fd);
  if (!number && known) return Fail(number.error());
  Status written = journal_.Keep(key, {value, number.value_or(0)});
  if (replaced != 0) Release(replaced);
  return number ? written : Fail(number.error());
}

// A store that is full refuses one descriptor after the other; it is said once.
void StoredMount::Warn(const Status& done) {
  if (done || done.error().message == warned_) return;
  warned_ = done.error().message;
  spdlog::warn("{}; the next start would not find the mount as it is now", warned_);
}

void StoredMount::Drop(std::string_view prefix) {
  std::set<std::uint64_t> dropped;
  auto entry = journal_.records().lower_bound(std::string(prefix));
  for (; entry != journal_.records().end() && entry->first.starts_with(prefix); ++entry) {
    if (entry->second.descriptor != 0) dropped.insert(entry->second.descriptor);
  }
  Warn(journal_.Drop(prefix));
  for (const std::uint64_t number : dropped) Release(number);
}

void StoredMount::Forget() {
  for (const auto& [number, file] : held_) store_->Remove(std::to_string(number));
  held_.clear();
  store_->Remove(kJournal);
}

Status StoredMount::KeepAgain(const RequestSlots& slots, const KeptEntries& kept) {
  Result<KeptJournal> fresh = KeptJournal::Create();
  if (!fresh) return Fail(fresh.error());
  const Status found = store_->FindAgain();
  if (!found) return found;
  for (const auto& [name, fd] : store_->TakeBack()) store_->Remove(name);
  journal_ = std::move(*fresh);
  held_.clear();
  Status done = KeepFirst(slots);
  for (auto entry = kept.begin(); done && entry != kept.end(); ++entry) {
    done = KeepOne(entry->first, entry->second.value, entry->second.fd.get());
  }
  if (done) {
    warned_.clear();
    return done;
  }
  GiveUp(done.error().code);
  return done;
}

// A part of a mount is of no use to anybody. Who does not answer is waited for.
void StoredMount::GiveUp(Code why) {
  Forget();
  if (why != Code::kTimeout) store_->Leave();
}

// systemd takes no open file twice, and would keep nothing under the second number. A worker says
// again what it has inherited, so files are known by what they are; /dev/fuse, which is one file
// for all connections, by its entry, whose name no other connection has.
Result<std::uint64_t> StoredMount::NumberOf(const std::string& key, int fd) {
  const File file = FileOf(fd);
  if (file.special == 0) {
    const auto same =
        std::ranges::find_if(held_, [&](const auto& held) { return held.second == file; });
    if (same != held_.end()) return same->first;
  } else {
    const auto before = journal_.records().find(key);
    if (before != journal_.records().end() && held_.contains(before->second.descriptor)) {
      return before->second.descriptor;
    }
  }
  const std::uint64_t number = ++last_number_;
  const Status put = store_->Put(std::to_string(number), fd);
  if (!put) return Fail(put.error());
  held_[number] = file;
  return number;
}

/// Unless an entry still has it.
void StoredMount::Release(std::uint64_t number) {
  const auto& records = journal_.records();
  const bool used = std::ranges::any_of(
      records, [number](const auto& entry) { return entry.second.descriptor == number; });
  if (used || held_.erase(number) == 0) return;
  store_->Remove(std::to_string(number));
}

StoredMount::File StoredMount::FileOf(int fd) {
  struct stat attributes{};
  if (::fstat(fd, &attributes) != 0) return {};
  return {attributes.st_dev, attributes.st_ino,
          S_ISCHR(attributes.st_mode) ? attributes.st_rdev : dev_t{0}};
}

}  // namespace forebay
