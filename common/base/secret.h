#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace forebay {

/// Text that must not be seen: it has no stream operator and no formatter, so that printing or
/// logging it does not compile, and its memory is wiped when it goes.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret& other);
  Secret(Secret&& other) noexcept : text_(std::move(other.text_)) { other.Wipe(); }
  Secret& operator=(Secret&& other) noexcept;
  ~Secret() { Wipe(); }

  /// For whoever signs, proves or writes it to its own private file; never for a message.
  std::string_view Reveal() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool operator==(const Secret&) const = default;

  template <typename Stream>
  friend Stream& operator<<(Stream&, const Secret&) = delete;

 private:
  void Wipe() noexcept;

  std::string text_;
};

}  // namespace forebay
