// Writes the manual pages below the folder that it is given. Run by the build.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/man/pages.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_man DIR\n", stderr);
    return 2;
  }
  for (const forebay::ManPage& page : forebay::ManPages()) {
    const std::filesystem::path path = std::filesystem::path(argv[1]) / page.file;
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    std::ofstream file(path);
    file << page.text;
    file.close();
    if (!file) {
      std::fprintf(stderr, "%s cannot be written\n", path.c_str());
      return 1;
    }
  }
  return 0;
}
