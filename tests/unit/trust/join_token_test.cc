#include "common/trust/join_token.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace forebay {
namespace {

TEST(JoinToken, IsReadAsItIsWritten) {
  const JoinToken token = JoinToken::New(std::string(32, '\xAB'));
  const Secret text = token.ToText();
  const Result<JoinToken> back = JoinToken::Parse(text.Reveal());
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->id, token.id);
  EXPECT_TRUE(back->secret == token.secret);
  EXPECT_EQ(back->authority_hash, token.authority_hash);
}

TEST(JoinToken, NoTwoAreAlike) {
  const JoinToken one = JoinToken::New("h");
  const JoinToken other = JoinToken::New("h");
  EXPECT_NE(one.id, other.id);
  EXPECT_FALSE(one.secret == other.secret);
}

TEST(JoinToken, WhatIsCutOrChangedIsNoToken) {
  const std::string good(JoinToken::New(std::string(32, 'h')).ToText().Reveal());
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Result<JoinToken> token = JoinToken::Parse(good.substr(0, size));
    ASSERT_FALSE(token.has_value()) << size;
    EXPECT_EQ(token.error().code, Code::kInvalid);
    if (size > 20) {
      EXPECT_EQ(token.error().message.find(good.substr(13, 8)), std::string::npos)
          << "the message must not quote the secret";
    }
  }
  for (const std::string& bad : {good + "0", good + ".x", " " + good, "X" + good.substr(1)})
    EXPECT_FALSE(JoinToken::Parse(bad).has_value()) << bad;
}

TEST(JoinProof, IsGoodForOneSecretChannelAndRequest) {
  const Secret secret(std::string(32, 's'));
  const std::string proof = JoinProof(secret, "channel", "request");
  EXPECT_TRUE(SameProof(proof, JoinProof(secret, "channel", "request")));
  EXPECT_FALSE(SameProof(proof, JoinProof(Secret(std::string(32, 'x')), "channel", "request")));
  EXPECT_FALSE(SameProof(proof, JoinProof(secret, "channe1", "request")));
  EXPECT_FALSE(SameProof(proof, JoinProof(secret, "channel", "other")));
  EXPECT_FALSE(SameProof(proof, JoinProof(secret, "channelr", "equest")));
  EXPECT_FALSE(SameProof(proof, proof.substr(1)));
  EXPECT_FALSE(SameProof(proof, ""));
}

template <typename T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };

TEST(Secret, CannotBePrinted) {
  static_assert(Printable<std::string>);
  static_assert(!Printable<Secret>);
  Secret short_one(std::string("s"));
  const Secret moved = std::move(short_one);
  EXPECT_EQ(moved.Reveal(), "s");
  // NOLINTNEXTLINE(bugprone-use-after-move): what is left is what this test is about.
  EXPECT_TRUE(short_one.empty());
}

}  // namespace
}  // namespace forebay
