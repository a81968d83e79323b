#include "fuse-client/filesystem.h"

#include <utility>

#include "common/model/key_rules.h"
#include "common/model/limits.h"

namespace forebay {

namespace {

constexpr std::uint64_t kDotOffset = 0;
constexpr std::uint64_t kDotDotOffset = 1;
constexpr std::uint64_t kFirstEntryOffset = 2;

constexpr std::string_view kEtagXattr = "user.forebay.etag";
constexpr std::string_view kKeyXattr = "user.forebay.key";

bool IsControlFile(std::uint64_t nodeid) { return (nodeid & kControlNodeidBit) != 0; }

std::unexpected<Error> Gone(std::uint64_t nodeid) {
  return Fail(Code::kStale, "inode " + std::to_string(nodeid) +
                                " is not in the listing any more; open the path again");
}

std::unexpected<Error> DamagedListing() {
  return Fail(Code::kCorrupt,
              "the local copy of the listing is damaged; mount again to fetch a fresh one");
}

}  // namespace

Result<std::unique_ptr<FileSystem>> FileSystem::Make(std::shared_ptr<const Snapshot> snapshot,
                                                     FileSystemOptions options,
                                                     std::string_view sub_path,
                                                     std::unique_ptr<ControlFiles> control) {
  const std::optional<SnapshotRow> root = snapshot->Resolve(sub_path);
  if (!root) {
    return Fail(Code::kNotFound,
                "there is no directory \"" + std::string(sub_path) + "\"; see `forebay ls`");
  }
  if (!root->is_directory()) {
    return Fail(Code::kInvalid,
                "\"" + std::string(sub_path) + "\" is a file; mount the directory that holds it");
  }
  return std::unique_ptr<FileSystem>(
      new FileSystem(std::move(snapshot), options, *root, std::move(control)));
}

FileSystem::FileSystem(std::shared_ptr<const Snapshot> snapshot, FileSystemOptions options,
                       SnapshotRow root, std::unique_ptr<ControlFiles> control)
    : snapshot_(std::move(snapshot)),
      options_(options),
      root_(root),
      control_(std::move(control)) {}

std::optional<SnapshotRow> FileSystem::RowOf(std::uint64_t nodeid) const {
  if (nodeid == kRoot) return root_;
  return snapshot_->FindNodeid(nodeid);
}

Result<SnapshotRow> FileSystem::DirectoryRowOf(std::uint64_t nodeid) const {
  const std::optional<SnapshotRow> row = RowOf(nodeid);
  if (!row) return Gone(nodeid);
  if (!row->is_directory()) return Fail(Code::kInvalid, PathOf(nodeid) + " is not a directory");
  return *row;
}

std::uint64_t FileSystem::NodeidOf(const SnapshotRow& row) const {
  return row.index == root_.index ? kRoot : row.nodeid;
}

FileSystem::Node FileSystem::MakeNode(std::uint64_t nodeid, mode_t mode, std::uint64_t size,
                                      std::int64_t mtime) const {
  Node node{};
  node.lasting = true;
  struct stat& attributes = node.attributes;
  attributes.st_ino = nodeid;
  attributes.st_mode = mode;
  // A directory's count says nothing about its subdirectories: 1 tells `find` so.
  attributes.st_nlink = 1;
  attributes.st_uid = options_.uid;
  attributes.st_gid = options_.gid;
  attributes.st_size = static_cast<off_t>(size);
  attributes.st_blksize = kBlockSizeHint;
  attributes.st_blocks = static_cast<blkcnt_t>((size + 511) / 512);
  attributes.st_mtim.tv_sec = mtime;
  attributes.st_ctim.tv_sec = mtime;
  attributes.st_atim.tv_sec = mtime;
  return node;
}

FileSystem::Node FileSystem::NodeOf(const SnapshotRow& row) const {
  const mode_t mode =
      row.is_directory() ? (S_IFDIR | options_.dir_mode) : (S_IFREG | options_.file_mode);
  return MakeNode(NodeidOf(row), mode, row.size, row.mtime_unix_s);
}

FileSystem::Node FileSystem::ControlDirectory() const {
  return MakeNode(kControlDirectoryNodeid, S_IFDIR | options_.dir_mode, 0, root_.mtime_unix_s);
}

FileSystem::Node FileSystem::ControlFile(const ControlFiles::Rendering& rendering) const {
  Node node =
      MakeNode(rendering.nodeid, S_IFREG | options_.file_mode, rendering.size, rendering.unix_s);
  node.lasting = false;
  return node;
}

Result<FileSystem::Node> FileSystem::LookupControl(std::string_view name) {
  const Result<ControlFiles::Rendering> rendering = control_->Lookup(name);
  if (!rendering) return Fail(rendering.error());
  return ControlFile(*rendering);
}

bool FileSystem::IsSlow(std::uint64_t parent, std::string_view name) const {
  return control_ && parent == kControlDirectoryNodeid && control_->IsSlow(name);
}

Result<FileSystem::Node> FileSystem::Lookup(std::uint64_t parent, std::string_view name) {
  if (control_ && parent == kControlDirectoryNodeid) return LookupControl(name);
  const Result<SnapshotRow> directory = DirectoryRowOf(parent);
  if (!directory) return Fail(directory.error());
  const std::optional<SnapshotRow> row = snapshot_->Lookup(directory->directory, name);
  if (row) return NodeOf(*row);
  // After the data: below a sub-path an object may have this name, and data comes first.
  if (control_ && parent == kRoot && name == kControlDirectoryName) return ControlDirectory();
  return Fail(Code::kNotFound, "no such entry");
}

Result<FileSystem::Node> FileSystem::GetAttr(std::uint64_t nodeid) const {
  if (control_ && nodeid == kControlDirectoryNodeid) return ControlDirectory();
  if (control_ && IsControlFile(nodeid)) {
    const auto rendering = control_->Find(nodeid);
    if (!rendering) return Gone(nodeid);
    return ControlFile(*rendering);
  }
  const std::optional<SnapshotRow> row = RowOf(nodeid);
  if (!row) return Gone(nodeid);
  return NodeOf(*row);
}

Status FileSystem::ReadControlDir(std::uint64_t offset, EntryVisitor& visitor) const {
  if (offset <= kDotOffset && !visitor.Visit({".", ControlDirectory(), kDotDotOffset})) return {};
  if (offset <= kDotDotOffset && !visitor.Visit({"..", NodeOf(root_), kFirstEntryOffset})) {
    return {};
  }
  const auto& files = control_->files();
  const std::uint64_t first = offset <= kFirstEntryOffset ? 0 : offset - kFirstEntryOffset;
  for (std::uint64_t i = first; i < files.size(); ++i) {
    const Node node = ControlFile({kControlNodeidBit | (i + 1), 0, root_.mtime_unix_s});
    if (!visitor.Visit({files[i].name, node, kFirstEntryOffset + i + 1})) return {};
  }
  return {};
}

Status FileSystem::ReadDir(std::uint64_t nodeid, std::uint64_t offset,
                           EntryVisitor& visitor) const {
  if (control_ && nodeid == kControlDirectoryNodeid) return ReadControlDir(offset, visitor);
  const Result<SnapshotRow> row = DirectoryRowOf(nodeid);
  if (!row) return Fail(row.error());
  if (offset <= kDotOffset && !visitor.Visit({".", NodeOf(*row), kDotDotOffset})) return {};
  if (offset <= kDotDotOffset) {
    const auto parent = snapshot_->DirectoryAt(snapshot_->ParentOf(*row));
    const auto parent_row = parent ? snapshot_->RowAt(parent->row) : std::nullopt;
    const Node above = NodeOf(nodeid == kRoot || !parent_row ? root_ : *parent_row);
    if (!visitor.Visit({"..", above, kFirstEntryOffset})) return {};
  }
  const std::uint64_t position = offset <= kFirstEntryOffset ? 0 : offset - kFirstEntryOffset;
  DirectoryCursor cursor = snapshot_->ReadDirectory(row->directory, position);
  while (cursor.Next()) {
    const Node node = NodeOf(cursor.row());
    if (!visitor.Visit({cursor.name(), node, kFirstEntryOffset + cursor.position()})) return {};
  }
  if (cursor.damaged()) return DamagedListing();
  return {};
}

struct statvfs FileSystem::StatFs() const {
  const SnapshotTotals& totals = snapshot_->totals();
  struct statvfs out{};
  out.f_bsize = 4096;
  out.f_frsize = 4096;
  out.f_blocks = (totals.bytes + out.f_frsize - 1) / out.f_frsize;
  out.f_files = totals.objects + totals.directories;
  out.f_namemax = kMaxNameBytes;
  return out;
}

Result<std::string> FileSystem::GetXattr(std::uint64_t nodeid, std::string_view name) const {
  if (name != kEtagXattr && name != kKeyXattr) return Fail(Code::kNotFound, "no such attribute");
  const std::optional<SnapshotRow> row = RowOf(nodeid);
  if (!row || row->is_directory()) return Fail(Code::kNotFound, "only objects have it");
  return name == kEtagXattr ? snapshot_->EtagOf(*row) : snapshot_->KeyOf(*row);
}

Result<std::string> FileSystem::ListXattr(std::uint64_t nodeid) const {
  const std::optional<SnapshotRow> row = RowOf(nodeid);
  std::string names;
  if (!row || row->is_directory()) return names;
  for (const std::string_view name : {kEtagXattr, kKeyXattr}) {
    names.append(name).push_back('\0');
  }
  return names;
}

Result<FileSystem::Content> FileSystem::ContentOf(std::uint64_t nodeid) const {
  Content content;
  if (control_ && IsControlFile(nodeid)) {
    content.bytes = control_->Read(nodeid);
    if (!content.bytes) return Gone(nodeid);
    content.object.size = content.bytes->bytes.size();
    return content;
  }
  const std::optional<SnapshotRow> row = RowOf(nodeid);
  if (!row) return Gone(nodeid);
  if (row->is_directory()) return Fail(Code::kInvalid, PathOf(nodeid) + " is a directory");
  content.object = ObjectRef{snapshot_->KeyOf(*row), snapshot_->EtagOf(*row), row->size};
  const SnapshotSource& source = snapshot_->source();
  content.version = ComputeObjectVersion({snapshot_->domain(), source.endpoint, source.bucket,
                                          content.object.key, content.object.etag, row->size});
  return content;
}

std::string FileSystem::PathOf(std::uint64_t nodeid) const {
  const std::optional<SnapshotRow> row = RowOf(nodeid);
  if (!row) return "inode " + std::to_string(nodeid);
  std::string path = snapshot_->PathOf(*row);
  const std::string root = snapshot_->PathOf(root_);
  if (!root.empty() && path.starts_with(root + "/")) path.erase(0, root.size() + 1);
  return path;
}

void FileSystem::Forget(std::uint64_t nodeid) {
  if (control_ && IsControlFile(nodeid)) control_->Forget(nodeid);
}

}  // namespace forebay
