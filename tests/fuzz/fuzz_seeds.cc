// fuzz_seeds DIRECTORY: writes the first inputs of every target into a folder of its name, and
// removes what an earlier run left there, so that every run begins alike.
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_targets.h"

int main(int argc, char** argv) {
  forebay::Require(argc == 2);
  for (const forebay::FuzzTarget& target : forebay::FuzzTargets()) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / target.name;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    for (const auto& [name, bytes] : target.seeds()) {
      std::ofstream file(folder / name, std::ios::binary);
      file << bytes;
      forebay::Require(file.flush().good());
    }
  }
}
