#include "fuse-client/filesystem.h"

#include <utility>
#include <vector>

#include "common/model/key_rules.h"
#include "common/model/limits.h"

namespace forebay {

namespace {

constexpr std::uint64_t kDotOffset = 0;
constexpr std::uint64_t kDotDotOffset = 1;
constexpr std::uint64_t kFirstEntryOffset = 2;

constexpr std::string_view kEtagXattr = "user.forebay.etag";
constexpr std::string_view kKeyXattr = "user.forebay.key";
constexpr std::string_view kAttributesXattr = "user.forebay.attributes";
/// "1" on what S3 lists as archived; other files do not have it.
constexpr std::string_view kArchivedXattr = "user.forebay.archived";

/// Offsets of entries say which generation they count in: its last 15 bits stand above 48 bits of
/// position, so that the sign bit stays free.
constexpr int kGenerationShift = 48;
constexpr std::uint64_t kGenerationMask = 0x7fff;
constexpr std::uint64_t kPositionMask = (1ULL << kGenerationShift) - 1;

std::uint64_t TagOf(const Snapshot& snapshot) { return snapshot.id().generation & kGenerationMask; }

std::uint64_t OffsetOf(const Snapshot& snapshot, std::uint64_t position) {
  return TagOf(snapshot) << kGenerationShift | (kFirstEntryOffset + position);
}

std::uint64_t PositionOf(std::uint64_t offset) {
  const std::uint64_t place = offset & kPositionMask;
  return place <= kFirstEntryOffset ? 0 : place - kFirstEntryOffset;
}

/// The generation that `offset` counts in; null when it is not kept any more.
const Snapshot* GenerationOf(const GenerationView& view, std::uint64_t offset) {
  const std::uint64_t tag = offset >> kGenerationShift;
  if (offset <= kFirstEntryOffset || tag == TagOf(*view.snapshot)) return view.snapshot.get();
  for (const auto& earlier : view.earlier) {
    if (TagOf(*earlier) == tag) return earlier.get();
  }
  return nullptr;
}

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
  Result<std::unique_ptr<Generations>> generations =
      Generations::Make(std::move(snapshot), sub_path);
  if (!generations) return Fail(generations.error());
  return std::unique_ptr<FileSystem>(
      new FileSystem(std::move(*generations), std::move(options), std::move(control)));
}

FileSystem::FileSystem(std::unique_ptr<Generations> generations, FileSystemOptions options,
                       std::unique_ptr<ControlFiles> control)
    : generations_(std::move(generations)),
      options_(std::move(options)),
      control_(std::move(control)),
      kernel_inodes_(options_.kernel_inodes ? options_.kernel_inodes
                                            : std::make_shared<KernelInodes>()) {}

/// Of the current generation: a directory that is gone has no entries to look for.
Result<SnapshotRow> FileSystem::DirectoryRowOf(const GenerationView& view, std::uint64_t nodeid) {
  const std::optional<GenerationView::Found> found = view.Find(nodeid);
  if (!found || !found->current) return Gone(nodeid);
  if (!found->row.is_directory()) {
    return Fail(Code::kInvalid, view.snapshot->PathOf(found->row) + " is not a directory");
  }
  return found->row;
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
  attributes.st_blksize = options_.block_size_hint;
  attributes.st_blocks = static_cast<blkcnt_t>((size + 511) / 512);
  attributes.st_mtim.tv_sec = mtime;
  attributes.st_ctim.tv_sec = mtime;
  attributes.st_atim.tv_sec = mtime;
  return node;
}

FileSystem::Node FileSystem::NodeOf(const GenerationView& view, const Snapshot& snapshot,
                                    const SnapshotRow& row) const {
  const mode_t mode =
      row.is_directory() ? (S_IFDIR | options_.dir_mode) : (S_IFREG | options_.file_mode);
  const std::uint64_t nodeid = row.nodeid == view.root.nodeid ? kRoot : row.nodeid;
  Node node = MakeNode(nodeid, mode, row.size, row.mtime_unix_s);
  const std::optional<PosixAttributes> posix = snapshot.PosixOf(row);
  if (!posix) return node;
  struct stat& attributes = node.attributes;
  if (posix->mode) attributes.st_mode = (attributes.st_mode & S_IFMT) | *posix->mode;
  attributes.st_uid = posix->uid.value_or(attributes.st_uid);
  attributes.st_gid = posix->gid.value_or(attributes.st_gid);
  if (posix->mtime) {
    attributes.st_mtim.tv_sec = posix->mtime->unix_s;
    attributes.st_mtim.tv_nsec = posix->mtime->nanoseconds;
  }
  return node;
}

FileSystem::Node FileSystem::ControlDirectory() const {
  return MakeNode(kControlDirectoryNodeid, S_IFDIR | options_.dir_mode, 0, RootTime());
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
  const std::shared_ptr<const GenerationView> view = generations_->view();
  const Result<SnapshotRow> directory = DirectoryRowOf(*view, parent);
  if (!directory) return Fail(directory.error());
  const std::optional<SnapshotRow> row = view->snapshot->Lookup(directory->directory, name);
  if (row) {
    if (!row->is_directory()) kernel_inodes_->Given(row->nodeid);
    return NodeOf(*view, *view->snapshot, *row);
  }
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
  const std::shared_ptr<const GenerationView> view = generations_->view();
  const std::optional<GenerationView::Found> found = view->Find(nodeid);
  if (!found) return Gone(nodeid);
  return NodeOf(*view, *found->snapshot, found->row);
}

Status FileSystem::ReadControlDir(std::uint64_t offset, EntryVisitor& visitor) const {
  const std::shared_ptr<const GenerationView> view = generations_->view();
  if (offset <= kDotOffset && !visitor.Visit({".", ControlDirectory(), kDotDotOffset})) return {};
  if (offset <= kDotDotOffset &&
      !visitor.Visit({"..", NodeOf(*view, *view->snapshot, view->root), kFirstEntryOffset})) {
    return {};
  }
  const auto& files = control_->files();
  const std::uint64_t first = offset <= kFirstEntryOffset ? 0 : offset - kFirstEntryOffset;
  for (std::uint64_t i = first; i < files.size(); ++i) {
    const Node node = ControlFile({kControlNodeidBit | (i + 1), 0, RootTime()});
    if (!visitor.Visit({files[i].name, node, kFirstEntryOffset + i + 1})) return {};
  }
  return {};
}

Status FileSystem::ReadDir(std::uint64_t nodeid, std::uint64_t offset,
                           EntryVisitor& visitor) const {
  if (control_ && nodeid == kControlDirectoryNodeid) return ReadControlDir(offset, visitor);
  const std::shared_ptr<const GenerationView> view = generations_->view();
  // Who has begun to read an earlier generation goes on there: each entry comes once.
  if (const Snapshot* begun = GenerationOf(*view, offset); begun != view->snapshot.get()) {
    const auto row = begun != nullptr ? begun->FindNodeid(nodeid) : std::nullopt;
    const auto root = nodeid == kRoot && begun != nullptr
                          ? begun->Resolve(view->snapshot->PathOf(view->root))
                          : row;
    if (!root || !root->is_directory()) return Gone(nodeid);
    return ReadEntries(*view, *begun, root->directory, PositionOf(offset), visitor);
  }
  const Result<SnapshotRow> row = DirectoryRowOf(*view, nodeid);
  if (!row) return Fail(row.error());
  const Snapshot& snapshot = *view->snapshot;
  if (offset <= kDotOffset && !visitor.Visit({".", NodeOf(*view, snapshot, *row), kDotDotOffset}))
    return {};
  if (offset <= kDotDotOffset) {
    const auto parent = snapshot.DirectoryAt(snapshot.ParentOf(*row));
    const auto parent_row = parent ? snapshot.RowAt(parent->row) : std::nullopt;
    const Node above =
        NodeOf(*view, snapshot, nodeid == kRoot || !parent_row ? view->root : *parent_row);
    if (!visitor.Visit({"..", above, OffsetOf(snapshot, 0)})) return {};
  }
  return ReadEntries(*view, snapshot, row->directory, PositionOf(offset), visitor);
}

Status FileSystem::ReadEntries(const GenerationView& view, const Snapshot& snapshot,
                               std::uint32_t directory, std::uint64_t position,
                               EntryVisitor& visitor) const {
  DirectoryCursor cursor = snapshot.ReadDirectory(directory, position);
  while (cursor.Next()) {
    const Node node = NodeOf(view, snapshot, cursor.row());
    if (!visitor.Visit({cursor.name(), node, OffsetOf(snapshot, cursor.position())})) return {};
  }
  if (cursor.damaged()) return DamagedListing();
  return {};
}

struct statvfs FileSystem::StatFs() const {
  const std::shared_ptr<const GenerationView> view = generations_->view();
  const SnapshotTotals& totals = view->snapshot->totals();
  struct statvfs out{};
  out.f_bsize = 4096;
  out.f_frsize = 4096;
  out.f_blocks = (totals.bytes + out.f_frsize - 1) / out.f_frsize;
  out.f_files = totals.objects + totals.directories;
  out.f_namemax = kMaxNameBytes;
  return out;
}

Result<std::string> FileSystem::GetXattr(std::uint64_t nodeid, std::string_view name) const {
  const bool known =
      name == kEtagXattr || name == kKeyXattr || name == kAttributesXattr || name == kArchivedXattr;
  if (!known) return Fail(Code::kNotFound, "no such attribute");
  const std::shared_ptr<const GenerationView> view = generations_->view();
  const std::optional<GenerationView::Found> found = view->Find(nodeid);
  if (!found || found->row.is_directory()) return Fail(Code::kNotFound, "only objects have it");
  const Snapshot& snapshot = *found->snapshot;
  if (name == kAttributesXattr) {
    const std::vector<AttributeLine> lines = snapshot.LinesOf(found->row);
    if (lines.empty()) return Fail(Code::kNotFound, "no line of a manifest names it");
    return std::string(lines.front().json);
  }
  if (name == kArchivedXattr) {
    if (!found->row.archived) return Fail(Code::kNotFound, "it is not archived");
    return std::string("1");
  }
  return name == kEtagXattr ? snapshot.EtagOf(found->row) : snapshot.KeyOf(found->row);
}

Result<std::string> FileSystem::ListXattr(std::uint64_t nodeid) const {
  const std::optional<GenerationView::Found> found = generations_->view()->Find(nodeid);
  std::string names;
  if (!found || found->row.is_directory()) return names;
  for (const std::string_view name : {kEtagXattr, kKeyXattr}) {
    names.append(name).push_back('\0');
  }
  if (!found->snapshot->LinesOf(found->row).empty()) names.append(kAttributesXattr).push_back('\0');
  if (found->row.archived) names.append(kArchivedXattr).push_back('\0');
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
  const std::shared_ptr<const GenerationView> view = generations_->view();
  const std::optional<GenerationView::Found> found = view->Find(nodeid);
  if (!found) return Gone(nodeid);
  const SnapshotRow& row = found->row;
  if (row.is_directory()) return Fail(Code::kInvalid, PathOf(nodeid) + " is a directory");
  const Snapshot& snapshot = *found->snapshot;
  content.object = ObjectRef{snapshot.KeyOf(row), snapshot.EtagOf(row), row.size};
  const SnapshotSource& source = snapshot.source();
  content.version = ComputeObjectVersion({snapshot.domain(), source.endpoint, source.bucket,
                                          content.object.key, content.object.etag, row.size});
  return content;
}

std::string FileSystem::PathOf(std::uint64_t nodeid) const {
  const std::shared_ptr<const GenerationView> view = generations_->view();
  const std::optional<GenerationView::Found> found = view->Find(nodeid);
  if (!found) return "inode " + std::to_string(nodeid);
  std::string path = found->snapshot->PathOf(found->row);
  const std::string root = view->snapshot->PathOf(view->root);
  if (!root.empty() && path.starts_with(root + "/")) path.erase(0, root.size() + 1);
  return path;
}

bool FileSystem::MayPrime(const Node& node) const {
  if (!node.lasting) return false;
  if (S_ISDIR(node.attributes.st_mode)) return true;
  if (kernel_inodes_->count_of_all() >= options_.primed_inodes) return false;
  kernel_inodes_->Given(node.attributes.st_ino);
  return true;
}

void FileSystem::Forget(std::uint64_t nodeid) {
  kernel_inodes_->Forgotten(nodeid);
  if (control_ && IsControlFile(nodeid)) control_->Forget(nodeid);
}

}  // namespace forebay
