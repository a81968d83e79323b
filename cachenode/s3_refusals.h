#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/object_version.h"

namespace forebay {

/// The links for which S3 refuses what this node asks, for its keys or its clock. Their readers go
/// to other nodes and see no error: an administrator must be told. Thread-safe.
class S3Refusals {
 public:
  struct Row {
    Uuid link;
    std::string why;          ///< What S3 said last.
    std::uint64_t calls = 0;  ///< Refused one after the other, with none between that was not.
    TimePoint since;          ///< The first of them.
  };

  /// S3 has refused a request for the link. True: it has refused
  /// kOften or more, and answered none between them; the reason is hardly one object's.
  bool Note(const Uuid& link, std::string why, TimePoint now);
  /// It has refused one that says less about why: what it said before stays.
  void NoteAgain(const Uuid& link, std::string why, TimePoint now);
  /// S3 has answered one. Takes no lock while nothing is refused.
  void NoteAnswered(const Uuid& link);
  /// Whether the last request for the link was refused, within kFresh. Takes no lock while nothing
  /// is refused.
  bool IsRefused(const Uuid& link, TimePoint now) const;
  /// Whether the last kOften and more were refused, the last one within kKept.
  bool IsOften(const Uuid& link, TimePoint now) const;
  /// Those that were refused kOften, the last time within kKept; at most `most`, by link. Forgets
  /// what is older.
  std::vector<Row> Often(TimePoint now, std::size_t most);

  static constexpr std::uint64_t kOften = 3;
  static constexpr Duration kFresh = std::chrono::seconds(5);

  /// A link of which nobody reads what is not cached is not asked for.
  static constexpr Duration kKept = std::chrono::minutes(1);

 private:
  struct Refused {
    Row row;
    TimePoint last;
  };

  Refused& Count(const Uuid& link, TimePoint now);  // with mutex_ held

  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::map<Uuid, Refused> refused_;
};

}  // namespace forebay
