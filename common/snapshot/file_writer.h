#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

/// Writes a snapshot file from front to back beside its final place, with the checksums of its
/// cells and its digest on the way. What was not committed is removed at the end.
class SnapshotFileWriter {
 public:
  static Result<std::unique_ptr<SnapshotFileWriter>> Create(std::string path);
  ~SnapshotFileWriter();
  SnapshotFileWriter(const SnapshotFileWriter&) = delete;
  SnapshotFileWriter& operator=(const SnapshotFileWriter&) = delete;

  std::uint64_t offset() const { return offset_; }
  /// Buffered: an error of the disk may show only at Commit.
  void Append(const void* bytes, std::size_t count);
  void Append(std::string_view bytes) { Append(bytes.data(), bytes.size()); }
  /// Zero bytes up to `offset`, which is not before offset().
  void PadTo(std::uint64_t offset);
  /// The checksums of all cells so far, the last one short; nothing that follows has any.
  void AppendCellChecksums();
  /// Syncs the file, puts it in its place and syncs the directory. kInternal: the disk failed; then
  /// nothing is at the final place that was not there before.
  Result<SnapshotDigest> Commit();

 private:
  struct Digester;
  SnapshotFileWriter(std::string path, std::string temporary, int fd);
  void Flush();
  void NoteError(const char* what);

  const std::string path_;
  const std::string temporary_;
  int fd_;
  bool committed_ = false;
  bool hashing_cells_ = true;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<std::uint64_t> cells_;
  std::unique_ptr<Digester> digester_;
  Status status_;  // the first error
};

}  // namespace forebay
