// The manual pages' roff.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/man/pages.h"
#include "cli/man/roff.h"

namespace forebay {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Roff, WhatRoffObeysIsEscaped) {
  EXPECT_EQ(RoffEscaped("--as"), "\\-\\-as");
  EXPECT_EQ(RoffEscaped("a\\b"), "a\\eb");
  EXPECT_EQ(RoffEscaped("'x' `y` ~ ^ \"z\""), "\\(aqx\\(aq \\(gay\\(ga \\(ti \\(ha \\(dqz\\(dq");
  EXPECT_EQ(RoffEscaped("PORT[,…]"), "PORT[,\\[u2026]]");
  EXPECT_EQ(RoffEscaped("ü\xF0\x9F\x98\x80"), "\\[u00FC]\\[u1F600]");
}

TEST(Roff, NoTextBecomesARequest) {
  Roff page("x", 1);
  page.Paragraph(".so /etc/passwd and 'no");
  EXPECT_THAT(page.text(), EndsWith(".PP\n\\&.so /etc/passwd and \\(aqno\n"));
}

TEST(Roff, BackquotedWordsAreBoldAndALoneBackquoteIsItself) {
  Roff page("x", 1);
  page.Paragraph("see `forebay links` or `");
  EXPECT_THAT(page.text(), EndsWith(".PP\nsee \\fBforebay links\\fR or \\(ga\n"));
}

TEST(Roff, ASentenceBeginsALine) {
  Roff page("x", 1);
  page.Paragraph("One. Two two. Three");
  EXPECT_THAT(page.text(), EndsWith(".PP\nOne.\nTwo two.\nThree\n"));
}

TEST(ManPages, NoTwoBuildsDiffer) {
  const std::vector<ManPage> first = ManPages();
  const std::vector<ManPage> second = ManPages();
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].text, second[i].text);
  EXPECT_THAT(first.front().text, HasSubstr("\\-\\-detach"));
}

TEST(ManPages, ADaemonsPageSaysWhatItReadsAnewAndWhere) {
  const auto page_of = [](const std::string& name) {
    std::string found;
    for (const ManPage& each : ManPages())
      if (each.file == "man8/" + name + ".8") found = each.text;
    std::ranges::replace(found, '\n', ' ');
    return found;
  };
  const std::string node = page_of("forebay-node");
  EXPECT_THAT(node, HasSubstr("reads the sizes of \\fBcache_dir\\fR, the S3 "
                              "credentials and the certificates anew. "));
  EXPECT_THAT(node, HasSubstr("/etc/forebay/node\\-trust/"));
  EXPECT_THAT(node, HasSubstr("/run/forebay\\-node/"));
  const std::string coordinator = page_of("forebay-coordinator");
  EXPECT_THAT(coordinator, HasSubstr("reads the S3 credentials and the certificates anew. "));
  EXPECT_THAT(coordinator, Not(HasSubstr("/etc/forebay/node\\-trust/")));
  EXPECT_THAT(coordinator, Not(HasSubstr("/run/forebay\\-node")));
  const std::string mount = page_of("forebay-mount");
  EXPECT_THAT(mount, HasSubstr("reads the certificates anew. "));
  EXPECT_THAT(mount, HasSubstr("/run/forebay\\-node/"));
}

}  // namespace
}  // namespace forebay
