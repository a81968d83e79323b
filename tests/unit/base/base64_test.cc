#include "common/base/base64.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

// RFC 4648, section 10.
TEST(Base64, WritesAndReadsTheExamplesOfTheStandard) {
  const std::pair<std::string, std::string> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(Base64Encode(bytes), text);
    const Result<std::string> back = Base64Decode(text);
    ASSERT_TRUE(back.has_value()) << text;
    EXPECT_EQ(*back, bytes);
  }
}

TEST(Base64, EveryByteComesBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  for (std::size_t length = 250; length <= bytes.size(); ++length) {
    const std::string part = bytes.substr(0, length);
    EXPECT_EQ(*Base64Decode(Base64Encode(part)), part);
  }
}

TEST(Base64, OtherTextIsRefused) {
  for (const char* text : {"Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9*", "Zm 9", "====", "Zm9v\n"}) {
    const Result<std::string> read = Base64Decode(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code, Code::kInvalid);
  }
}

}  // namespace
}  // namespace forebay
