#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "common/base/deadline.h"
#include "common/base/result.h"

namespace forebay {

/// Lists of names on their way from the CLI, each a file in `<state-dir>/preload`, and those that
/// tasks have taken over. Calls block (Offload); thread-safe.
class NameUploads {
 public:
  /// One list at most: 10 million names of 100 bytes.
  static constexpr std::uint64_t kMaxBytes = 1ULL << 30;
  static constexpr std::size_t kMaxPart = 512ULL << 10;
  /// An upload that nobody goes on with is deleted after this.
  static constexpr std::chrono::hours kForgetAfter{1};

  explicit NameUploads(std::string directory) : directory_(std::move(directory)) {}

  /// Adds a part; `upload` "" begins one. The same part twice is taken once. kNotFound: no such
  /// upload (any more); kInvalid: a gap, or too much. Answers the id and the size so far.
  struct Upload {
    std::string id;
    std::uint64_t size = 0;
  };
  Result<Upload> Append(const std::string& upload, std::uint64_t offset, std::string_view data);

  struct File {
    std::string name;  ///< In the directory.
    std::uint64_t digest = 0;
  };
  /// Syncs and hashes an upload. It stays an upload until a task names its file.
  Result<File> Complete(const std::string& upload);

  /// It is no upload any more: its file stays only where Prune is told that a task needs it.
  void EndUpload(const std::string& upload);

  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }

  /// Deletes all files but `needed` and the uploads that go on.
  void Prune(const std::set<std::string>& needed);

 private:
  struct Running {
    std::uint64_t size = 0;
    TimePoint touched;
  };

  const std::string directory_;
  std::mutex mutex_;
  std::map<std::string, Running> running_;  // by file name, which is the id
};

}  // namespace forebay
