#include <unistd.h>

#include <cstdio>
#include <random>
#include <string>

#include "tests/component/store/store_fixture.h"

// Works on a store until it is killed: by a failpoint or by its parent. Each line on standard
// output is one fact: "+ NUMBER" the block is committed, "- NUMBER" it is about to be evicted.
namespace forebay {
namespace {

void Say(char what, std::uint64_t number) {
  const std::string line = std::string(1, what) + " " + std::to_string(number) + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::_Exit(2);
  }
}

int Work(const std::string& directory, unsigned seed, std::uint64_t first) {
  TestStore store(OneDirectory(directory, 128ULL << 20, 2ULL << 20));
  if (!store.open()) {
    std::fprintf(stderr, "%s\n", store.error().message.c_str());
    return 3;
  }
  std::mt19937 random(seed);
  for (std::uint64_t number = first; number < first + 400; ++number) {
    if (store.Admit(LinkNumber(number % 2), BlockNumber(number, kChildLength))) Say('+', number);
    if (random() % 4 != 0 || number < first + 3) continue;
    const std::uint64_t victim = first + random() % (number - first);
    Say('-', victim);
    if (!store.Evict({BlockNumber(victim, kChildLength)})) return 4;
  }
  return store->Close(Patience()) ? 0 : 5;
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  if (argc != 4) return 1;
  return forebay::Work(argv[1], static_cast<unsigned>(std::stoul(argv[2])), std::stoull(argv[3]));
}
