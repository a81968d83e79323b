#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "common/s3/object_store.h"

namespace forebay {

/// What a file of a listing's range consists of.
enum class FrameKind : std::uint8_t {
  kBegin = 1,  ///< begin, then the end: first of every file.
  kEnd = 2,    ///< The end, from now on.
  kKeys = 3,   ///< How far the range is, then objects, ascending, up to there; or none.
  kDone = 4,   ///< The end; nothing more comes.
};

struct Frame {
  FrameKind kind = FrameKind::kBegin;
  std::uint32_t objects = 0;
  std::uint64_t bytes = 0;  ///< Of the objects, in S3.
  std::string_view payload;
};

/// A file of frames with checksums, appended to, by any thread. All calls block. Nothing is synced:
/// what a power cut takes is listed again.
class RangeFile {
 public:
  /// kInternal: the host refused.
  static Result<std::unique_ptr<RangeFile>> Open(const std::string& path);
  ~RangeFile();
  RangeFile(const RangeFile&) = delete;
  RangeFile& operator=(const RangeFile&) = delete;

  /// kInternal: the disk failed; the file may hold a part of the frame then.
  Status Append(const Frame& frame);

  /// Calls `visit` for each whole frame from the front, until it fails, and cuts off what is behind
  /// them: the frame that a crash tore.
  Status ForEach(const std::function<Status(const Frame&)>& visit);

 private:
  RangeFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Result<bool> ReadAt(std::uint64_t offset, char* to, std::size_t count) const;
  Error Failed(const char* what) const;

  const std::string path_;
  const int fd_;
  std::mutex mutex_;
  std::string buffer_;  // of one frame
};

// What frames hold.

void PutText(std::string& out, std::string_view text);  ///< At most 65,535 bytes.
void PutEnd(std::string& out, const std::optional<std::string>& end);
void PutObject(std::string& out, const ListedObject& object);

/// Each takes its bytes from the front of `rest`; false where they are not there.
bool TakeText(std::string_view& rest, std::string_view& text);
bool TakeEnd(std::string_view& rest, std::optional<std::string>& end);
bool TakeObject(std::string_view& rest, ListedObject& object);

}  // namespace forebay
