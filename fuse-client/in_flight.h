#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace forebay {

/// Counts a coroutine in and out.
class InFlight {
 public:
  explicit InFlight(std::shared_ptr<std::size_t> count) : count_(std::move(count)) { ++*count_; }
  ~InFlight() { --*count_; }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  std::shared_ptr<std::size_t> count_;
};

}  // namespace forebay
