#pragma once

#include <string>
#include <vector>

namespace forebay {

/// A manual page. `file` is its place below share/man: "man1/forebay.1".
struct ManPage {
  std::string file;
  std::string text;
};

/// All of them, written from the tables that --help, the parser and the programs use.
std::vector<ManPage> ManPages();

}  // namespace forebay
