#include "fuse-client/supervisor/request_slots.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace forebay {

namespace {

constexpr std::uint64_t kMagic = 0x746f6c7379627266;  // "frbyslot"
constexpr std::uint32_t kLayout = 1;
constexpr std::size_t kHeaderBytes = 4096;

constexpr std::size_t BytesFor(std::size_t arenas) {
  return kHeaderBytes + arenas * RequestSlots::kSlotsPerArena * sizeof(RequestSlot);
}

std::unexpected<Error> Refused(const char* what) {
  return Fail(Code::kInternal, "memory for the kernel's requests: " + std::string(what) + ": " +
                                   std::generic_category().message(errno));
}

}  // namespace

struct RequestSlots::Header {
  std::uint64_t magic;
  std::uint32_t layout;
  std::uint32_t arenas;
  std::array<std::uint32_t, kArenasMax> used;
};

SlotArena::SlotArena(std::span<RequestSlot> slots, std::uint32_t& used)
    : slots_(slots), used_(used) {
  if (used_ > slots_.size()) used_ = static_cast<std::uint32_t>(slots_.size());
  for (std::uint32_t i = used_; i-- > 0;) {
    (slots_[i].Length() == 0 ? free_ : leftovers_).push_back(&slots_[i]);
  }
}

RequestSlot* SlotArena::Take(std::uint32_t connection) {
  RequestSlot* slot = nullptr;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else if (used_ < slots_.size()) {
    slot = &slots_[used_++];
  } else {
    return nullptr;
  }
  // This also brings the page in, writable: a process that is being killed while the kernel copies
  // a request to a page that is not there makes the kernel fail that request.
  slot->connection = connection;
  return slot;
}

void SlotArena::Release(RequestSlot* slot) {
  slot->Clear();
  free_.push_back(slot);
}

std::vector<RequestSlot*> SlotArena::Leftovers(std::uint32_t connection) {
  std::vector<RequestSlot*> found;
  std::erase_if(leftovers_, [&](RequestSlot* slot) {
    if (slot->connection != connection) return false;
    found.push_back(slot);
    return true;
  });
  return found;
}

void RequestSlots::Unmap::operator()(void* place) const { ::munmap(place, bytes); }

Result<RequestSlots> RequestSlots::Create(std::size_t arenas) {
  OwnedFd file(::memfd_create("forebay-requests", MFD_CLOEXEC));
  if (!file) return Refused("memfd_create");
  if (::ftruncate(file.get(), static_cast<off_t>(BytesFor(arenas))) != 0) {
    return Refused("ftruncate");
  }
  Header header{};
  header.magic = kMagic;
  header.layout = kLayout;
  header.arenas = static_cast<std::uint32_t>(arenas);
  if (::pwrite(file.get(), &header, sizeof header, 0) != sizeof header) return Refused("write");
  return Map(std::move(file));
}

Result<RequestSlots> RequestSlots::Map(OwnedFd file) {
  Header header{};
  struct stat attributes{};
  const bool read = ::pread(file.get(), &header, sizeof header, 0) == sizeof header &&
                    ::fstat(file.get(), &attributes) == 0;
  if (!read || header.magic != kMagic || header.layout != kLayout || header.arenas > kArenasMax ||
      static_cast<std::size_t>(attributes.st_size) != BytesFor(header.arenas)) {
    return Fail(Code::kInvalid, "the file of the kernel's requests has an unknown layout");
  }
  const std::size_t bytes = BytesFor(header.arenas);
  void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (place == MAP_FAILED) return Refused("mmap");
  return RequestSlots(std::move(file), std::unique_ptr<void, Unmap>(place, Unmap{bytes}));
}

RequestSlots::Header& RequestSlots::header() const { return *static_cast<Header*>(memory_.get()); }

std::size_t RequestSlots::arenas() const { return header().arenas; }

std::span<RequestSlot> RequestSlots::SlotsOf(std::size_t arena) const {
  auto* first = reinterpret_cast<RequestSlot*>(static_cast<char*>(memory_.get()) + kHeaderBytes);
  return {first + arena * kSlotsPerArena, kSlotsPerArena};
}

SlotArena RequestSlots::Arena(std::size_t i) const { return {SlotsOf(i), header().used.at(i)}; }

std::vector<RequestSlot*> RequestSlots::InUse() const {
  std::vector<RequestSlot*> found;
  for (std::size_t i = 0; i < arenas(); ++i) {
    for (RequestSlot& slot : SlotsOf(i).first(header().used.at(i))) {
      if (slot.Length() != 0) found.push_back(&slot);
    }
  }
  return found;
}

void RequestSlots::ClearAllBut(const std::set<std::uint32_t>& connections) const {
  for (RequestSlot* slot : InUse()) {
    if (!connections.contains(slot->connection)) slot->Clear();
  }
}

}  // namespace forebay
