#include "fuse-client/kernel_inodes.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace forebay {

KernelInodes::KernelInodes(OwnedFd file, KernelInodeTotal* total)
    : file_(std::move(file)), total_(total) {
  struct stat facts{};
  const bool inherited =
      file_ && ::fstat(file_.get(), &facts) == 0 && facts.st_size == static_cast<off_t>(kBytes);
  if (!inherited) file_ = OwnedFd(::memfd_create("forebay-inodes", MFD_CLOEXEC));
  const bool sized = inherited || (file_ && ::ftruncate(file_.get(), kBytes) == 0);
  void* const memory =
      sized ? ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0)
            : MAP_FAILED;
  if (memory == MAP_FAILED) {
    spdlog::warn("the kernel's inodes are not counted: {}", std::generic_category().message(errno));
    file_ = OwnedFd();
    return;
  }
  words_ = static_cast<Word*>(memory);
  if (total_ != nullptr) total_->count_.fetch_add(count(), std::memory_order_relaxed);
}

KernelInodes::~KernelInodes() {
  if (words_ == nullptr) return;
  if (total_ != nullptr) total_->count_.fetch_sub(count(), std::memory_order_relaxed);
  ::munmap(words_, kBytes);
}

void KernelInodes::Given(std::uint64_t nodeid) {
  if (words_ == nullptr) return;
  const Word bit = BitOf(nodeid);
  if ((WordOf(nodeid).fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  Count().fetch_add(1, std::memory_order_relaxed);
  if (total_ != nullptr) total_->count_.fetch_add(1, std::memory_order_relaxed);
}

void KernelInodes::Forgotten(std::uint64_t nodeid) {
  if (words_ == nullptr) return;
  const Word bit = BitOf(nodeid);
  if ((WordOf(nodeid).fetch_and(~bit, std::memory_order_relaxed) & bit) == 0) return;
  Count().fetch_sub(1, std::memory_order_relaxed);
  if (total_ != nullptr) total_->count_.fetch_sub(1, std::memory_order_relaxed);
}

bool KernelInodes::Has(std::uint64_t nodeid) const {
  return words_ != nullptr && (WordOf(nodeid).load(std::memory_order_relaxed) & BitOf(nodeid)) != 0;
}

std::uint64_t KernelInodes::count() const {
  return words_ == nullptr ? 0 : Count().load(std::memory_order_relaxed);
}

}  // namespace forebay
