#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace forebay {

/// The order in which a job has said that it will read files, and how far it is. Many loaders read
/// at once, so the reads come in about this order: the job's place is behind the farthest one. A
/// file may stand in the order several times (several epochs); a read means the place nearest to
/// where the job is. One thread at a time.
class AnnouncedOrder {
 public:
  /// How far ahead of the job files are fetched.
  struct Window {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
  /// A file to fetch.
  struct Next {
    std::uint64_t nodeid = 0;
    std::uint64_t size = 0;
    std::size_t place = 0;  ///< In the order.
    /// Its reader is not spared the question: it tells where the job is, of which nothing would be
    /// heard if all that it reads were in the page cache.
    bool sign = false;
  };
  using SizeOf = std::function<std::optional<std::uint64_t>(std::uint64_t nodeid)>;

  /// One file in so many is a sign.
  static constexpr std::size_t kSignEvery = 16;
  /// Reads elsewhere in the order, all in one region, that mean that the job goes on from there.
  static constexpr std::size_t kStraysForJump = 16;
  /// What many loaders read at once lies so close together.
  static constexpr std::size_t kRegion = 8192;
  static constexpr std::size_t kMaxFiles = 1U << 22;

  /// At most kMaxFiles.
  explicit AnnouncedOrder(std::vector<std::uint64_t> nodeids);

  /// A reader has begun to read the file.
  void NoteRead(std::uint64_t nodeid);

  /// The next file that `window` has room for; each place of the order once, unless the job goes
  /// back to before it. Files of which `size_of` knows nothing are passed over.
  std::optional<Next> Take(const Window& window, const SizeOf& size_of);

  /// What Take has answered is still in front of the job.
  bool IsAhead(const Next& file) const {
    return file.place >= position_ && file.place < nodeids_.size() &&
           nodeids_[file.place] == file.nodeid;
  }

  /// Places before this one have been read, or passed over.
  std::size_t position() const { return position_; }
  std::size_t size() const { return nodeids_.size(); }
  /// Goes on where an earlier process was.
  void Resume(std::size_t position);

 private:
  std::optional<std::size_t> NearestPlaceOf(std::uint64_t nodeid) const;
  void MoveTo(std::size_t position);
  void NoteStray(std::size_t place);

  std::vector<std::uint64_t> nodeids_;
  std::vector<std::uint32_t> places_;  // of nodeids_, by nodeid and place
  std::size_t position_ = 0;
  std::size_t next_ = 0;             // to be fetched
  std::deque<std::uint64_t> ahead_;  // sizes of what lies between position_ and next_
  std::uint64_t ahead_bytes_ = 0;
  std::size_t last_stray_ = 0;
  std::size_t strays_ = 0;
};

}  // namespace forebay
