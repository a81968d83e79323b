#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "fuse-client/supervisor/owned_fd.h"

namespace forebay {

/// Entries in a file in memory that outlives the process that writes them: whoever has the
/// descriptor reads what was last written, also when the writer was killed in the midst of it.
///
/// The file is a header and two regions. A region is a row of records, each an entry made, replaced
/// or removed; one word of the header says which region holds and how many of its bytes, and is
/// written last. When a region holds much that no longer counts, what counts is written to the
/// other one. One thread.
class KeptJournal {
 public:
  struct Record {
    std::string value;
    std::uint64_t descriptor = 0;  ///< A number of the caller's; 0 = none.
  };
  using Records = std::map<std::string, Record>;

  /// kInternal: the system refuses.
  static Result<KeptJournal> Create();
  /// kInvalid: not such a file, or of another layout.
  static Result<KeptJournal> Open(OwnedFd file);

  int fd() const { return file_.get(); }
  const Records& records() const { return records_; }

  /// Makes or replaces an entry. kInternal: no memory; then the file says what it said before.
  Status Keep(const std::string& key, Record record);
  /// Removes the entries whose key begins so.
  Status Drop(std::string_view prefix);

  /// What a region may hold that does not count before the other one is used.
  static constexpr std::size_t kSlackBytes = 1UL << 20;

 private:
  explicit KeptJournal(OwnedFd file) : file_(std::move(file)) {}
  Status Read();
  Status Append(const std::string& records);
  Status Rewrite();
  Status Commit(std::uint64_t region, std::uint64_t bytes);

  OwnedFd file_;
  Records records_;
  std::uint64_t region_ = 0;
  std::uint64_t bytes_ = 0;       // of the region
  std::uint64_t live_bytes_ = 0;  // of it, when it was last rewritten
};

}  // namespace forebay
