#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/key_rules.h"
#include "common/snapshot/tree_cursor.h"

namespace forebay {

/// One path that a difference is about.
struct DeltaEntry {
  enum class Kind : std::uint8_t {
    kRemoved,  ///< A file, or a folder with all that it holds.
    kFile,     ///< Takes the place of whatever was there.
    kFolder,   ///< Its mark; what it holds has entries of its own. Takes the place of a file.
  };
  Kind kind = Kind::kRemoved;
  std::string_view path = {};
  std::uint64_t size = 0;  ///< Of a file, with the next three.
  std::uint32_t mtime_unix_s = 0;
  bool archived = false;
  std::string etag = {};
  std::optional<PosixAttributes> posix = std::nullopt;  ///< Of a file.
  std::optional<FolderMark> mark = std::nullopt;  ///< Of a folder; nothing: it has none any more.
  /// Of a file, ascending; by places of DeltaLinePlace.
  std::vector<AttributeLine> lines = {};
};

/// A key that a difference shows as hidden or no longer.
struct DeltaHidden {
  std::string_view key;
  std::optional<HiddenReason> reason;  ///< Nothing: it is not hidden any more.
};

/// Writes texts as what they share with the text before, and the rest.
class DeltaTextWriter {
 public:
  void Append(std::string_view text, std::string& out);

 private:
  std::string before_;
};

/// Appends the entries, which come in the strict order of ComparePaths.
class DeltaEntryWriter {
 public:
  void Append(const DeltaEntry& entry, std::string& out);

 private:
  DeltaTextWriter paths_;
};

/// Appends the hidden keys, which come in strict byte order.
class DeltaHiddenWriter {
 public:
  void Append(const DeltaHidden& hidden, std::string& out);

 private:
  DeltaTextWriter keys_;
};

/// Reads bytes that somebody else wrote. After a failure nothing more is read.
class DeltaReader {
 public:
  /// `with_lines`: files may have lines of a manifest.
  explicit DeltaReader(std::string_view bytes, bool with_lines = false)
      : rest_(bytes), with_lines_(with_lines) {}

  /// The next entry, whose path is good until the next call; nothing behind the last. kCorrupt: it
  /// is no entry, its path is not behind the one before or could not be a file's. Lines point into
  /// the bytes.
  Result<std::optional<DeltaEntry>> NextEntry();
  /// Likewise, of the hidden keys.
  Result<std::optional<DeltaHidden>> NextHidden();

 private:
  bool TakeNumber(std::uint64_t& value);
  bool TakeBytes(std::size_t count, std::string_view& bytes);
  bool TakeText();
  bool TakeFile(std::uint8_t bits, DeltaEntry& entry);
  bool TakeMark(std::uint8_t bits, DeltaEntry& entry);
  bool TakePosix(std::uint8_t bits, std::optional<PosixAttributes>& posix);
  bool TakeLines(std::uint8_t bits, std::vector<AttributeLine>& lines);
  template <typename T>
  bool Take(T& value);

  std::string_view rest_;
  const bool with_lines_;
  std::string text_;
  std::string before_;
  bool first_ = true;
};

}  // namespace forebay
