#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "fuse-client/supervisor/handover.h"
#include "fuse-client/supervisor/request_slots.h"

struct pollfd;

namespace forebay {

/// Answers what readers ask with EIO, while no worker lives for too long. It knows nothing of a
/// request but its header.
class Refuser {
 public:
  /// Both outlive it, and nobody serves while it is used.
  Refuser(const KeptEntries& kept, const RequestSlots& slots) : kept_(kept), slots_(slots) {}

  /// What the workers have taken and not answered. Answers how many requests were refused.
  std::size_t RefuseTaken();
  /// What waits in the kernel.
  std::size_t RefuseWaiting();
  /// Adds what to wait for until RefuseWaiting has something to do.
  void AddTo(std::vector<pollfd>& waiting) const;

 private:
  std::map<std::uint32_t, int> Connections() const;

  const KeptEntries& kept_;
  const RequestSlots& slots_;
  std::vector<std::byte> buffer_;
};

}  // namespace forebay
