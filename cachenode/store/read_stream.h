#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace forebay {

/// What is remembered of a block and a job: when the job read it last, and how long it had not read
/// it then. 0 = never read.
using ReadStamp = std::uint8_t;

/// How one job reads one data set, and what follows for when it will read a block again. Learns
/// from the job itself: how often blocks of an age, and of a last gap between reads, were read
/// next. Permuted epochs, loops, subsets and blocks read several times an epoch all look different
/// there, so that no epoch has to be detected (docs/adr/0007-eviction.md).
///
/// Its clock counts reads of blocks; READs of one block in a row count once. No wall time. The
/// owner holds the stamps and shows them (Look) at random, which is how the stream learns how many
/// blocks of an age there are. Thread-safe; Note and Look of one block are not to be called at
/// once.
class ReadStream {
 public:
  /// Blocks whose stamps are to be shown to Look for each read that Note counts.
  static constexpr int kLooksPerRead = 8;

  ReadStream();
  ReadStream(const ReadStream&) = delete;
  ReadStream& operator=(const ReadStream&) = delete;

  /// What is known of a block: `stamp` is this job's; `shared`: a job that still reads has read it
  /// too, which only tells something of a block that this job has never read.
  struct Known {
    ReadStamp stamp = 0;
    bool shared = false;
  };

  /// The job reads a block. `known`: the block was there to be shown to Look before. `node_clock`
  /// counts the reads of all streams, this one included; `stamps` is how many blocks are
  /// remembered. Nothing: the read belongs to the one before, and does not count.
  std::optional<ReadStamp> Note(const Known& before, bool known, std::uint64_t node_clock,
                                std::uint64_t stamps);
  /// True when Note would answer nothing.
  bool IsSameRead(ReadStamp before) const;

  /// Counts a block as one that is there to be read. Only after a read of this stream.
  void Look(const Known& block);
  /// The stamp to be kept in place of this one: very old ones lose their date. Must be asked for
  /// each block as often as Note's `stamps` and kLooksPerRead promise.
  ReadStamp Aged(ReadStamp stamp);
  /// The owner has forgotten the block.
  void Forget(ReadStamp stamp);

  /// What keeping a block is worth to this job: about how many of the node's next reads are this
  /// job's next one of the block. 0: the job will hardly read it again, or has stopped.
  double Worth(const Known& block, std::uint64_t node_clock) const;
  /// The same of a block of which nothing is known but that it is read once an epoch.
  double MeanWorth(std::uint64_t node_clock) const;
  /// Read within the last fifth of an epoch.
  bool IsRecent(ReadStamp stamp) const;

  /// The part of an epoch that the job would have read since its last read; 0 before the first.
  double Missed(std::uint64_t node_clock) const;
  bool IsIdle(std::uint64_t node_clock) const;
  /// This job, which still reads the data that the block is of, has read it.
  bool Reads(ReadStamp stamp, std::uint64_t node_clock) const;

 private:
  // A stamp: two bits of class, six of date. Date 0: never; 1: long ago; others: the tick + 2.
  static constexpr std::uint32_t kTicks = 62;
  static constexpr int kClasses = 4;
  static constexpr int kTicksPerEpoch = 20;
  static constexpr int kAges = 3 * kTicksPerEpoch;  // buckets of age: three epochs
  static constexpr int kLongAgo = kAges;
  static constexpr int kNever = kAges + 1;
  static constexpr int kBuckets = kAges + 2;
  // Classes of what has no gap: read before a switch to other data; never read, but by others.
  static constexpr int kOtherLife = 3;
  static constexpr int kShared = 1;

  template <typename T>
  using Table = std::array<std::array<T, kBuckets>, kClasses>;
  struct Place {
    int of_class = 0;
    int bucket = 0;
  };

  std::uint32_t TicksSince(std::uint32_t date) const;
  bool IsOfOtherLife(ReadStamp stamp) const;
  std::uint32_t DateOf(ReadStamp stamp) const;
  double AgeOf(std::uint32_t date) const;
  Place PlaceOf(const Known& block) const;
  int ClassAfter(std::uint32_t date, const Place& place);
  double RateAt(std::uint64_t node_clock) const;
  void NoteReturn(std::uint64_t node_clock);
  void Advance(std::uint64_t node_clock, std::uint64_t stamps);
  void LookForSwitch(std::uint64_t reads);
  void BeginLife(std::uint32_t tick);
  void Learn(std::uint64_t stamps);
  void Value();

  std::atomic<std::uint64_t> clock_{0};
  std::atomic<std::int64_t> blocks_{0};      // with a date
  std::atomic<std::uint64_t> last_read_{0};  // by the node's clock
  std::atomic<std::uint32_t> tick_{0};
  std::atomic<std::uint64_t> next_tick_;
  std::atomic<std::uint32_t> born_{0};     // the tick in which this life began
  std::atomic<std::uint32_t> drought_{0};  // the tick in which a drought began; 0 = there is none
  std::atomic<double> period_{1};          // reads between two of a block: an epoch
  std::atomic<double> longest_pause_{0};   // that the job came back from, in epochs
  std::array<std::atomic<std::uint64_t>, kTicks> began_{};       // by the own clock
  std::array<std::atomic<std::uint64_t>, kTicks> node_began_{};  // by the node's
  Table<std::atomic<std::uint32_t>> reads_{};                    // since the last tick
  Table<std::atomic<std::uint32_t>> looks_{};
  std::atomic<std::uint64_t> returns_{0};  // since the last tick, to blocks read before the drought
  std::atomic<std::uint64_t> firsts_{0};   // since the last tick, of blocks without a date
  std::atomic<std::uint64_t> gaps_{0};     // their sum, and that of their squares, in 1/64 of
  std::atomic<std::uint64_t> gap_squares_{0};  // the period
  Table<std::atomic<float>> value_{};          // per own read

  std::mutex learning_;
  // Below: guarded by learning_.
  Table<double> reads_seen_{};
  Table<double> chances_{};  // blocks x reads
  Table<double> hazard_{};
  double gaps_seen_ = 0;
  double gap_squares_seen_ = 0;
  bool learns_ = false;
  double return_share_ = 0;   // of the reads, lately
  double drought_reads_ = 0;  // that would have been returns
  double drought_firsts_ = 0;
  double longest_drought_ = 0;  // that the job came back from, in epochs
};

}  // namespace forebay
