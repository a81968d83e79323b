#include "fuse-client/order/order_text.h"

#include <gtest/gtest.h>

#include "tests/fakes/sample_link.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using fakes::SampleLink;
using fakes::TempDir;

class OrderTextTest : public ::testing::Test {
 protected:
  OrderTextTest() : link_("sample", {{"a/1", 5}, {"a/2", 5}, {"b c", 5}, {"a/d/3", 5}}) {
    link_.BuildSnapshot(dir_ / "s.fbs");
    snapshot_ = link_.OpenSnapshot(dir_ / "s.fbs");
  }

  std::uint64_t Nodeid(const std::string& path) { return snapshot_->Resolve(path)->nodeid; }
  Result<std::vector<std::uint64_t>> Files(std::string_view lines, const std::string& root = "") {
    OrderText order{.job = "j", .link = "sample", .mountpoint = "/mnt/data", .lines = lines};
    return FilesOfOrder(order, *snapshot_, *snapshot_->Resolve(root));
  }
  std::string Why(std::string_view lines, const std::string& root = "") {
    const auto files = Files(lines, root);
    return files ? "nothing" : files.error().message;
  }

  TempDir dir_;
  SampleLink link_;
  std::shared_ptr<const Snapshot> snapshot_;
};

using Nodeids = std::vector<std::uint64_t>;

TEST_F(OrderTextTest, PathsFromTheRootAndBelowTheMountPoint) {
  EXPECT_EQ(*Files("b c\n/mnt/data/a/2\n./a/1\r\n\na/d/3"),
            (Nodeids{Nodeid("b c"), Nodeid("a/2"), Nodeid("a/1"), Nodeid("a/d/3")}));
}

TEST_F(OrderTextTest, AFileMayComeSeveralTimes) {
  EXPECT_EQ(*Files("a/1\na/2\na/1\n"), (Nodeids{Nodeid("a/1"), Nodeid("a/2"), Nodeid("a/1")}));
}

TEST_F(OrderTextTest, OfAMountedDirectoryPathsBeginThere) {
  EXPECT_EQ(*Files("2\n1\n./1\n", "a"), (Nodeids{Nodeid("a/2"), Nodeid("a/1"), Nodeid("a/1")}));
  EXPECT_EQ(*Files("/mnt/data/d/3", "a"), (Nodeids{Nodeid("a/d/3")}));
  EXPECT_EQ(Why("b c", "a"), "line 1: b c is no file; nothing was announced");
}

TEST_F(OrderTextTest, NumbersArePlacesInTheManifest) {
  Nodeids in_manifest;
  ASSERT_TRUE(snapshot_->ForEachFile(0, [&](const SnapshotRow& row, std::string_view) {
    in_manifest.push_back(row.nodeid);
    return true;
  }));
  EXPECT_EQ(*Files("3\n0\n\n1\n"), (Nodeids{in_manifest[3], in_manifest[0], in_manifest[1]}));
  EXPECT_EQ(Why("0\n4\n"),
            "line 2: 4 is no place in .forebay/manifest, which has 4 files, the first of them 0; "
            "nothing was announced");
  EXPECT_NE(Why("99999999999999999999999999\n"), "nothing");
}

TEST_F(OrderTextTest, WhatMeansNoFileIsNamedAndNothingIsTaken) {
  EXPECT_EQ(Why("a/1\nnone\na\n/etc/passwd\n"),
            "line 2: none is no file (2 more lines mean no file); nothing was announced");
  EXPECT_EQ(Why("a\n"), "line 1: a is a directory; nothing was announced");
  EXPECT_EQ(Why("/mnt/database/a/1\n"),
            "line 1: /mnt/database/a/1 does not lie in this mount; nothing was announced");
}

TEST_F(OrderTextTest, NoLinesAreAnEmptyOrder) { EXPECT_TRUE(Files("")->empty()); }

TEST_F(OrderTextTest, TheFirstLineSaysWhoseItIs) {
  const auto order =
      ParseOrderText("{\"job\":\"4711\",\"link\":\"sample\",\"mountpoint\":\"/mnt\"}\na/1\n");
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->job, "4711");
  EXPECT_EQ(order->link, "sample");
  EXPECT_EQ(order->mountpoint, "/mnt");
  EXPECT_EQ(order->lines, "a/1\n");
  for (const char* bad : {"", "a/1\n", "[1]\n", "{\"job\":7}\n", "{\"job\":\"\"}\na\n"}) {
    EXPECT_FALSE(ParseOrderText(bad)) << bad;
  }
  EXPECT_FALSE(ParseOrderText("{\"job\":\"" + std::string(256, 'x') + "\"}\n"));
}

TEST_F(OrderTextTest, WithoutAJobItIsTheSendersOwn) {
  const auto order = ParseOrderText("{\"link\":\"sample\"}\na/1\n");
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->job, "");
  EXPECT_EQ(order->lines, "a/1\n");
}

}  // namespace
}  // namespace forebay
