#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace forebay {

/// `.forebay/config` of a directory of links: a text that changes while it is read. Who has opened
/// it reads it as it was then. Not shown until there is a text. Thread-safe.
class TopFile {
 public:
  static constexpr const char* kFolderName = ".forebay";
  static constexpr const char* kName = "config";
  /// Far beyond those of links' directories, which are counted up from 1.
  static constexpr std::uint64_t kFolderNodeid = 1ULL << 62;
  static constexpr std::uint64_t kNodeid = kFolderNodeid + 1;

  void Set(std::string text);
  bool shown() const;
  std::uint64_t size() const;

  /// A handle, to be closed.
  std::uint64_t Open();
  /// At most `size` bytes. A handle of an earlier process of this mount reads the text of now.
  std::string Read(std::uint64_t handle, std::uint64_t offset, std::size_t size) const;
  void Close(std::uint64_t handle);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const std::string> text_;
  std::map<std::uint64_t, std::shared_ptr<const std::string>> open_;
  std::uint64_t next_handle_ = 1;
};

}  // namespace forebay
