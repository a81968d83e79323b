// Writes the generated parts of the documents under the folder that it is given: ops/docs.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/unit/config/docs_markdown.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_docs ROOT\n", stderr);
    return 2;
  }
  for (const forebay::GeneratedDoc& doc : forebay::GeneratedDocs()) {
    const std::string path = std::string(argv[1]) + "/" + std::string(doc.file);
    std::stringstream before;
    before << std::ifstream(path).rdbuf();
    const std::string after = forebay::WithGenerated(before.str(), doc.content);
    if (after.empty()) {
      std::fprintf(stderr, "%s has no lines that mark its generated part\n", path.c_str());
      return 1;
    }
    if (after != before.str()) std::ofstream(path) << after;
  }
  return 0;
}
