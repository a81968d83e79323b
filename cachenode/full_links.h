#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "common/base/deadline.h"
#include "common/model/object_version.h"

namespace forebay {

/// For which links the store has just had no room: what is fetched in the background for such a
/// link would cost a GET and be thrown away. Room may come back, so one block is let through each
/// kProbeEvery. Thread-safe.
class FullLinks {
 public:
  static constexpr std::chrono::seconds kProbeEvery{1};

  /// The store had no room for a block of `length` bytes.
  void NoteRefused(const Uuid& link, std::uint32_t length, TimePoint now);
  /// It had room for one.
  void NoteKept(const Uuid& link, std::uint32_t length);

  /// Whether a block of `length` bytes is worth a GET: smaller ones than the store refused are.
  bool MayHaveRoom(const Uuid& link, std::uint32_t length, TimePoint now);

 private:
  struct Refusal {
    std::uint32_t length = 0;  // the smallest
    TimePoint probe_at;
  };

  std::mutex mutex_;
  std::unordered_map<Uuid, Refusal> refused_;
};

}  // namespace forebay
