#include "fuse-client/control_files.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

std::string TextOf(const Slice& slice) {
  return {reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size()};
}

TEST(ControlFiles, EachLookupIsANewFileThatNeverChanges) {
  int renderings = 0;
  ControlFiles files({{"stats", [&] { return "render " + std::to_string(++renderings); }}});
  const auto first = files.Lookup("stats");
  const auto second = files.Lookup("stats");
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->nodeid, second->nodeid);
  EXPECT_NE(first->nodeid & kControlNodeidBit, 0u);
  EXPECT_EQ(TextOf(*files.Read(first->nodeid)), "render 1");
  EXPECT_EQ(TextOf(*files.Read(second->nodeid)), "render 2");
  EXPECT_EQ(files.Find(first->nodeid)->size, 8u);
}

TEST(ControlFiles, WhatIsForgottenIsGoneAndABufferInUseStays) {
  ControlFiles files({{"stats", [] { return std::string("text"); }}});
  const auto rendering = files.Lookup("stats");
  const auto held = files.Read(rendering->nodeid);
  files.Forget(rendering->nodeid);
  EXPECT_FALSE(files.Find(rendering->nodeid));
  EXPECT_FALSE(files.Read(rendering->nodeid));
  EXPECT_EQ(files.renderings(), 0u);
  EXPECT_EQ(TextOf(*held), "text");
}

TEST(ControlFiles, ASlowFileIsNamedSoAndMayFail) {
  bool works = false;
  ControlFiles files(
      {{"stats", [] { return std::string("text"); }}, {"manifest", {}, [&]() -> Result<Slice> {
                                                         if (!works)
                                                           return Fail(Code::kInternal, "no room");
                                                         return Slice{};
                                                       }}});
  EXPECT_TRUE(files.IsSlow("manifest"));
  EXPECT_FALSE(files.IsSlow("stats"));
  EXPECT_FALSE(files.IsSlow("other"));
  EXPECT_EQ(files.Lookup("manifest").error().code, Code::kInternal);
  works = true;
  EXPECT_EQ(files.Lookup("manifest")->size, 0u);
}

TEST(ControlFiles, UnknownNamesAreNotThere) {
  ControlFiles files({{"stats", [] { return std::string(); }}});
  EXPECT_FALSE(files.Lookup("stat"));
  EXPECT_FALSE(files.Find(kControlNodeidBit | 1));
}

}  // namespace
}  // namespace forebay
