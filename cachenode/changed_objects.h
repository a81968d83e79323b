#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/object_version.h"

namespace forebay {

/// Objects that S3 does not have any more in the version that a reader asked for, on their way to
/// the coordinator, which looks at S3 again (DESIGN section 5, "412"). Each is reported once,
/// however many read it; one that is still read kReportAgain later is reported again, as the
/// coordinator may have been killed with what it was told. Thread-safe.
class ChangedObjects {
 public:
  /// More than these at once are reported when somebody reads them again.
  static constexpr std::size_t kMost = 4096;
  static constexpr std::chrono::seconds kReportAgain{60};

  struct Object {
    Uuid link;
    std::string key;
    std::string etag;  ///< That S3 does not have any more.

    auto Tie() const { return std::tie(link, key, etag); }
    bool operator==(const Object& other) const { return Tie() == other.Tie(); }
    bool operator<(const Object& other) const { return Tie() < other.Tie(); }
  };

  /// True: the coordinator is to be told of it now.
  bool Note(Object object, TimePoint now);

  /// What it has not been told yet, `most` of them at most.
  std::vector<Object> ToReport(std::size_t most) const;
  void MarkReported(const std::vector<Object>& objects, TimePoint now);

 private:
  struct Report {
    bool done = false;
    TimePoint at;  // when it was done
  };
  mutable std::mutex mutex_;
  std::map<Object, Report> objects_;
};

}  // namespace forebay
