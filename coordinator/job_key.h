#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <string>

#include "common/model/object_version.h"

namespace forebay {

/// One job's reads of one link.
struct JobKey {
  std::string job;
  Uuid link;
  auto operator<=>(const JobKey&) const = default;
};

/// A job of which nothing new was heard for so long is forgotten; of ended ones earlier when there
/// are more than so many.
inline constexpr std::chrono::hours kJobsShown{24};
inline constexpr std::size_t kMaxJobsShown = 4096;

}  // namespace forebay
