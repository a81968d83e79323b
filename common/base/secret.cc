#include "common/base/secret.h"

#include <cstring>

namespace forebay {

// A short text lies in the string itself and stays there when it is moved from.
void Secret::Wipe() noexcept {
  text_.resize(text_.capacity());
  explicit_bzero(text_.data(), text_.size());
  text_.clear();
}

Secret& Secret::operator=(const Secret& other) {
  if (this == &other) return *this;
  Wipe();
  text_ = other.text_;
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  Wipe();
  text_ = std::move(other.text_);
  other.Wipe();
  return *this;
}

}  // namespace forebay
