#include "fuse-client/filesystem.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "common/model/key_rules.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::SampleLink;
using fakes::TempDir;
using Names = std::vector<std::string>;

/// Takes `room` entries, then is full, as a kernel's buffer is.
class Collector final : public FileSystem::EntryVisitor {
 public:
  explicit Collector(std::size_t room) : room_(room) {}
  bool Visit(const FileSystem::Entry& entry) override {
    if (names.size() == room_) return false;
    names.emplace_back(entry.name);
    inodes.push_back(entry.node.attributes.st_ino);
    modes.push_back(entry.node.attributes.st_mode);
    next = entry.next;
    return true;
  }
  Names names;
  std::vector<ino_t> inodes;
  std::vector<mode_t> modes;
  std::uint64_t next = 0;

 private:
  std::size_t room_;
};

class FileSystemTest : public ::testing::Test {
 protected:
  std::unique_ptr<FileSystem> Open(std::map<std::string, std::uint64_t> keys,
                                   std::string_view sub_path = "") {
    link_ = std::make_unique<SampleLink>("sample", std::move(keys));
    link_->BuildSnapshot(dir_ / "s.fbs");
    std::vector<ControlFiles::File> control;
    control.push_back({"stats", [] { return std::string("some text"); }});
    auto files = FileSystem::Make(link_->OpenSnapshot(dir_ / "s.fbs"), options_, sub_path,
                                  std::make_unique<ControlFiles>(std::move(control)));
    if (!files) {
      ADD_FAILURE() << files.error().message;
      return nullptr;
    }
    return std::move(*files);
  }

  /// All names, fetched in pieces of `room`.
  static Names ListAll(const FileSystem& files, std::uint64_t nodeid, std::size_t room = 1000) {
    Names names;
    for (std::uint64_t offset = 0;;) {
      Collector piece(room);
      EXPECT_TRUE(files.ReadDir(nodeid, offset, piece));
      if (piece.names.empty()) return names;
      names.insert(names.end(), piece.names.begin(), piece.names.end());
      offset = piece.next;
    }
  }

  TempDir dir_;
  FileSystemOptions options_{1000, 1001, 0440, 0550};
  std::unique_ptr<SampleLink> link_;
};

TEST_F(FileSystemTest, AttributesComeFromTheListingAndTheOptions) {
  const auto files = Open({{"train/a.jpg", 40'000}, {"train/empty", 0}});
  const auto train = files->Lookup(FileSystem::kRoot, "train");
  ASSERT_TRUE(train);
  EXPECT_EQ(train->attributes.st_mode, mode_t{S_IFDIR | 0550});
  const auto file = files->Lookup(train->attributes.st_ino, "a.jpg");
  ASSERT_TRUE(file);
  const struct stat& a = file->attributes;
  EXPECT_EQ(a.st_mode, mode_t{S_IFREG | 0440});
  EXPECT_EQ(a.st_size, 40'000);
  EXPECT_EQ(a.st_blocks, 79);  // ceil(40000 / 512)
  EXPECT_EQ(a.st_blksize, 128 * 1024);
  EXPECT_EQ(a.st_uid, 1000u);
  EXPECT_EQ(a.st_gid, 1001u);
  EXPECT_EQ(a.st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(a.st_nlink, 1u);
  EXPECT_TRUE(file->lasting);
  const auto again = files->GetAttr(a.st_ino);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->attributes.st_size, 40'000);
  EXPECT_EQ(files->Lookup(train->attributes.st_ino, "empty")->attributes.st_blocks, 0);
}

TEST_F(FileSystemTest, OnlyTheListingSaysThatANameDoesNotExist) {
  const auto files = Open({{"a/b", 1}});
  const auto missing = files->Lookup(FileSystem::kRoot, "b");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  const auto stale = files->Lookup(0x123456789, "b");
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Code::kStale);
  EXPECT_EQ(files->GetAttr(0x123456789).error().code, Code::kStale);
  EXPECT_EQ(files->ContentOf(0x123456789).error().code, Code::kStale);
}

TEST_F(FileSystemTest, ReadDirGoesOnFromAnyOffset) {
  std::map<std::string, std::uint64_t> keys;
  for (int i = 0; i < 100; ++i) keys["d/" + std::to_string(i)] = 1;
  const auto files = Open(std::move(keys));
  const ino_t d = files->Lookup(FileSystem::kRoot, "d")->attributes.st_ino;
  const Names all = ListAll(*files, d);
  ASSERT_EQ(all.size(), 102u);
  EXPECT_EQ(all[0], ".");
  EXPECT_EQ(all[1], "..");
  for (const std::size_t room : {1u, 2u, 3u, 7u, 50u}) EXPECT_EQ(ListAll(*files, d, room), all);
  // Any offset that was given out may come back later, as after a rewinddir or a seekdir.
  std::vector<std::uint64_t> offsets = {0};
  for (std::size_t i = 0; i < all.size(); ++i) {
    Collector one(1);
    ASSERT_TRUE(files->ReadDir(d, offsets.back(), one));
    offsets.push_back(one.next);
  }
  for (std::size_t i = all.size(); i-- > 0;) {
    Collector one(1);
    ASSERT_TRUE(files->ReadDir(d, offsets[i], one));
    EXPECT_EQ(one.names, Names{all[i]});
  }
}

TEST_F(FileSystemTest, ATreeOfRandomNamesIsTheModelsTree) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::map<std::string, std::uint64_t> keys;
  for (int i = 0; i < 500; ++i) {
    std::string key;
    for (unsigned depth = random() % 4; depth > 0; --depth) {
      key += "d" + std::to_string(random() % 5) + "/";
    }
    key += "f" + std::to_string(random() % 1000);
    keys[key] = random() % 100'000;
  }
  const auto files = Open(keys);
  std::map<std::string, std::set<std::string>> model;
  for (const auto& [key, size] : keys) {
    std::string path = key;
    for (std::size_t slash = path.rfind('/');; slash = path.rfind('/')) {
      const bool top = slash == std::string::npos;
      model[top ? "" : path.substr(0, slash)].insert(top ? path : path.substr(slash + 1));
      if (top) break;
      path.resize(slash);
    }
  }
  std::map<std::string, ino_t> directories = {{"", FileSystem::kRoot}};
  std::set<ino_t> inodes = {FileSystem::kRoot};
  for (const auto& [path, names] : model) {  // parents come before their children
    const ino_t directory = directories.at(path);
    Names expected = {".", ".."};
    expected.insert(expected.end(), names.begin(), names.end());
    EXPECT_EQ(ListAll(*files, directory, 1 + random() % 20), expected) << path;
    for (const std::string& name : names) {
      const std::string child = path.empty() ? name : path + "/" + name;
      const auto node = files->Lookup(directory, name);
      ASSERT_TRUE(node) << child;
      EXPECT_TRUE(inodes.insert(node->attributes.st_ino).second) << child;
      EXPECT_EQ(files->PathOf(node->attributes.st_ino), child);
      if (S_ISDIR(node->attributes.st_mode)) {
        directories[child] = node->attributes.st_ino;
      } else {
        EXPECT_EQ(static_cast<std::uint64_t>(node->attributes.st_size), keys.at(child));
      }
    }
  }
}

TEST_F(FileSystemTest, DotDotLeadsUp) {
  const auto files = Open({{"a/b/c", 1}});
  const ino_t a = files->Lookup(FileSystem::kRoot, "a")->attributes.st_ino;
  const ino_t b = files->Lookup(a, "b")->attributes.st_ino;
  for (const auto& [inode, above] : std::map<ino_t, ino_t>{
           {FileSystem::kRoot, FileSystem::kRoot}, {a, FileSystem::kRoot}, {b, a}}) {
    Collector dots(2);
    ASSERT_TRUE(files->ReadDir(inode, 0, dots));
    EXPECT_EQ(dots.inodes, (std::vector<ino_t>{inode, above}));
  }
}

TEST_F(FileSystemTest, ASubPathIsARootOfItsOwn) {
  const auto files = Open({{"a/b/c/file", 5}, {"a/other", 1}}, "a/b");
  EXPECT_EQ(ListAll(*files, FileSystem::kRoot), (Names{".", "..", "c"}));
  const ino_t c = files->Lookup(FileSystem::kRoot, "c")->attributes.st_ino;
  Collector dots(2);
  ASSERT_TRUE(files->ReadDir(c, 0, dots));
  EXPECT_EQ(dots.inodes, (std::vector<ino_t>{c, FileSystem::kRoot}));
  const ino_t file = files->Lookup(c, "file")->attributes.st_ino;
  EXPECT_EQ(files->PathOf(file), "c/file");
  EXPECT_EQ(files->ContentOf(file)->object.key, "a/b/c/file");
}

TEST_F(FileSystemTest, ASubPathMustBeADirectory) {
  SampleLink link("sample", {{"a/b", 1}});
  link.BuildSnapshot(dir_ / "x.fbs");
  const auto snapshot = link.OpenSnapshot(dir_ / "x.fbs");
  EXPECT_EQ(FileSystem::Make(snapshot, {}, "a/x", nullptr).error().code, Code::kNotFound);
  EXPECT_EQ(FileSystem::Make(snapshot, {}, "a/b", nullptr).error().code, Code::kInvalid);
}

TEST_F(FileSystemTest, ContentNamesTheObjectAsItsListingDoes) {
  const auto files = Open({{"train/a.jpg", 40'000}});
  const ino_t train = files->Lookup(FileSystem::kRoot, "train")->attributes.st_ino;
  const ino_t file = files->Lookup(train, "a.jpg")->attributes.st_ino;
  const auto content = files->ContentOf(file);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->object.key, "train/a.jpg");
  EXPECT_EQ(content->object.etag, SampleLink::EtagOf("train/a.jpg"));
  EXPECT_EQ(content->object.size, 40'000u);
  const auto row = files->view()->snapshot->FindNodeid(file);
  EXPECT_EQ(content->version, files->view()->snapshot->VersionOf(*row));
  EXPECT_EQ(files->ContentOf(train).error().code, Code::kInvalid);
}

TEST_F(FileSystemTest, XattrsTellKeyAndEtagOfObjectsOnly) {
  const auto files = Open({{"d/f", 1}});
  const ino_t d = files->Lookup(FileSystem::kRoot, "d")->attributes.st_ino;
  const ino_t f = files->Lookup(d, "f")->attributes.st_ino;
  EXPECT_EQ(files->GetXattr(f, "user.forebay.key").value(), "d/f");
  EXPECT_EQ(files->GetXattr(f, "user.forebay.etag").value(), SampleLink::EtagOf("d/f"));
  EXPECT_EQ(files->GetXattr(f, "security.selinux").error().code, Code::kNotFound);
  EXPECT_EQ(files->GetXattr(d, "user.forebay.key").error().code, Code::kNotFound);
  EXPECT_EQ(files->ListXattr(f).value(), std::string("user.forebay.etag\0user.forebay.key\0", 35));
  EXPECT_EQ(files->ListXattr(d).value(), "");
}

TEST_F(FileSystemTest, WhatIsArchivedHasTheMark) {
  const auto files = Open({{"d/f", 1}, {"glacier/f", 1}});
  const ino_t d = files->Lookup(FileSystem::kRoot, "d")->attributes.st_ino;
  const ino_t glacier = files->Lookup(FileSystem::kRoot, "glacier")->attributes.st_ino;
  const ino_t warm = files->Lookup(d, "f")->attributes.st_ino;
  const ino_t cold = files->Lookup(glacier, "f")->attributes.st_ino;
  EXPECT_EQ(files->GetXattr(warm, "user.forebay.archived").error().code, Code::kNotFound);
  EXPECT_EQ(files->GetXattr(cold, "user.forebay.archived").value(), "1");
  EXPECT_EQ(files->GetXattr(glacier, "user.forebay.archived").error().code, Code::kNotFound);
  EXPECT_TRUE(files->ListXattr(cold).value().ends_with(std::string("user.forebay.archived\0", 22)));
}

TEST_F(FileSystemTest, StatFsTellsTheSizeOfTheLink) {
  const auto files = Open({{"a/1", 10'000}, {"a/2", 1}});
  const struct statvfs totals = files->StatFs();
  EXPECT_EQ(totals.f_blocks, 3u);  // 10,001 bytes in blocks of 4096
  EXPECT_EQ(totals.f_files, 4u);   // two files, "a" and the root
  EXPECT_EQ(totals.f_bfree, 0u);
  EXPECT_EQ(totals.f_namemax, 255u);
}

TEST_F(FileSystemTest, ControlFilesAreFoundByNameAndNeverListed) {
  const auto files = Open({{"a", 1}});
  EXPECT_EQ(ListAll(*files, FileSystem::kRoot), (Names{".", "..", "a"}));
  const auto control = files->Lookup(FileSystem::kRoot, kControlDirectoryName);
  ASSERT_TRUE(control);
  EXPECT_TRUE(S_ISDIR(control->attributes.st_mode));
  const ino_t directory = control->attributes.st_ino;
  EXPECT_EQ(ListAll(*files, directory), (Names{".", "..", "stats"}));
  EXPECT_EQ(ListAll(*files, directory, 1), (Names{".", "..", "stats"}));
  const auto stats = files->Lookup(directory, "stats");
  ASSERT_TRUE(stats);
  EXPECT_FALSE(stats->lasting);
  EXPECT_EQ(stats->attributes.st_size, 9);
  const ino_t inode = stats->attributes.st_ino;
  EXPECT_EQ(files->ContentOf(inode)->bytes->bytes.size(), 9u);
  EXPECT_EQ(files->GetAttr(inode)->attributes.st_size, 9);
  files->Forget(inode);
  EXPECT_EQ(files->GetAttr(inode).error().code, Code::kStale);
}

// A walk of millions of files: the kernel gets inodes of so many, then names alone.
TEST_F(FileSystemTest, TheKernelIsGivenOnlySoManyInodesByDirectories) {
  options_.primed_inodes = 3;
  const auto files = Open({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"dir/f", 1}});
  ASSERT_NE(files, nullptr);
  const auto node = [&](std::string_view name) { return *files->Lookup(FileSystem::kRoot, name); };
  const auto directory = node("dir");
  Collector all(100);
  ASSERT_TRUE(files->ReadDir(FileSystem::kRoot, 0, all));
  std::vector<FileSystem::Node> nodes;
  for (std::size_t i = 2; i < all.names.size(); ++i) {
    if (all.names[i] != "dir") nodes.push_back(*files->GetAttr(all.inodes[i]));
  }
  ASSERT_EQ(nodes.size(), 5u);
  EXPECT_TRUE(files->MayPrime(nodes[0]));
  EXPECT_TRUE(files->MayPrime(nodes[0])) << "the same again counts once";
  EXPECT_TRUE(files->MayPrime(nodes[1]));
  EXPECT_TRUE(files->MayPrime(nodes[2]));
  EXPECT_FALSE(files->MayPrime(nodes[3]));
  EXPECT_TRUE(files->MayPrime(directory)) << "it is entered next";
  EXPECT_EQ(node("e").attributes.st_ino, nodes[4].attributes.st_ino) << "who looks gets one";
  files->Forget(nodes[1].attributes.st_ino);
  EXPECT_FALSE(files->MayPrime(nodes[3])) << "e has its place";
  files->Forget(nodes[4].attributes.st_ino);
  EXPECT_TRUE(files->MayPrime(nodes[3]));
  EXPECT_FALSE(files->MayPrime(
      files->Lookup(node(kControlDirectoryName).attributes.st_ino, "stats").value()));
}

// Mounting `/` shows every link by a file system of its own, in one process.
TEST_F(FileSystemTest, AllMountsOfAProcessShareTheBound) {
  KernelInodeTotal total;
  options_.primed_inodes = 3;
  options_.kernel_inodes = std::make_shared<KernelInodes>(OwnedFd(), &total);
  const auto one = Open({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}});
  const auto nodes = [](FileSystem& files) {
    std::vector<FileSystem::Node> found;
    Collector all(100);
    EXPECT_TRUE(files.ReadDir(FileSystem::kRoot, 2, all));
    for (const ino_t inode : all.inodes) found.push_back(*files.GetAttr(inode));
    return found;
  };
  const std::vector<FileSystem::Node> of_one = nodes(*one);
  ASSERT_EQ(of_one.size(), 4u);
  EXPECT_TRUE(one->MayPrime(of_one[0]));
  EXPECT_TRUE(one->MayPrime(of_one[1]));
  options_.kernel_inodes = std::make_shared<KernelInodes>(OwnedFd(), &total);
  auto other = Open({{"a", 1}, {"b", 1}, {"c", 1}});
  const std::vector<FileSystem::Node> of_other = nodes(*other);
  EXPECT_TRUE(other->MayPrime(of_other[0]));
  EXPECT_FALSE(other->MayPrime(of_other[1]));
  EXPECT_FALSE(one->MayPrime(of_one[2]));
  EXPECT_TRUE(one->KernelKnows(of_one[0].attributes.st_ino));
  EXPECT_FALSE(one->KernelKnows(of_one[2].attributes.st_ino));
  options_.kernel_inodes.reset();
  other.reset();  // unmounted: the kernel holds none of its inodes any more
  EXPECT_TRUE(one->MayPrime(of_one[2]));
  EXPECT_FALSE(one->MayPrime(of_one[3]));
}

}  // namespace
}  // namespace forebay
