#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/s3/object_store.h"

namespace forebay {

/// A range of a listing: the keys in (begin, until].
struct ListedRange {
  std::uint32_t id = 0;
  std::string begin;
  std::string position;              ///< The last key taken or passed; `begin` before the first.
  std::optional<std::string> until;  ///< A key; nothing = to the prefix's end.
  bool done = false;
};

class RangeFile;
struct Frame;

/// Who keeps what a RangeLister finds. Calls block and come from any thread.
class RangeSink {
 public:
  virtual ~RangeSink() = default;
  /// A range that nothing was taken from yet.
  virtual Status Begin(const ListedRange& range) = 0;
  /// It was not needed after all; it holds nothing.
  virtual Status Drop(std::uint32_t range) = 0;
  /// The range ends here: what is behind belongs to ranges that Begin has told of.
  virtual Status SetEnd(std::uint32_t range, const std::string& until) = 0;
  /// The next keys, ascending.
  virtual Status Add(std::uint32_t range, std::span<const ListedObject> objects) = 0;
  /// There are no further keys up to `position`, which is behind all that was added.
  virtual Status Pass(std::uint32_t range, const std::string& position) = 0;
  /// Nothing more comes; `until` as of SetEnd or Begin.
  virtual Status Finish(std::uint32_t range, const std::optional<std::string>& until) = 0;
};

/// What was listed so far, in a folder: a file per range, which is a run of ascending keys with
/// checksums. After a crash at any point, be it of the machine, the folder tells where each range
/// goes on: what a page's checksum does not cover is listed again. Nobody sees any of it but the
/// listing that it is part of.
class ListingSpool final : public RangeSink {
 public:
  /// A folder that is older begins again: what S3 held then says too little about now.
  static constexpr std::int64_t kMaxAgeSeconds = 86'400;

  /// Goes on with what `folder` holds of this very listing, or makes it empty. `identity` says
  /// which listing it is; of another one, of one whose ranges have a gap and of one that is too old
  /// nothing is kept. kInternal: the disk failed.
  static Result<std::unique_ptr<ListingSpool>> Open(std::string folder, const std::string& identity,
                                                    std::int64_t now_unix_s);
  ~ListingSpool() override;

  std::int64_t begun_unix_s() const { return begun_unix_s_; }
  const std::vector<ListedRange>& found() const { return found_; }  ///< By Open, in key order.
  std::uint64_t objects() const;                                    ///< Kept so far.
  std::uint64_t bytes() const;                                      ///< Sum of their sizes.

  Status Begin(const ListedRange& range) override;
  Status Drop(std::uint32_t range) override;
  Status SetEnd(std::uint32_t range, const std::string& until) override;
  Status Add(std::uint32_t range, std::span<const ListedObject> objects) override;
  Status Pass(std::uint32_t range, const std::string& position) override;
  Status Finish(std::uint32_t range, const std::optional<std::string>& until) override;

  /// When all ranges are done: calls `visit` for each object in ascending order of the keys.
  /// kCorrupt: the files do not hold what was added, or in another order: list again.
  Status ForEach(const std::function<Status(const ListedObject&)>& visit);

 private:
  explicit ListingSpool(std::string folder) : folder_(std::move(folder)) {}

  Result<bool> TakeHead(const std::string& head);
  Status Clear(const std::string& head, std::int64_t now_unix_s);
  Status LoadRanges();
  bool JoinRanges();
  std::string PathOf(std::uint32_t range) const;
  Result<std::shared_ptr<RangeFile>> FileOf(std::uint32_t range);
  Status Append(std::uint32_t range, const Frame& frame);
  Status ForEachIn(const ListedRange& range, std::string& last_key,
                   const std::function<Status(const ListedObject&)>& visit);

  const std::string folder_;
  std::int64_t begun_unix_s_ = 0;
  std::vector<ListedRange> found_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<RangeFile>> files_;  // open
  std::uint64_t objects_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace forebay
