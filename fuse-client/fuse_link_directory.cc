#include "fuse-client/fuse_link_directory.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/base/wall_clock.h"
#include "common/model/limits.h"
#include "common/wire/messages.h"
#include "common/wire/rpc.h"
#include "fuse-client/fuse_api.h"
#include "fuse-client/top_file.h"

namespace forebay {

namespace {

constexpr mode_t kReadable = S_IRUSR | S_IRGRP | S_IROTH;

}  // namespace

struct LinkDirectory::Impl {
  struct Entry {
    std::string name;
    bool listed = false;
  };

  Options options;
  Keeper* keeper = nullptr;
  SlotArena* slots = nullptr;
  std::uint32_t connection = 0;
  OwnedFd fd;  // until the session has it
  std::unique_ptr<FuseSession> session;
  std::unique_ptr<asio::posix::stream_descriptor> descriptor;
  std::function<void()> on_ended;
  RequestBuffer request;
  TopFile config;

  std::mutex mutex;
  std::map<std::uint64_t, Entry> entries;  // by node id, which is never used twice
  std::uint64_t next_nodeid = FUSE_ROOT_ID + 1;
  std::int64_t changed_unix_s = UnixSeconds();

  ~Impl() {
    if (connection != 0) DropMount(*keeper, connection);
  }

  // With the lock held, as all below.
  bool Has(std::uint64_t nodeid) const {
    if (nodeid == TopFile::kFolderNodeid || nodeid == TopFile::kNodeid) return config.shown();
    return nodeid == FUSE_ROOT_ID || entries.contains(nodeid);
  }

  auto Find(std::string_view name) {
    return std::ranges::find_if(entries, [&](const auto& e) { return e.second.name == name; });
  }

  /// 0 = there is no such name.
  std::uint64_t NodeidOf(std::uint64_t parent, std::string_view name) {
    if (config.shown() && parent == FUSE_ROOT_ID && name == TopFile::kFolderName)
      return TopFile::kFolderNodeid;
    if (config.shown() && parent == TopFile::kFolderNodeid && name == TopFile::kName)
      return TopFile::kNodeid;
    const auto found = parent == FUSE_ROOT_ID ? Find(name) : entries.end();
    return found == entries.end() ? 0 : found->first;
  }

  struct stat AttributesOf(std::uint64_t nodeid) const {
    struct stat attributes{};
    attributes.st_ino = nodeid;
    attributes.st_mode = S_IFDIR | options.mode;
    attributes.st_nlink = 1;
    attributes.st_uid = options.uid;
    attributes.st_gid = options.gid;
    attributes.st_mtim.tv_sec = changed_unix_s;
    attributes.st_ctim.tv_sec = changed_unix_s;
    attributes.st_atim.tv_sec = changed_unix_s;
    if (nodeid == TopFile::kNodeid) {
      attributes.st_mode = S_IFREG | (options.mode & kReadable);
      attributes.st_size = static_cast<off_t>(config.size());
    }
    return attributes;
  }
};

namespace {

/// Seconds. A link's directory keeps its name for as long as it lives, and its end is announced to
/// the kernel; so a path through it costs no message, and nothing shakes the mount that stands on
/// it.
constexpr double kForever = 1e9;

/// Seconds that attributes and missing names are believed: links come by themselves.
constexpr double kShortly = 1.0;

/// Requests taken before the context's other work has its turn.
constexpr std::size_t kBatch = 8;

/// What a successor finds: a KeptName for each node, and the number of the next one.
constexpr std::string_view kNames = "directory/";
constexpr std::string_view kNextNode = "next-directory-node";

std::string KeyOf(std::uint64_t nodeid) {
  // The slash ends the number, so that no key is the beginning of another one's.
  return std::string(kNames) + std::to_string(nodeid) + "/";
}

std::uint64_t NumberIn(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void Keep(LinkDirectory::Impl& here, std::uint64_t nodeid,
          const LinkDirectory::Impl::Entry& entry) {
  proto::KeptName name;
  name.set_name(entry.name);
  name.set_listed(entry.listed);
  here.keeper->Keep(kNextNode, std::to_string(here.next_nodeid));
  here.keeper->Keep(KeyOf(nodeid), name.SerializeAsString());
}

void Inherit(LinkDirectory::Impl& here) {
  for (const auto& [key, kept] : here.keeper->TakeInherited(kNames)) {
    proto::KeptName name;
    const std::uint64_t nodeid = NumberIn(std::string_view(key).substr(kNames.size()));
    if (nodeid == 0 || !ParseMessage(kept.value, name)) continue;
    here.entries.emplace(nodeid, LinkDirectory::Impl::Entry{name.name(), name.listed()});
    here.next_nodeid = std::max(here.next_nodeid, nodeid + 1);
  }
  for (const auto& [key, kept] : here.keeper->TakeInherited(kNextNode)) {
    here.next_nodeid = std::max(here.next_nodeid, NumberIn(kept.value));
  }
}

LinkDirectory::Impl& Here(fuse_req_t request) {
  return *static_cast<LinkDirectory::Impl*>(FuseSession::ContextOf(fuse_req_userdata(request)));
}

void OnLookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  LinkDirectory::Impl& here = Here(request);
  fuse_entry_param entry{};
  {
    std::scoped_lock lock(here.mutex);
    entry.ino = here.NodeidOf(parent, name);
    if (entry.ino != 0) entry.attr = here.AttributesOf(entry.ino);
  }
  // Inode 0 is "no such name, and you may remember that".
  const bool is_link = entry.ino != 0 && entry.ino < TopFile::kFolderNodeid;
  entry.attr_timeout = kShortly;
  entry.entry_timeout = is_link ? kForever : kShortly;
  fuse_reply_entry(request, &entry);
}

void OnGetattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info*) {
  LinkDirectory::Impl& here = Here(request);
  struct stat attributes{};
  bool known = false;
  {
    std::scoped_lock lock(here.mutex);
    known = here.Has(inode);
    attributes = here.AttributesOf(inode);
  }
  if (!known) {
    fuse_reply_err(request, ESTALE);
    return;
  }
  fuse_reply_attr(request, &attributes, kShortly);
}

void OnReaddir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
               struct fuse_file_info*) {
  LinkDirectory::Impl& here = Here(request);
  std::vector<char> reply(size);
  std::size_t used = 0;
  // False: no room. What stands at offset `at` is followed by offset `at` + 1.
  const auto add = [&](const std::string& name, std::uint64_t nodeid, std::uint64_t at) {
    if (static_cast<std::uint64_t>(offset) > at) return true;
    const struct stat attributes = here.AttributesOf(nodeid);
    const std::size_t needed =
        fuse_add_direntry(request, reply.data() + used, size - used, name.c_str(), &attributes,
                          static_cast<off_t>(at + 1));
    if (needed > size - used) return false;
    used += needed;
    return true;
  };
  {
    std::scoped_lock lock(here.mutex);
    bool room = add(".", inode, 0) && add("..", FUSE_ROOT_ID, 1);
    if (inode == FUSE_ROOT_ID) {
      for (const auto& [nodeid, entry] : here.entries) {
        if (!room) break;
        if (entry.listed) room = add(entry.name, nodeid, nodeid);
      }
    }
    if (inode == TopFile::kFolderNodeid && room) add(TopFile::kName, TopFile::kNodeid, 2);
  }
  fuse_reply_buf(request, reply.data(), used);
}

// Past the page cache: the text is another one each time.
void OnOpen(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info* file) {
  if (inode != TopFile::kNodeid) {
    fuse_reply_err(request, EISDIR);
    return;
  }
  file->fh = Here(request).config.Open();
  file->direct_io = 1;
  fuse_reply_open(request, file);
}

void OnRead(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset,
            struct fuse_file_info* file) {
  const std::string bytes =
      Here(request).config.Read(file->fh, static_cast<std::uint64_t>(offset), size);
  fuse_reply_buf(request, bytes.data(), bytes.size());
}

void OnRelease(fuse_req_t request, fuse_ino_t, struct fuse_file_info* file) {
  Here(request).config.Close(file->fh);
  fuse_reply_err(request, 0);
}

void OnStatfs(fuse_req_t request, fuse_ino_t) {
  struct statvfs nothing{};
  nothing.f_bsize = 4096;
  nothing.f_frsize = 4096;
  nothing.f_namemax = kMaxNameBytes;
  fuse_reply_statfs(request, &nothing);
}

void RefuseWrite(fuse_req_t request) { fuse_reply_err(request, EROFS); }

struct fuse_lowlevel_ops MakeOperations() {
  struct fuse_lowlevel_ops ops{};
  ops.lookup = OnLookup;
  ops.getattr = OnGetattr;
  ops.readdir = OnReaddir;
  ops.open = OnOpen;
  ops.read = OnRead;
  ops.release = OnRelease;
  ops.statfs = OnStatfs;
  WriteOperations<RefuseWrite>::AddTo(ops);
  return ops;
}

Task<void> Serve(LinkDirectory::Impl* here) {
  for (;;) {
    boost::system::error_code error;
    co_await here->descriptor->async_wait(asio::posix::stream_descriptor::wait_read,
                                          asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    if (here->session->Drain(*here->slots, here->request, kBatch) == FuseSession::Drained::kEnded) {
      here->on_ended();
      co_return;
    }
  }
}

}  // namespace

LinkDirectory::LinkDirectory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

LinkDirectory::~LinkDirectory() {
  if (impl_->descriptor) impl_->descriptor->release();  // it is the session's
}

Status LinkDirectory::MountAndKeep(const Options& options) {
  Result<OwnedFd> fd = MountFuse(options.mount);
  if (!fd) return Fail(fd.error());
  impl_->fd = std::move(*fd);
  impl_->connection = impl_->keeper->NewConnection();
  proto::KeptMount mount;
  mount.set_top(true);
  mount.set_mountpoint(options.mount.mountpoint);
  mount.set_device(options.mount.source);
  mount.set_cluster(BytesOf(options.cluster));
  mount.set_cluster_dir(options.cluster_dir);
  KeepMount(*impl_->keeper, impl_->connection, mount, impl_->fd.get());
  return {};
}

Result<std::unique_ptr<LinkDirectory>> LinkDirectory::Make(
    Options options, Surroundings surroundings, std::optional<InheritedMount> inherited) {
  std::unique_ptr<LinkDirectory> made(new LinkDirectory(std::make_unique<Impl>()));
  Impl& here = *made->impl_;
  options.mode |= S_IRWXU;
  here.options = std::move(options);
  here.keeper = &surroundings.keeper;
  here.slots = &surroundings.slots;
  here.on_ended = std::move(surroundings.on_ended);
  std::string first_message;
  if (inherited) {
    here.fd = std::move(inherited->fd);
    here.connection = inherited->connection;
    first_message = std::move(inherited->first_message);
    Inherit(here);
  } else {
    const Status mounted = made->MountAndKeep(here.options);
    if (!mounted) return Fail(mounted.error());
  }
  static const struct fuse_lowlevel_ops operations = MakeOperations();
  Result<std::unique_ptr<FuseSession>> session = FuseSession::Serve(
      ConnectionOf(*here.keeper, here.connection, std::move(here.fd), std::move(first_message)),
      operations, &here);
  if (!session) return Fail(session.error());
  here.session = std::move(*session);
  here.descriptor = std::make_unique<asio::posix::stream_descriptor>(surroundings.context,
                                                                     here.session->descriptor());
  asio::post(surroundings.context, [&here] { here.session->TakeOver(*here.slots); });
  Spawn(surroundings.context, Serve(&here));
  return made;
}

void LinkDirectory::Add(const std::string& name) {
  {
    std::scoped_lock lock(impl_->mutex);
    if (impl_->Find(name) != impl_->entries.end()) return;
    const std::uint64_t nodeid = impl_->next_nodeid++;
    Keep(*impl_, nodeid, impl_->entries.emplace(nodeid, Impl::Entry{name, false}).first->second);
  }
  // Somebody who waits for the link may just have been told that there is none.
  ForgetName(name);
}

// An error only says that the kernel does not remember it, or that the mount is gone.
void LinkDirectory::ForgetName(const std::string& name) {
  fuse_lowlevel_notify_inval_entry(impl_->session->handle(), FUSE_ROOT_ID, name.data(),
                                   name.size());
}

void LinkDirectory::Show(const std::string& name) {
  std::scoped_lock lock(impl_->mutex);
  const auto entry = impl_->Find(name);
  if (entry == impl_->entries.end()) return;
  entry->second.listed = true;
  Keep(*impl_, entry->first, entry->second);
  impl_->changed_unix_s = UnixSeconds();
}

void LinkDirectory::SetConfig(std::string text) { impl_->config.Set(std::move(text)); }

void LinkDirectory::Remove(const std::string& name) {
  {
    std::scoped_lock lock(impl_->mutex);
    const auto entry = impl_->Find(name);
    if (entry == impl_->entries.end()) return;
    impl_->keeper->Drop(KeyOf(entry->first));
    impl_->entries.erase(entry);
    impl_->changed_unix_s = UnixSeconds();
  }
  ForgetName(name);
}

}  // namespace forebay
