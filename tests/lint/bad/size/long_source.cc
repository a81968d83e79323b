#include <cstdint>

// Braces that a measure must not trip over: '{' "{{" R"({)" and /* { */.
struct Fine {
  explicit Fine(int x) : x_{x}, y_{1'000} {}
  int x_;
  int y_;
};
constexpr const char* kBrace = "{";
constexpr char kOpen = '{';
constexpr int kTable[] = {
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
};
void TooLong() {
  struct Local {};
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  auto lambda = [] { return 1; };
}
void JustShortEnough() {
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
  static_cast<void>(0);
}
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
// A line too many.
