// backup, restore; what they, export and apply print with -o json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/model/link.h"
#include "tests/fakes/temp_dir.h"
#include "tests/unit/cli/json_doc.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;

class StateDoc : public JsonDoc {};

TEST_F(StateDoc, BackupAndRestore) {
  const std::string file = ::testing::TempDir() + "forebay-json-doc.backup";
  session_.Answer(Method::kBackup, proto::BackupReply());
  auto printed = boost::json::parse(RunForebay(session_, {"-o", "json", "backup", file}).out);
  EXPECT_EQ(printed.at("file").as_string(), file);
  printed.at("file") = "state.backup";
  Expect("backup", JsonText(printed) + "\n");
  std::ofstream(file) << "bytes";
  proto::UploadNamesReply upload;
  upload.set_upload("u1");
  session_.Answer(Method::kUploadNames, upload);
  proto::RestoreReply restored;
  restored.set_cluster("0123456789abcdef");
  restored.set_taken_unix_s(1'767'323'035);
  restored.set_links(1);
  restored.set_fence(1'767'409'436);
  session_.Answer(Method::kRestore, restored);
  proto::GetLinksReply links;
  links.set_cluster(restored.cluster());
  session_.Answer(Method::kGetLinks, links);
  Run("restore", {"restore", file});
  std::remove(file.c_str());
}

proto::GetLinksReply SampleLinks() {
  proto::GetLinksReply links;
  proto::LinkSpec& spec = *links.add_links()->mutable_spec();
  spec.set_name("imagenet");
  spec.mutable_origin()->set_bucket("bkt");
  spec.mutable_origin()->set_prefix("p/");
  spec.mutable_origin()->set_region("eu-west-1");
  spec.set_block_bytes(4 << 20);
  spec.set_refresh(static_cast<std::uint32_t>(RefreshPolicy::kOnDemand));
  spec.set_quota_bytes(1 << 20);
  return links;
}

TEST_F(StateDoc, ExportAndApply) {
  proto::ListPinsReply pins;
  pins.add_pins()->set_target("imagenet/train");
  session_.Answer(Method::kGetLinks, SampleLinks());
  session_.Answer(Method::kListPins, pins);
  const Ran exported = Run("export", {"export"});
  const std::string file = ::testing::TempDir() + "forebay-json-doc.json";
  std::ofstream(file) << exported.out;
  proto::GetLinksReply changed = SampleLinks();
  changed.mutable_links(0)->mutable_spec()->set_quota_bytes(0);
  *changed.add_links() = changed.links(0);
  changed.mutable_links(1)->mutable_spec()->set_name("other");
  session_.Answer(Method::kGetLinks, changed);
  session_.Answer(Method::kLink, proto::LinkReply());
  session_.Answer(Method::kListPins, pins);
  Run("apply", {"apply", "-f", file, "--dry-run"});
  std::remove(file.c_str());
}

TEST(Backup, IsWrittenForItsOwnerAlone) {
  const std::string file = ::testing::TempDir() + "forebay-backup-test";
  std::ofstream(file) << "an older one";
  ScriptedSession session;
  session.Answer(Method::kBackup, proto::BackupReply());
  const Ran ran = RunForebay(session, {"backup", file});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  struct stat info{};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(info.st_size, 0);
  std::remove(file.c_str());
}

TEST(Backup, ALinkStaysOneAndADashIsStandardOutput) {
  const fakes::TempDir folder;
  std::ofstream(folder / "file") << "an older one";
  std::filesystem::create_symlink("file", folder / "link");
  ScriptedSession session;
  for (int i = 0; i < 2; ++i) session.Answer(Method::kBackup, proto::BackupReply());
  EXPECT_EQ(RunForebay(session, {"backup", folder / "link"}).exit, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(std::filesystem::file_size(folder / "file"), 0u);
  const Ran ran = RunForebay(session, {"backup", "-"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, "") << "the backup, which is empty here, and nothing else";
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(Backup, WhatIsNoFileIsNotReplacedByOne) {
  const fakes::TempDir folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("nothing", folder / "dangling");
  ScriptedSession session;
  for (const std::string& place :
       {folder / "pipe", folder / "dangling", folder.path(), std::string()}) {
    const Ran ran = RunForebay(session, {"backup", place});
    EXPECT_EQ(ran.exit, 2) << place;
  }
  EXPECT_EQ(RunForebay(session, {"backup", "-"}, {.out = true}).exit, 2) << "a terminal";
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_EQ(session.calls(), 0u);
}

TEST(Backup, AFailureLeavesTheOlderOne) {
  const std::string file = ::testing::TempDir() + "forebay-backup-test";
  std::ofstream(file) << "an older one";
  ScriptedSession session;
  session.Refuse(Method::kBackup, Failure(Error{Code::kUnavailable, "no coordinator answers"}));
  EXPECT_EQ(RunForebay(session, {"backup", file}).exit, 1);
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_EQ(text, "an older one");
  std::remove(file.c_str());
}

TEST(Restore, AFileThatCannotBeReadIsExit2AndAsksNobody) {
  ScriptedSession session;
  const Ran ran = RunForebay(session, {"restore", "/no/such/file"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_THAT(ran.err, HasSubstr("name a file that `forebay backup` has written"));
  EXPECT_EQ(session.calls(), 0u);
}

}  // namespace
}  // namespace forebay::testing
