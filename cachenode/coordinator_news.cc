#include "cachenode/coordinator_news.h"

#include <utility>

namespace forebay {

bool IsRefusal(const Status& status) {
  return !status && (status.error().code == Code::kInvalid || status.error().code == Code::kDenied);
}

CoordinatorNews::News CoordinatorNews::Note(const Status& status, TimePoint now) {
  const bool was_alone = std::exchange(alone_, !status);
  if (status) {
    say_refusal_at_ = {};
    return was_alone ? News::kAnswersAgain : News::kNone;
  }
  if (!IsRefusal(status)) return was_alone ? News::kNone : News::kSilent;
  if (now < say_refusal_at_) return News::kNone;
  say_refusal_at_ = now + kSayRefusalEvery;
  return News::kRefuses;
}

}  // namespace forebay
