#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_targets.h"

// The first inputs of the fuzzers, in every build.
namespace forebay {
namespace {

TEST(FuzzSeeds, EveryOneOfEveryTargetBreaksNoRule) {
  for (const FuzzTarget& target : FuzzTargets()) {
    const Seeds seeds = target.seeds();
    EXPECT_FALSE(seeds.empty()) << target.name;
    for (const auto& [name, bytes] : seeds) {
      SCOPED_TRACE(std::string(target.name) + "/" + name);
      target.run(bytes);
      for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 50) {
        target.run(std::string_view(bytes).substr(0, cut));
      }
    }
  }
}

TEST(FuzzSeeds, RuleThatIsBrokenEndsTheProgram) {
  EXPECT_DEATH(Require(false), "");
  EXPECT_EQ(FindFuzzTarget("no such target"), nullptr);
}

}  // namespace
}  // namespace forebay
