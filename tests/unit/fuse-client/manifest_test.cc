#include "fuse-client/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>

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
  Manifest all(snapshot, 0, dir.path());
  EXPECT_EQ(TextOf(all.Text().value()), "22\ta/b/y\n1\ta/x\n4\ta.txt\n333\tc\n");
  const auto below = snapshot->Resolve("a");
  ASSERT_TRUE(below);
  Manifest part(snapshot, below->directory, dir.path());
  EXPECT_EQ(TextOf(part.Text().value()), "22\tb/y\n1\tx\n");
}

TEST(Manifest, IsWrittenOnceForAllWhoHoldItAndLeavesNoFile) {
  const fakes::TempDir dir;
  SampleLink link("sample", {{"a", 1}}, 1 << 20);
  link.BuildSnapshot(dir / "built.fbs");
  const auto snapshot = link.OpenSnapshot(dir / "built.fbs");
  std::filesystem::create_directory(dir / "state");
  Manifest manifest(snapshot, 0, dir / "state");
  const Slice first = manifest.Text().value();
  const Slice second = manifest.Text().value();
  EXPECT_EQ(first.bytes.data(), second.bytes.data());
  EXPECT_TRUE(std::filesystem::is_empty(dir / "state"));
}

TEST(Manifest, OfAnEmptyLinkIsEmptyAndWithoutRoomIsAnError) {
  const fakes::TempDir dir;
  SampleLink link("sample", {}, 1 << 20);
  link.BuildSnapshot(dir / "built.fbs");
  const auto snapshot = link.OpenSnapshot(dir / "built.fbs");
  Manifest empty(snapshot, 0, dir.path());
  EXPECT_EQ(empty.Text().value().bytes.size(), 0u);
  Manifest nowhere(snapshot, 0, dir / "missing");
  const Result<Slice> text = nowhere.Text();
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::kInternal);
  EXPECT_NE(text.error().message.find("missing"), std::string::npos);
}

}  // namespace
}  // namespace forebay
