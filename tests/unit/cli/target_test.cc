#include "cli/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

/// Folders that a mount table of the test's own declares to be mounts.
class Target : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::canonical(temp_.path()).string();
    table_ = root_ + "/mountinfo";
    std::ofstream(table_) << "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
    start_ = fs::current_path();
  }
  void TearDown() override { fs::current_path(start_); }

  /// A mount of ours with the folder train/val in it.
  std::string Mount(const std::string& name, const std::string& config,
                    const std::string& device = "0:40") {
    const std::string place = root_ + "/" + name;
    fs::create_directories(place + "/.forebay");
    fs::create_directories(place + "/train/val");
    std::ofstream(place + "/.forebay/config") << config;
    AddLine(place, "/", device, "fuse.forebay");
    return place;
  }
  void AddLine(std::string place, const std::string& root, const std::string& device,
               const std::string& type) {
    for (std::size_t at = 0; (at = place.find(' ', at)) != std::string::npos;) {
      place.replace(at, 1, "\\040");
    }
    std::ofstream(table_, std::ios::app)
        << "9 1 " << device << " " << root << " " << place << " ro,nosuid shared:7 master:1 - "
        << type << " imagenet ro\n";
  }
  std::string Resolved(const std::string& text) {
    auto target = ResolveTargetText(text, {.mount_table = table_});
    return target ? *target : "error: " + target.error().error.message;
  }

  fakes::TempDir temp_;
  std::string root_;
  std::string table_;
  fs::path start_;
};

constexpr const char* kWhole = R"({"link":"imagenet","sub_path":""})";
constexpr const char* kPart = R"({"link":"imagenet","sub_path":"data/"})";

TEST_F(Target, NamesAndLocationsStayAsTheyAre) {
  for (const char* text : {"imagenet", "imagenet/train/", "s3://b/pre/", "s3://b/a//b"}) {
    EXPECT_EQ(Resolved(text), text);
  }
}

TEST_F(Target, APathInAMountIsTheSameHoweverItIsWritten) {
  const std::string mount = Mount("m", kWhole);
  fs::create_directory_symlink(mount + "/train", root_ + "/shortcut");
  EXPECT_EQ(Resolved(mount), "imagenet");
  EXPECT_EQ(Resolved(mount + "/"), "imagenet");
  EXPECT_EQ(Resolved(mount + "/train/val"), "imagenet/train/val");
  EXPECT_EQ(Resolved(mount + "/train//val/"), "imagenet/train/val");
  EXPECT_EQ(Resolved(mount + "/train/../train/val/."), "imagenet/train/val");
  EXPECT_EQ(Resolved(root_ + "/shortcut/val"), "imagenet/train/val");
  fs::current_path(mount + "/train");
  EXPECT_EQ(Resolved("val"), "imagenet/train/val");
  EXPECT_EQ(Resolved("."), "imagenet/train");
  EXPECT_EQ(Resolved("../train/val/"), "imagenet/train/val");
  fs::current_path(root_);
  EXPECT_EQ(Resolved("m/train"), "imagenet/train");
  EXPECT_EQ(Resolved("shortcut"), "imagenet/train");
}

TEST_F(Target, AMountOfASubFolderAddsIt) {
  const std::string mount = Mount("m", kPart);
  EXPECT_EQ(Resolved(mount), "imagenet/data");
  EXPECT_EQ(Resolved(mount + "/train"), "imagenet/data/train");
}

TEST_F(Target, APlaceWithBlanksIsFound) {
  EXPECT_EQ(Resolved(Mount("my data", kWhole) + "/train"), "imagenet/train");
}

TEST_F(Target, WhatDoesNotExistInAMountIsLeftToTheCoordinator) {
  const std::string mount = Mount("m", kWhole);
  EXPECT_EQ(Resolved(mount + "/gone/x.jpg"), "imagenet/gone/x.jpg");
}

TEST_F(Target, ALocalFolderOutsideOfMountsDoesNotHideALink) {
  fs::create_directories(root_ + "/imagenet/train");
  fs::current_path(root_);
  EXPECT_EQ(Resolved("imagenet/train"), "imagenet/train");
}

TEST_F(Target, AWrittenPathOutsideOfMountsIsAUsageError) {
  const auto target = ResolveTargetText(root_ + "/x", {.mount_table = table_});
  ASSERT_FALSE(target.has_value());
  EXPECT_EQ(target.error().ExitCode(), Exit::kUsage);
  EXPECT_THAT(target.error().error.message, ::testing::HasSubstr("lies in no Forebay mount"));
  EXPECT_EQ(ResolveTargetText("", {.mount_table = table_}).error().ExitCode(), Exit::kUsage);
}

TEST_F(Target, AFolderWhoseNameBeginsLikeAMountIsNotInIt) {
  const std::string mount = Mount("m", kWhole);
  fs::create_directories(mount + "2/train");
  EXPECT_THAT(Resolved(mount + "2/train"), ::testing::HasSubstr("lies in no Forebay mount"));
}

TEST_F(Target, TheTopmostMountCounts) {
  const std::string mount = Mount("m", kWhole);
  AddLine(mount, "/", "0:50", "tmpfs");
  EXPECT_THAT(Resolved(mount + "/train"), ::testing::HasSubstr("lies in no Forebay mount"));
  AddLine(mount + "/train", "/", "0:40", "fuse.forebay");
  EXPECT_EQ(Resolved(mount + "/train/val"), "imagenet/val");
}

TEST_F(Target, ABindMountOfAFolderIsThatFolder) {
  Mount("m", kPart);
  fs::create_directories(root_ + "/bound/val");
  AddLine(root_ + "/bound", "/train", "0:40", "fuse.forebay");
  EXPECT_EQ(Resolved(root_ + "/bound/val"), "imagenet/data/train/val");
}

TEST_F(Target, AMountThatDoesNotSayWhatItShowsIsAFailure) {
  const std::string mount = Mount("m", "not json");
  const auto target = ResolveTargetText(mount, {.mount_table = table_});
  ASSERT_FALSE(target.has_value());
  EXPECT_EQ(target.error().ExitCode(), Exit::kFailed);
  EXPECT_THAT(target.error().error.message, ::testing::HasSubstr(mount + "/.forebay/config"));
}

}  // namespace
}  // namespace forebay
