#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "common/s3/s3_failure.h"

namespace forebay {
namespace {

namespace json = boost::json;

// Action or list of actions, to what a statement allows them on.
std::set<std::string> TextsOf(const json::value& value) {
  if (value.is_string()) return {std::string(value.get_string())};
  std::set<std::string> texts;
  for (const json::value& item : value.as_array()) texts.emplace(item.as_string());
  return texts;
}

json::array Statements() {
  std::ifstream file(std::string(FOREBAY_SOURCE_DIR) + "/ops/iam-policy.json");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return json::parse(text).as_object().at("Statement").as_array();
}

TEST(IamPolicy, GivesEachRightThatTheClientNeedsAndNoOther) {
  std::set<std::string> needed;
  for (std::size_t i = 0; i < kS3Operations; ++i) {
    needed.emplace(S3ActionOf(static_cast<S3Operation>(i)));
  }
  std::set<std::string> given;
  for (const json::value& statement : Statements()) {
    EXPECT_EQ(statement.at("Effect").as_string(), "Allow");
    given.merge(TextsOf(statement.at("Action")));
  }
  EXPECT_EQ(given, needed);
}

TEST(IamPolicy, GivesBucketRightsOnBucketsAndObjectRightsOnObjects) {
  for (const json::value& statement : Statements()) {
    for (const std::string& action : TextsOf(statement.at("Action"))) {
      for (const std::string& resource : TextsOf(statement.at("Resource"))) {
        EXPECT_EQ(resource.find('/') != std::string::npos, action.starts_with("s3:GetObject"))
            << action << " on " << resource;
      }
    }
  }
}

}  // namespace
}  // namespace forebay
