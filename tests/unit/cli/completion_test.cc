#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/verb_table.h"
#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

using Words = std::vector<std::string>;

/// What is offered behind `forebay`, without the explanations.
Words Offered(ScriptedSession& session, const Words& words) {
  Words offered;
  for (const Candidate& each : Complete(words, session).words) offered.push_back(each.word);
  return offered;
}
/// Where nobody is asked.
Words Offered(const Words& words) {
  ScriptedSession session;
  return Offered(session, words);
}

TEST(Completion, VerbsAndTheAliasesThatAreBegun) {
  const Words all = Offered({""});
  for (const VerbRow& row : VerbTable()) EXPECT_THAT(all, Contains(row.name));
  EXPECT_THAT(all, Not(Contains("release")));
  EXPECT_EQ(Offered({"rel"}), Words{"release"});
  EXPECT_EQ(Offered({"unl"}), Words{"unlink"});
  EXPECT_EQ(Offered({"-o", "json", "unl"}), Words{"unlink"});
  EXPECT_THAT(Offered({"nonsense", ""}), IsEmpty());
}

TEST(Completion, FlagsOfTheVerbOfItsKindAndOfAll) {
  EXPECT_THAT(Offered({"evict", "--"}), IsSupersetOf(Words{"--dry-run", "--yes", "--timeout"}));
  EXPECT_THAT(Offered({"release", "--d"}), ElementsAre("--dry-run"));
  EXPECT_THAT(Offered({"link", "--de"}), ElementsAre("--detach"));
  EXPECT_THAT(Offered({"links", "--wa"}), ElementsAre("--watch"));
  EXPECT_THAT(Offered({"--ver"}), ElementsAre("--version"));
}

TEST(Completion, ValuesOfFlags) {
  EXPECT_THAT(Offered({"-o", ""}), ElementsAre("table", "wide", "json"));
  EXPECT_THAT(Offered({"links", "--output=j"}), ElementsAre("--output=json"));
  EXPECT_THAT(Offered({"links", "--watch", ""}), IsEmpty());
  EXPECT_THAT(Offered({"token", "create", "--role", "v"}), ElementsAre("viewer"));
  EXPECT_THAT(Offered({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Offered({"completion", "bash", ""}), IsEmpty());
}

TEST(Completion, NamesOfLinks) {
  ScriptedSession session;
  session.Answer(Method::kStats, SampleStats());
  EXPECT_THAT(Offered(session, {"unlink", "im"}), ElementsAre("imagenet"));
  session.Answer(Method::kStats, SampleStats());
  EXPECT_THAT(Offered(session, {"check", "other"}), IsEmpty());
  session.Answer(Method::kStats, SampleStats());
  EXPECT_THAT(Offered(session, {"check", "imagenet"}), ElementsAre("imagenet", "imagenet/"));
  EXPECT_THAT(Offered({"link", "s3://", "--as", ""}), IsEmpty());
}

TEST(Completion, WhatLiesBelowALink) {
  ScriptedSession session;
  proto::ListTargetReply page;
  proto::ListedEntry& folder = *page.add_entries();
  folder.set_name("train");
  folder.set_kind(1);
  page.add_entries()->set_name("truck.jpg");
  page.add_entries()->set_name("val.jpg");
  session.Answer(Method::kListTarget, page);
  EXPECT_THAT(Offered(session, {"ls", "imagenet/data/tr"}),
              ElementsAre("imagenet/data/train/", "imagenet/data/truck.jpg"));
  EXPECT_EQ(session.Asked<proto::ListTargetRequest>(0).target().text(), "imagenet/data/");
}

TEST(Completion, PathsAreLeftToTheShell) {
  ScriptedSession session;
  for (const char* begun : {"/mn", "./", "../x", "~/"}) {
    EXPECT_EQ(CompletionLines(Complete({"check", begun}, session)), ":files\n") << begun;
  }
}

TEST(Completion, IsSilentWhenNobodyAnswers) {
  ScriptedSession session;
  session.Refuse(Method::kStats, Error{Code::kUnavailable, "no coordinator answers"});
  const Ran ran = RunForebay(session, {kCompleteWord, "unlink", ""});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, ":words\n");
  EXPECT_EQ(ran.err, "");
}

TEST(Completion, EachWordComesWithWhatItIs) {
  ScriptedSession session;
  EXPECT_EQ(RunForebay(session, {kCompleteWord, "unlin"}).out,
            ":words\nunlink\ttakes a link away\n");
  EXPECT_THAT(RunForebay(session, {kCompleteWord}).out, HasSubstr("\nstatus\t"));
}

TEST(Completion, NamesThatAreNoPlainTextAreNotOffered) {
  ScriptedSession session;
  proto::ListTargetReply page;
  page.add_entries()->set_name("two\nlines");
  page.add_entries()->set_name("tab\there");
  page.add_entries()->set_name("\x1b[2J");
  page.add_entries()->set_name("latin\xE9");
  page.add_entries()->set_name("a b$(x).jpg");
  session.Answer(Method::kListTarget, page);
  EXPECT_THAT(Offered(session, {"ls", "imagenet/"}), ElementsAre("imagenet/a b$(x).jpg"));
}

TEST(Completion, TheVerbPrintsTheScriptOfAShell) {
  ScriptedSession session;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran ran = RunForebay(session, {"completion", shell});
    EXPECT_EQ(ran.exit, 0);
    EXPECT_EQ(ran.out, CompletionScript(shell));
    EXPECT_THAT(ran.out, HasSubstr(kCompleteWord));
  }
  const Ran wrong = RunForebay(session, {"completion", "fsih"});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean fish?"));
}

}  // namespace
}  // namespace forebay::testing
