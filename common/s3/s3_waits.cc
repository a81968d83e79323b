#include "common/s3/s3_waits.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace forebay {

S3Waits::Place::Place(S3Waits& waits, const LinkOrigin& origin, TimePoint began) : waits_(waits) {
  Call call{
      .place = {.endpoint = origin.endpoint, .bucket = origin.bucket, .prefix = origin.prefix},
      .began = began};
  const std::scoped_lock lock(waits_.mutex_);
  call_ = waits_.calls_.insert(waits_.calls_.end(), std::move(call));
}

S3Waits::Place::~Place() {
  const std::scoped_lock lock(waits_.mutex_);
  waits_.calls_.erase(call_);
}

void S3Waits::Place::Note(const std::string& why) {
  const std::scoped_lock lock(waits_.mutex_);
  call_->place.why = why;
}

std::vector<UnansweredPlace> S3Waits::All(TimePoint now, std::size_t most) const {
  std::map<std::tuple<std::string, std::string, std::string>, UnansweredPlace> places;
  {
    const std::scoped_lock lock(mutex_);
    for (const Call& call : calls_) {
      UnansweredPlace& wait = places[{call.place.endpoint, call.place.bucket, call.place.prefix}];
      const std::uint64_t calls = wait.calls + 1;
      const Duration longest = now - call.began;
      if (calls == 1 || longest > wait.longest) {
        wait = call.place;
        wait.longest = longest;
      }
      wait.calls = calls;
    }
  }
  std::vector<UnansweredPlace> all;
  all.reserve(places.size());
  for (auto& [place, wait] : places) all.push_back(std::move(wait));
  std::ranges::sort(all, std::greater(), &UnansweredPlace::longest);
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace forebay
