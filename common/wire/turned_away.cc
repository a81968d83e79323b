#include "common/wire/turned_away.h"

#include <chrono>
#include <utility>

namespace forebay {
namespace {

constexpr std::chrono::minutes kEvery{1};

}  // namespace

std::optional<std::string> TurnedAway::Note(std::string_view why, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  ++count_;
  if (now < due_) return std::nullopt;
  due_ = now + kEvery;
  return "connections turned away: " + std::to_string(std::exchange(count_, 0)) +
         "; the last because " + std::string(why);
}

}  // namespace forebay
