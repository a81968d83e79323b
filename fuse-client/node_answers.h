#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "common/base/deadline.h"

namespace forebay {

/// How long each cache node took to answer reads out of its cache. What it had to fetch from S3
/// first is not among them: that says nothing about the node. Thread-safe.
class NodeAnswers {
 public:
  struct Sum {
    std::uint64_t reads = 0;
    Duration waited{};
  };
  /// More nodes than a report has room for are not told apart from those left out.
  static constexpr std::size_t kMaxNodes = 2048;

  void Count(const std::string& node, Duration took) {
    std::scoped_lock lock(mutex_);
    if (sums_.size() >= kMaxNodes && !sums_.contains(node)) return;
    Sum& sum = sums_[node];
    ++sum.reads;
    sum.waited += took;
  }

  /// Goes on where an earlier process was.
  void Resume(const std::string& node, std::uint64_t reads, Duration waited) {
    std::scoped_lock lock(mutex_);
    sums_[node] = Sum{reads, waited};
  }

  std::map<std::string, Sum> Sums() const {
    std::scoped_lock lock(mutex_);
    return sums_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Sum> sums_;
};

}  // namespace forebay
