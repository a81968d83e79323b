#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "tests/component/store/store_fixture.h"

// What disk_load says that it did, and what a store must therefore hold after a crash. A file of
// lines, each written in one piece before or after what it speaks of:
//   + N   the block N has been admitted
//   - N   the block N is being evicted, or has been; it never comes back, and the store may have
//         evicted it before the line of its admission was written
//   = N   all blocks of N's link that were admitted before N are durable
//   p N   the link's pins are those of PinsAt(N), durably
//   ! …   a broken promise, seen while the store was in use
namespace forebay {

inline constexpr std::uint64_t kLinks = 4;  ///< The block N belongs to link N % kLinks.

inline Uuid LinkOf(std::uint64_t number) {
  return LinkNumber(static_cast<std::uint8_t>(number % kLinks));
}

/// Short ones and long ones, of one cell and of several, with and without padding.
inline BlockId SampleBlock(std::uint64_t number) {
  constexpr std::array<std::uint32_t, 7> kLengths = {39'000, 300'000, 500,   65'536,
                                                     3'984,  150'000, 40'848};
  return BlockNumber(number, kLengths[number / kLinks % kLengths.size()]);
}

/// The blocks that are pinned by the take-over that N names; its version is N + 1.
inline std::set<std::uint64_t> PinsAt(std::uint64_t number) {
  std::set<std::uint64_t> pins;
  for (std::uint64_t back = 0; back < 6 && number >= back * kLinks; ++back) {
    pins.insert(number - back * kLinks);
  }
  return pins;
}

struct Facts {
  std::set<std::uint64_t> admitted;
  std::set<std::uint64_t> leaving;
  std::set<std::uint64_t> durable;
  std::map<std::uint64_t, std::set<std::uint64_t>> pins;  ///< By link: each N of a take-over.
  std::uint64_t evictions = 0;
  std::string broken;

  /// The first `bytes` bytes of a file, as far as they are whole lines.
  static Facts Read(const std::string& path, std::uint64_t bytes) {
    std::ifstream file(path);
    Facts facts;
    std::uint64_t read = 0;
    for (std::string line; std::getline(file, line);) {
      read += line.size() + 1;
      if (read > bytes) break;
      facts.Add(line);
    }
    return facts;
  }

 private:
  void Add(const std::string& line) {
    if (line.starts_with("! ")) {
      broken = line;
      return;
    }
    const std::uint64_t number = std::stoull(line.substr(2));
    switch (line[0]) {
      case '+':
        admitted.insert(number);
        break;
      case '-':
        leaving.insert(number);
        durable.erase(number);
        ++evictions;
        break;
      case '=':
        for (const std::uint64_t one : admitted) {
          if (one >= number) break;
          if (one % kLinks == number % kLinks && !leaving.contains(one)) durable.insert(one);
        }
        break;
      case 'p':
        pins[number % kLinks].insert(number);
        break;
      default:
        broken = "an unknown fact: " + line;
    }
  }
};

/// Smaller than what disk_load admits, so that the store evicts.
inline BlockStoreOptions CrashOptions(const std::string& directory, std::uint64_t megabytes) {
  BlockStoreOptions options = OneDirectory(directory, megabytes << 20, 3ULL << 20);
  options.link_in_use_for = std::chrono::seconds(0);
  return options;
}

}  // namespace forebay
