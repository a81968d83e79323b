#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace forebay::fakes {

/// A file's pages, which the kernel may not reclaim while this lives.
class HeldPages {
 public:
  explicit HeldPages(const std::string& path) : size_(std::filesystem::file_size(path)) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    address_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED | MAP_LOCKED | MAP_POPULATE, fd, 0);
    ::close(fd);
  }
  ~HeldPages() {
    if (address_ != MAP_FAILED) ::munmap(address_, size_);
  }
  HeldPages(const HeldPages&) = delete;
  HeldPages& operator=(const HeldPages&) = delete;

  bool held() const { return address_ != MAP_FAILED; }

 private:
  const std::size_t size_;
  void* address_ = MAP_FAILED;
};

}  // namespace forebay::fakes
