#include "coordinator/state_format.h"

#include <fmt/format.h>

#include <cstdint>

namespace forebay {
namespace {

constexpr std::uint32_t kStateFormat = 1;

}  // namespace

std::string StateFormatRow() { return std::to_string(kStateFormat); }

Status CheckStateFormat(const std::optional<std::string>& row, std::string_view what) {
  if (!row || *row == StateFormatRow()) return {};
  return Fail(Code::kInvalid,
              fmt::format("{} has format {}, and this version reads {}: use the version that wrote "
                          "it, or a newer one",
                          what, *row, kStateFormat));
}

}  // namespace forebay
