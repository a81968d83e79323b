#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "common/model/limits.h"
#include "common/snapshot/snapshot.h"
#include "common/snapshot/snapshot_builder.h"
#include "tests/fakes/temp_dir.h"
#include "tests/fuzz/fuzz_targets.h"

namespace forebay {
namespace {

constexpr std::uint32_t kLooks = 200;  // rows, directories and visits of one input

/// The one file that every input is written to.
class OneFile {
 public:
  OneFile()
      : path_(dir_ / "snapshot"), fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    Require(fd_ >= 0);
  }
  ~OneFile() { ::close(fd_); }
  OneFile(const OneFile&) = delete;
  OneFile& operator=(const OneFile&) = delete;

  const std::string& Write(std::string_view bytes) const {
    Require(::ftruncate(fd_, 0) == 0);
    Require(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return path_;
  }

 private:
  fakes::TempDir dir_;
  const std::string path_;
  const int fd_;
};

/// Makes right what a damaged file has wrong first, so that what comes behind is reached.
void MendHeader(std::string& bytes) {
  SnapshotHeader header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.magic = kSnapshotMagic;
  if (header.format != kSnapshotFormatWithExtras) header.format = kSnapshotFormat;
  header.header_bytes = sizeof header;
  header.file_bytes = bytes.size();
  header.checksum = XXH3_64bits(&header, offsetof(SnapshotHeader, checksum));
  std::memcpy(bytes.data(), &header, sizeof header);
}

void RequireSoundOrCorrupt(const Status& status) {
  Require(status.has_value() || status.error().code == Code::kCorrupt);
}

void UseRow(const Snapshot& snapshot, const SnapshotRow& row) {
  Require(row.is_directory() || row.directory == 0);
  Require(snapshot.NameOf(row).size() <= kMaxNameBytes);
  (void)snapshot.PathOf(row);
  (void)snapshot.KeyOf(row);
  (void)snapshot.EtagOf(row);
  if (!row.is_directory()) (void)snapshot.VersionOf(row);
  (void)snapshot.PosixOf(row);
  (void)snapshot.LinesOf(row);
  (void)snapshot.Lookup(snapshot.ParentOf(row), snapshot.NameOf(row));
  const auto found = snapshot.FindNodeid(row.nodeid);
  Require(!found || found->nodeid == row.nodeid);
}

void UseDirectory(const Snapshot& snapshot, std::uint32_t number) {
  const auto directory = snapshot.DirectoryAt(number);
  DirectoryCursor cursor = snapshot.ReadDirectory(number);
  std::uint64_t entries = 0;
  while (entries < kLooks && cursor.Next()) {
    ++entries;
    Require(directory.has_value() && entries <= directory->row_count);
    Require(cursor.row().index < snapshot.rows() && cursor.name().size() <= kMaxNameBytes);
    if (const auto found = snapshot.Lookup(number, cursor.name())) {
      Require(found->index < snapshot.rows());
    }
  }
}

void UseAll(const Snapshot& snapshot) {
  RequireSoundOrCorrupt(snapshot.VerifyAll());
  (void)snapshot.Digest();
  for (std::uint32_t i = 0; i < std::min(snapshot.rows(), kLooks); ++i) {
    if (const auto row = snapshot.RowAt(i)) UseRow(snapshot, *row);
  }
  Require(!snapshot.RowAt(snapshot.rows()) && !snapshot.DirectoryAt(snapshot.directories()));
  for (std::uint32_t d = 0; d < std::min(snapshot.directories(), kLooks); ++d) {
    UseDirectory(snapshot, d);
  }
  (void)snapshot.Resolve("a/b/c.bin");
  std::uint32_t left = kLooks;
  RequireSoundOrCorrupt(snapshot.ForEachFile(
      kRootDirectory, [&](const SnapshotRow&, std::string_view) { return --left > 0; }));
  left = kLooks;
  RequireSoundOrCorrupt(
      snapshot.ForEachHidden([&](std::string_view, HiddenReason) { return --left > 0; }));
  left = kLooks;
  RequireSoundOrCorrupt(
      snapshot.ForEachLine([&](const SnapshotRow&, std::string_view) { return --left > 0; }));
}

std::string BytesOf(const std::vector<ListedKey>& keys, const std::string& prefix) {
  const fakes::TempDir dir;
  SnapshotBuilder builder(
      {.id = {.link = Uuid::Parse("10000000-0000-4000-8000-000000000002"), .generation = 3},
       .domain = Uuid::Parse("d0000000-1111-4222-8333-444444444444"),
       .endpoint = "http://s3",
       .bucket = "bucket",
       .prefix = prefix,
       .block_bytes = 4 << 20,
       .listed_unix_s = 1'700'000'000,
       .previous = nullptr},
      dir / "seed");
  for (const ListedKey& key : keys) Require(builder.Add(key).has_value());
  Require(builder.Finish().has_value());
  std::ifstream file(dir / "seed", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

void RunSnapshotInput(std::string_view input) {
  if (input.empty()) return;
  static const OneFile file;
  std::string bytes(input.substr(1));
  if ((static_cast<unsigned char>(input.front()) & 1) != 0) MendHeader(bytes);
  const auto snapshot = Snapshot::Open(file.Write(bytes));
  if (snapshot) {
    UseAll(**snapshot);
  } else {
    Require(snapshot.error().code == Code::kCorrupt);
  }
}

Seeds SnapshotSeeds() {
  const std::string md5 = "d41d8cd98f00b204e9800998ecf8427e";
  const std::vector<ListedKey> tree = {
      {.key = "a/b/c.bin", .size = 9, .etag = md5, .mtime_unix_s = 5},
      {.key = "a/b/d.bin", .size = 8, .etag = "opaque-tag"},
      {.key = "a/e/", .etag = md5},
      {.key = "a//x", .size = 1, .etag = md5},
      {.key = "n01440764_10026.JPEG", .size = 40'000, .etag = md5},
      {.key = "n01440764_10027.JPEG", .size = 40'000, .etag = md5},
      {.key = "n01440764_10029.JPEG", .size = 40'000, .etag = md5, .archived = true}};
  const std::vector<ListedKey> one = {{.key = "a/k", .size = 1, .etag = md5}};
  static const PosixAttributes posix{
      .mode = 0640, .uid = 1000, .mtime = PosixAttributes::Time{.unix_s = 7, .nanoseconds = 8}};
  static const AttributeLine lines[] = {{.place = 2, .json = "{}"}, {.place = 4, .json = "{}"}};
  const std::vector<ListedKey> extras = {
      {.key = "a/1", .size = 1, .etag = md5, .posix = &posix, .lines = lines},
      {.key = "a/2", .size = 1, .etag = md5, .lines = std::span(lines).first(1)},
      {.key = "b/", .etag = md5, .posix = &posix}};
  return {{"tree", "\1" + BytesOf(tree, "")},
          {"tree-as-it-is", std::string(1, '\0') + BytesOf(tree, "")},
          {"empty", "\1" + BytesOf({}, "")},
          {"extras", "\1" + BytesOf(extras, "")},
          {"single", "\1" + BytesOf(one, "a/k")}};
}

}  // namespace forebay
