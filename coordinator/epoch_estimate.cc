#include "coordinator/epoch_estimate.h"

#include <algorithm>
#include <utility>

namespace forebay {

namespace {

constexpr double kConsumed = 0.95;

/// A part that is consumed begins anew with a quarter of it, while it grew by less than this.
constexpr double kPartAgain = 0.25;
constexpr double kHardlyGrown = 1.05;

/// A new pass is seen by 1 % of the blocks; in a small link by three, since a block or two may come
/// again by themselves.
double AgainOf(double size) { return std::max(size / 100, std::min(3.0, size / 4 + 1)); }

}  // namespace

EpochEstimate::EpochEstimate(double sample_size, std::uint64_t epoch)
    : size_(sample_size),
      epoch_(std::max<std::uint64_t>(epoch, 1)),
      places_(std::make_unique<Bitmaps>()) {}

double EpochEstimate::progress() const {
  return std::min(1.0, places_->current.Distinct() / size_);
}

bool EpochEstimate::Consumed() const { return progress() >= kConsumed; }

void EpochEstimate::Touch(std::uint32_t place) {
  Bitmaps& places = *places_;
  if (!places.current.Add(place)) {
    const bool late = consumed_ && places.tail.bits.test(place);
    if (!late && places.next.Add(place) && TurnsNow()) Turn();
    return;
  }
  const double touched = places.current.Distinct();
  size_ = std::max(size_, touched);
  if (consumed_) {
    places.tail.Add(place);
    return;
  }
  consumed_ = Consumed();
  if (!consumed_ && touched <= next_since_ * kHardlyGrown + 1) return;
  // What came again until here were early re-reads.
  places.next = Places();
  next_since_ = touched;
}

bool EpochEstimate::TurnsNow() const {
  const double again = places_->next.Distinct();
  // The hair makes up for what linear counting adds to a whole number of blocks.
  constexpr double kHair = 0.01;
  if (again + kHair < AgainOf(size_)) return false;
  return consumed_ || again >= places_->current.Distinct() * kPartAgain;
}

void EpochEstimate::Turn() {
  if (!consumed_) size_ = places_->current.Distinct();
  ++epoch_;
  places_->current = std::exchange(places_->next, Places());
  places_->tail = Places();
  consumed_ = Consumed();
  next_since_ = places_->current.Distinct();
}

}  // namespace forebay
