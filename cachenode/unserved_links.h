#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "common/base/deadline.h"
#include "common/model/block_source.h"
#include "common/model/link.h"
#include "common/s3/retry.h"
#include "common/s3/s3_waits.h"

namespace forebay {

/// The links that S3 does not serve this node: it gives no answer, or refuses whatever is asked
/// of it, as behind a broken route or with expired keys. Other nodes may be served, and fetch in
/// this one's place; meanwhile one coroutine for each link looks whether S3 is back. Thread-safe;
/// takes no lock while there are none.
///
/// What looks sees is less than a fill needs (a HEAD has no body, and may be allowed where a GET is
/// not): after a look that was answered the next request of a fill decides, and where it fails the
/// next looks come later.
class UnservedLinks {
 public:
  /// What was asked for last.
  struct Wanted {
    std::shared_ptr<const LinkSpec> link;
    ObjectRef object;
  };

  /// A request has had no answer, since `why`; `late`: that took long. True, and the link is
  /// unserved from now on: it was late, or the one before had none either. One connection that
  /// broke says nothing.
  bool NoteUnanswered(const Uuid& link, RetryReason why, bool late, TimePoint now);
  /// Requests were refused, and hardly for their objects' sake (S3Refusals::kOften).
  void NoteRefused(const Uuid& link);
  /// A request has had an answer, if not the one that was wanted.
  void NoteAnswered(const Uuid& link);
  /// A fill has had its bytes.
  void NoteServed(const Uuid& link);
  /// A look has.
  void NoteSeen(const Uuid& link);
  bool Holds(const Uuid& link) const;

  /// Somebody wants this, and S3 is not to be asked for it now. True: nobody looks yet whether it
  /// may be, so the caller has to.
  bool Want(Wanted wanted, TimePoint now);
  /// What whoever looks is to ask S3 about. Nothing, and the looking is over: the link is served
  /// again, or nobody has wanted anything of it for kKept; then the next fill finds out.
  std::optional<Wanted> NextLook(const Uuid& link, TimePoint now);
  /// How long to wait before it: twice as long after each look that was wrong.
  Duration PauseBefore(const Uuid& link, Duration shortest) const;

  /// The links of which fills have had no answer, whatever looks say, while somebody wants
  /// something of them; `calls` is 1. Where S3 answers what is small, as behind a route that loses
  /// large packets, nobody waits for it long enough to be seen.
  std::vector<UnansweredPlace> Waits(TimePoint now) const;

  static constexpr Duration kKept = std::chrono::minutes(1);
  static constexpr int kMostDoublings = 4;

 private:
  struct State {
    int unanswered = 0;  // one after the other
    bool unserved = false;
    bool is_watched = false;
    bool is_on_trial = false;  // a look was answered, and no fill since
    int wrong_looks = 0;
    TimePoint unanswered_since = {};  // the epoch = S3 answers, or refuses
    RetryReason why = RetryReason::kTimeout;
    Wanted wanted;
    TimePoint wanted_at;
  };

  // With mutex_ held.
  static void Lose(State& state);
  void Forget(std::map<Uuid, State>::iterator state);

  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::map<Uuid, State> links_;
};

}  // namespace forebay
