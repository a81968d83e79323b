#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// One request of the kernel, as it was read. It is in use exactly while its first four bytes, the
/// request's length, are not zero: the kernel writes them when it hands the request out, and they
/// are zeroed when it has been answered. So a process that dies between any two instructions leaves
/// its unanswered requests here, without a system call for it.
struct alignas(512) RequestSlot {
  /// Holds every request that only reads, with a name of 255 bytes. Of a longer one (a batch of
  /// forgets, what would write, a name that is too long) this is the beginning.
  static constexpr std::size_t kRequestBytes = 496;

  std::array<std::byte, kRequestBytes> request;
  std::uint32_t connection;  ///< Whose request; written before the request is read.
  std::uint32_t unused[3];

  std::uint32_t Length() const {
    return std::atomic_ref(const_cast<std::uint32_t&>(length())).load(std::memory_order_acquire);
  }
  void Clear() { std::atomic_ref(length()).store(0, std::memory_order_release); }

 private:
  const std::uint32_t& length() const {
    return *reinterpret_cast<const std::uint32_t*>(request.data());
  }
  std::uint32_t& length() { return *reinterpret_cast<std::uint32_t*>(request.data()); }
};
static_assert(sizeof(RequestSlot) == 512);

class SlotArena;

/// A request that is answered later than the call that brought it.
struct HeldRequest {
  SlotArena* arena = nullptr;
  RequestSlot* slot = nullptr;
  /// After its answer, on the arena's thread, once.
  void Answered() const;
};

/// The slots of one thread; only that thread uses them.
class SlotArena {
 public:
  /// `used` is how many of the slots were ever taken; the others are never looked at, so that their
  /// memory need not exist. What is in use already was left by an earlier process.
  SlotArena(std::span<RequestSlot> slots, std::uint32_t& used);

  /// A free slot, marked with the connection; null when all are in use. Until a request is read
  /// into it, it is free for a successor.
  RequestSlot* Take(std::uint32_t connection);
  /// Answered, or never filled.
  void Release(RequestSlot* slot);

  /// What an earlier process left of this connection; each must be released in the end. Once.
  std::vector<RequestSlot*> Leftovers(std::uint32_t connection);

  /// The request that is being processed on this thread, until somebody holds on to it.
  void SetCurrent(RequestSlot* slot) { current_ = slot; }
  /// The current one becomes the caller's to release.
  HeldRequest Hold() { return {this, std::exchange(current_, nullptr)}; }
  /// Releases the current one unless somebody holds on to it.
  void EndCurrent() {
    if (current_ != nullptr) Release(std::exchange(current_, nullptr));
  }

  std::size_t in_use() const { return used_ - free_.size(); }

 private:
  const std::span<RequestSlot> slots_;
  std::uint32_t& used_;
  std::vector<RequestSlot*> free_;  // the last one is taken first, so that few pages are touched
  std::vector<RequestSlot*> leftovers_;
  RequestSlot* current_ = nullptr;
};

inline void HeldRequest::Answered() const { arena->Release(slot); }

/// All slots: a file in memory that outlives the process that serves.
class RequestSlots {
 public:
  /// Of one thread. More requests at once wait in the kernel.
  static constexpr std::size_t kSlotsPerArena = 4096;
  static constexpr std::size_t kArenasMax = 256;

  /// Takes memory only as slots are used. kInternal: the system refuses.
  static Result<RequestSlots> Create(std::size_t arenas);
  /// kInvalid: not such a file, or of another layout.
  static Result<RequestSlots> Map(OwnedFd file);

  int fd() const { return file_.get(); }
  std::size_t arenas() const;
  SlotArena Arena(std::size_t i) const;
  /// Slots in use, of all arenas. Nobody serves meanwhile.
  std::vector<RequestSlot*> InUse() const;
  /// Frees what is in use of other connections than these: they have ended. Nobody serves
  /// meanwhile.
  void ClearAllBut(const std::set<std::uint32_t>& connections) const;

 private:
  struct Header;
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(void* place) const;
  };
  RequestSlots(OwnedFd file, std::unique_ptr<void, Unmap> memory)
      : file_(std::move(file)), memory_(std::move(memory)) {}
  Header& header() const;
  std::span<RequestSlot> SlotsOf(std::size_t arena) const;

  OwnedFd file_;
  std::unique_ptr<void, Unmap> memory_;
};

}  // namespace forebay
