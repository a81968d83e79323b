#include "fuse-client/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "common/snapshot/snapshot_builder.h"
#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::SampleLink;

std::string TextOf(const Slice& slice) {
  return {reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size()};
}

TEST(Manifest, ALineIsTheSizeATabAndThePath) {
  EXPECT_EQ(ManifestLine("train/a.jpg", 39'000), "39000\ttrain/a.jpg\n");
  EXPECT_EQ(ManifestLine("\xc3\xbc b", 0), "0\t\xc3\xbc b\n");
  // What would end the line, or look like an escape, is escaped.
  EXPECT_EQ(ManifestLine("a\nb\tc\\d\x7f", 1), "1\ta\\x0ab\\x09c\\x5cd\\x7f\n");
}

TEST(Manifest, ListsEveryFileBelowTheRootInOrder) {
  const fakes::TempDir dir;
  SampleLink link("sample", {{"a/x", 1}, {"a/b/y", 22}, {"c", 333}, {"a.txt", 4}}, 1 << 20);
  link.BuildSnapshot(dir / "built.fbs");
  const auto snapshot = link.OpenSnapshot(dir / "built.fbs");
  const auto all = MakeManifest(snapshot, 0, dir.path());
  EXPECT_EQ(TextOf(all->Text().value()), "22\ta/b/y\n1\ta/x\n4\ta.txt\n333\tc\n");
  const auto below = snapshot->Resolve("a");
  ASSERT_TRUE(below);
  const auto part = MakeManifest(snapshot, below->directory, dir.path());
  EXPECT_EQ(TextOf(part->Text().value()), "22\tb/y\n1\tx\n");
}

TEST(Manifest, IsWrittenOnceForAllWhoHoldItAndLeavesNoFile) {
  const fakes::TempDir dir;
  SampleLink link("sample", {{"a", 1}}, 1 << 20);
  link.BuildSnapshot(dir / "built.fbs");
  const auto snapshot = link.OpenSnapshot(dir / "built.fbs");
  std::filesystem::create_directory(dir / "state");
  const auto manifest = MakeManifest(snapshot, 0, dir / "state");
  const Slice first = manifest->Text().value();
  const Slice second = manifest->Text().value();
  EXPECT_EQ(first.bytes.data(), second.bytes.data());
  EXPECT_TRUE(std::filesystem::is_empty(dir / "state"));
}

TEST(Attributes, AreTheLinesOfTheFilesBelowTheRootInTheManifestsOrder) {
  const fakes::TempDir dir;
  SnapshotOptions options;
  options.block_bytes = 4 << 20;
  SnapshotBuilder builder(options, dir / "s");
  const auto add = [&](const char* key, std::vector<AttributeLine> lines) {
    EXPECT_TRUE(builder.Add({.key = key, .size = 1, .etag = "e", .lines = lines}));
  };
  add("a/1", {{.place = 3, .json = R"({"n":3})"}, {.place = 5, .json = R"({"n":5})"}});
  add("a/\"2", {{.place = 1, .json = R"({"n":1})"}});
  add("b", {{.place = 2, .json = R"({"n":2})"}});
  add("c", {});
  ASSERT_TRUE(builder.Finish());
  const auto snapshot = Snapshot::Open(dir / "s").value();
  const std::string all = TextOf(MakeAttributes(snapshot, 0, dir.path())->Text().value());
  EXPECT_EQ(all,
            "{\"path\":\"a/\\\"2\",\"attributes\":{\"n\":1}}\n"
            "{\"path\":\"b\",\"attributes\":{\"n\":2}}\n"
            "{\"path\":\"a/1\",\"attributes\":{\"n\":3}}\n"
            "{\"path\":\"a/1\",\"attributes\":{\"n\":5}}\n");
  const auto below = snapshot->Resolve("a")->directory;
  EXPECT_EQ(TextOf(MakeAttributes(snapshot, below, dir.path())->Text().value()),
            "{\"path\":\"\\\"2\",\"attributes\":{\"n\":1}}\n"
            "{\"path\":\"1\",\"attributes\":{\"n\":3}}\n"
            "{\"path\":\"1\",\"attributes\":{\"n\":5}}\n");
}

TEST(Manifest, OfAnEmptyLinkIsEmptyAndWithoutRoomIsAnError) {
  const fakes::TempDir dir;
  SampleLink link("sample", {}, 1 << 20);
  link.BuildSnapshot(dir / "built.fbs");
  const auto snapshot = link.OpenSnapshot(dir / "built.fbs");
  const auto empty = MakeManifest(snapshot, 0, dir.path());
  EXPECT_EQ(empty->Text().value().bytes.size(), 0u);
  const auto nowhere = MakeManifest(snapshot, 0, dir / "missing");
  const Result<Slice> text = nowhere->Text();
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::kInternal);
  EXPECT_NE(text.error().message.find("missing"), std::string::npos);
}

}  // namespace
}  // namespace forebay
