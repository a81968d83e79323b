// libFuzzer's entry into the target that this program is built for.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const forebay::FuzzTarget* const target = forebay::FindFuzzTarget(FOREBAY_FUZZ_TARGET);
  forebay::Require(target != nullptr);
  target->run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
