#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/common_options.h"
#include "cli/verb_table.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;

std::expected<CommandLine, Failure> Read(const std::vector<std::string>& words,
                                         const std::string& environment = "") {
  OutputFormat output = OutputFormat::kTable;
  return ReadCommandLine(words, environment, output);
}

TEST(CommandLine, BehindTwoHyphensNothingIsAFlag) {
  ScriptedSession session;
  session.Answer(Method::kRevokeMember, proto::RevokeMemberReply());
  EXPECT_EQ(RunForebay(session, {"member", "revoke", "node", "--", "-n2"}).exit, 0);
  EXPECT_EQ(session.Asked<proto::RevokeMemberRequest>(0).id(), "-n2");
}

TEST(CommandLine, CoordinatorsComeFromTheFlagThenTheEnvironmentThenTheDefault) {
  using Addresses = std::vector<std::string>;
  EXPECT_EQ(Read({"links"})->coordinators, Addresses{"127.0.0.1:7440"});
  EXPECT_EQ(Read({"links"}, "a:1,[::1]:2")->coordinators, (Addresses{"a:1", "[::1]:2"}));
  EXPECT_EQ(Read({"--coordinator", "b:3", "links"}, "a:1")->coordinators, Addresses{"b:3"});
  EXPECT_EQ(Read({"links", "--coordinator=unix:/run/x"})->coordinators, Addresses{"unix:/run/x"});
  EXPECT_THAT(Read({"links"}, "a").error().error.message, HasSubstr("FOREBAY_COORDINATOR"));
  EXPECT_EQ(Read({"links", "--coordinator", "7440"}).error().ExitCode(), Exit::kUsage);
  EXPECT_EQ(Read({"links", "--coordinator", ""}).error().ExitCode(), Exit::kUsage);
}

TEST(CommandLine, GlobalOptionsStandBeforeOrAfterTheVerb) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-o", "json", "version"},
                                                {"version", "-o", "json"},
                                                {"version", "--output=json"},
                                                {"-ojson", "version"}}) {
    ScriptedSession session;
    const Ran ran = RunForebay(session, words);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with("{\"schema_version\":1,")) << ran.out;
  }
}

TEST(CommandLine, TimeoutIsATime) {
  EXPECT_EQ(Read({"links", "--timeout", "90s"})->timeout, std::chrono::seconds(90));
  EXPECT_FALSE(Read({"links"})->timeout.has_value());
  EXPECT_EQ(Read({"links", "--timeout", "0"}).error().ExitCode(), Exit::kUsage);
  EXPECT_EQ(Read({"links", "--timeout", "5"}).error().ExitCode(), Exit::kUsage);
}

TEST(CommandLine, UnknownWordsNameTheNearest) {
  struct Case {
    std::vector<std::string> words;
    const char* says;
  };
  const Case cases[] = {
      {{"lnik", "s3://b/x"}, "there is no verb \"lnik\"; did you mean link?"},
      {{"stats", "--lniks"}, "there is no flag --lniks; did you mean --links?"},
      {{"stats", "--cordinator=x:1"}, "did you mean --coordinator?"},
      {{"--ouput", "json", "stats"}, "there is no verb \"json\""},
      {{"links", "more"}, "\"more\" is not expected here; see `forebay links --help`"},
      {{"check"}, "TARGET is missing; see `forebay check --help`"},
      {{"links", "-o", "yaml"}, "--output: \"yaml\" is none of table, wide and json"},
      {{}, "a verb is missing; `forebay --help` shows them all"},
  };
  for (const Case& c : cases) {
    ScriptedSession session;
    const Ran ran = RunForebay(session, c.words);
    EXPECT_EQ(ran.exit, 2) << c.says;
    EXPECT_THAT(ran.err, HasSubstr(c.says));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST(CommandLine, AMissingValueIsAUsageError) {
  EXPECT_EQ(Read({"link", "s3://b/x", "--as"}).error().ExitCode(), Exit::kUsage);
}

TEST(CommandLine, ErrorsAreJsonWhereverTheFormatStands) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-o", "json", "lnik"},
                                                {"lnik", "-o", "json"},
                                                {"stats", "--lniks", "-o", "json"}}) {
    ScriptedSession session;
    EXPECT_TRUE(RunForebay(session, words).err.starts_with("{\"error\":{\"code\":\"Invalid\","));
  }
}

TEST(CommandLine, HelpNamesEveryVerbAndAsksNobody) {
  ScriptedSession session;
  const Ran all = RunForebay(session, {"--help"});
  EXPECT_EQ(all.exit, 0);
  for (const VerbRow& row : VerbTable()) {
    EXPECT_THAT(all.out, HasSubstr("  " + row.name + " "));
    const Ran one = RunForebay(session, {row.name, "--help"});
    EXPECT_EQ(one.exit, 0);
    EXPECT_TRUE(one.out.starts_with("forebay " + row.name)) << one.out;
    EXPECT_THAT(one.out, HasSubstr(row.summary));
  }
  EXPECT_THAT(RunForebay(session, {"evict", "-h"}).out, HasSubstr("--dry-run"));
}

TEST(CommandLine, HelpOfAVerbIsAlsoAskedForAsGitDoes) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {"help", "evict"}).out,
            RunForebay(session, {"evict", "--help"}).out);
  EXPECT_EQ(RunForebay(session, {"help"}).out, RunForebay(session, {"--help"}).out);
  EXPECT_EQ(RunForebay(session, {"help", "nonsense"}).exit, 2);
}

TEST(CommandLine, AnAliasIsTheVerb) {
  EXPECT_EQ(Read({"release", "imagenet"})->row->name, "evict");
  ScriptedSession session;
  EXPECT_THAT(RunForebay(session, {"relaese", "x"}).err, HasSubstr("did you mean release?"));
  EXPECT_TRUE(RunForebay(session, {"release", "-h"}).out.starts_with("forebay evict TARGET"));
  EXPECT_THAT(RunForebay(session, {"evict", "-h"}).out, HasSubstr("Also called release."));
}

TEST(CommandLine, TheKindOfAVerbAddsItsOptions) {
  EXPECT_TRUE(Read({"link", "s3://b/x", "--detach"})->detach);
  EXPECT_FALSE(Read({"link", "s3://b/x", "--wait"})->detach);
  EXPECT_EQ(Read({"link", "s3://b/x", "--wait", "--detach"}).error().ExitCode(), Exit::kUsage);
  EXPECT_EQ(Read({"links", "--detach"}).error().ExitCode(), Exit::kUsage);
  for (const VerbRow& row : VerbTable()) {
    ScriptedSession session;
    const std::string help = RunForebay(session, {row.name, "--help"}).out;
    EXPECT_EQ(help.find("--watch") != std::string::npos, row.kind == VerbKind::kList) << row.name;
    EXPECT_EQ(help.find("--detach") != std::string::npos, row.kind == VerbKind::kTask) << row.name;
  }
}

TEST(CommandLine, NoTwoVerbsAndNoTwoOptionsOfAVerbHaveOneName) {
  const std::vector<std::string> names = VerbNames();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const VerbRow& row : VerbTable()) {
    const std::unique_ptr<Verb> verb = row.make();
    CommandLine line;
    OutputFormat output = OutputFormat::kTable;
    std::set<std::string> taken;
    for (const Options& options : {VerbOptions(row, *verb, line), GlobalOptions(line, output)}) {
      for (const Option& option : options.all()) {
        EXPECT_TRUE(taken.insert(option.name).second) << row.name << " " << option.name;
        EXPECT_FALSE(option.help.empty()) << row.name << " " << option.name;
        EXPECT_NE(option.help.back(), '.') << row.name << " " << option.name;
      }
    }
  }
}

TEST(Options, AChoiceTakesItsWordsOnly) {
  std::string taken;
  Options options;
  options.Choice("--how", {"fast", "slow"}, "how", taken);
  const Option& option = options.all().front();
  EXPECT_EQ(option.value, "fast|slow");
  EXPECT_FALSE(option.required);
  EXPECT_TRUE(option.take("slow").has_value());
  EXPECT_EQ(taken, "slow");
  EXPECT_EQ(option.take("slwo").error().message,
            "\"slwo\" is none of fast, slow; did you mean slow?");
  EXPECT_EQ(taken, "slow");
}

}  // namespace
}  // namespace forebay::testing
