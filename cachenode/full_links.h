#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "common/base/deadline.h"
#include "common/model/object_version.h"

namespace forebay {

/// For which links the store has just had no room: what is fetched in the background for such a
/// link would cost a GET and be thrown away. That holds until room is made
/// (BlockStore::RoomVersion) or somebody asks anew (Forget). Room may come back otherwise, so one
/// block is let through each kProbeEvery. Thread-safe.
class FullLinks {
 public:
  static constexpr std::chrono::seconds kProbeEvery{1};

  /// The store had no room for a block of `length` bytes; `room` is the version of its room as it
  /// was before it was asked.
  void NoteRefused(const Uuid& link, std::uint32_t length, std::uint64_t room, TimePoint now);
  /// It had room for one.
  void NoteKept(const Uuid& link, std::uint32_t length);
  /// What was refused is to be tried once more.
  void Forget(const Uuid& link);

  /// Whether a block of `length` bytes is worth a GET: smaller ones than the store refused are, and
  /// all when its room has another version than they were refused at.
  bool MayHaveRoom(const Uuid& link, std::uint32_t length, std::uint64_t room, TimePoint now);

 private:
  struct Refusal {
    std::uint32_t length = 0;  // the smallest
    std::uint64_t room = 0;
    TimePoint probe_at;
  };

  std::mutex mutex_;
  std::unordered_map<Uuid, Refusal> refused_;
};

}  // namespace forebay
