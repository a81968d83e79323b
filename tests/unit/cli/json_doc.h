#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/json.h"
#include "tests/unit/cli/scripted_session.h"

// docs/JSON.md as the golden file: what it shows is what the program prints.
namespace forebay::testing {

/// The first ```json block under each `### ` heading.
inline std::map<std::string, std::string> Examples() {
  std::ifstream file(FOREBAY_SOURCE_DIR "/docs/JSON.md");
  std::map<std::string, std::string> examples;
  std::string line, heading;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.starts_with("### ")) heading = line.substr(4);
    if (line == "```") inside = false;
    if (inside) examples[heading] += line + "\n";
    if (line == "```json") inside = examples[heading].empty();
  }
  return examples;
}

/// The document's members in the document's order: readers find them where the text has them.
inline std::string Normal(const std::string& text) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << text;
  return JsonText(value);
}

class JsonDoc : public ::testing::Test {
 protected:
  void Expect(const std::string& heading, const std::string& printed) {
    const auto example = examples_.find(heading);
    ASSERT_NE(example, examples_.end()) << "docs/JSON.md lacks ### " << heading;
    EXPECT_EQ(Normal(example->second), Normal(printed)) << heading;
    EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << "one line: " << printed;
  }
  /// Runs `forebay -o json WORD…` and compares stdout.
  Ran Run(const std::string& heading, std::vector<std::string> words) {
    words.insert(words.begin(), {"-o", "json"});
    Ran ran = RunForebay(session_, words);
    Expect(heading, ran.out);
    return ran;
  }

  const std::map<std::string, std::string> examples_ = Examples();
  ScriptedSession session_;
};

}  // namespace forebay::testing
