#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/s3/object_store.h"
#include "common/snapshot/snapshot.h"

namespace forebay {

class RangeFile;

/// What S3 said of the metadata of objects that were listed, in the order in which they were asked
/// about: 32 bytes each, in memory and in a file, so that a listing that was interrupted asks
/// nothing twice. Calls block; one thread at a time.
class PosixSpool {
 public:
  struct Answer {
    std::uint64_t object = 0;  ///< IdOf the object: that it is this one's.
    SnapshotPosixRecord posix{};
  };

  /// Goes on with what the file holds. kInternal: the host refused.
  static Result<std::unique_ptr<PosixSpool>> Open(std::string path);
  ~PosixSpool();
  PosixSpool(const PosixSpool&) = delete;
  PosixSpool& operator=(const PosixSpool&) = delete;

  Status Append(std::span<const Answer> answers);
  /// What it holds is of another listing: begins again.
  Status Clear();
  const std::vector<Answer>& answers() const { return answers_; }

  static std::uint64_t IdOf(const ListedObject& object);

 private:
  explicit PosixSpool(std::string path);
  Status Load();

  const std::string path_;
  std::unique_ptr<RangeFile> file_;
  std::vector<Answer> answers_;
};

/// Gives each listed object its POSIX metadata, of objects that come in the order of the listing:
/// from `previous` (null: there is none), where the object is there as it was listed, else the next
/// of the spool's answers.
class PosixAnswers {
 public:
  PosixAnswers(std::shared_ptr<const Snapshot> previous, const PosixSpool& spool)
      : previous_(std::move(previous)), spool_(spool) {}

  /// Nothing: S3 could not be asked, since the object was gone or another one by then. kCorrupt:
  /// the answers are of another listing.
  Result<std::optional<PosixAttributes>> Of(const ListedObject& object);

  /// `previous` does not say it. A directory's marker is asked about each time: its own time is not
  /// in a snapshot.
  static bool MustAsk(const Snapshot* previous, const ListedObject& object);

 private:
  static std::optional<PosixAttributes> Known(const Snapshot* previous, const ListedObject& object);

  const std::shared_ptr<const Snapshot> previous_;
  const PosixSpool& spool_;
  std::size_t next_ = 0;
};

}  // namespace forebay
