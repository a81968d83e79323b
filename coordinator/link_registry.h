#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/link.h"
#include "common/snapshot/difference.h"
#include "coordinator/state_store.h"
#include "coordinator/task_book.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

/// LinkState.state on the wire.
enum class LinkPhase : std::uint8_t { kListing = 0, kReady = 1, kFailed = 2 };

/// Why a link is listed again.
enum class RefreshCause : std::uint8_t { kAsked = 0, kPeriod = 1, kChanged = 2 };

/// A link as the coordinator keeps it.
struct Link {
  LinkSpec spec;
  std::optional<proto::GenerationInfo> generation;  ///< The current one.
  std::optional<proto::GenerationInfo> previous;    ///< Still served.
  std::uint64_t next_generation = 1;
  std::string task_id;  ///< Of the listing that runs; "" = none.
  /// What that listing looks at; "" = the whole link. Several are joined (JoinPaths).
  std::string refresh_path;
  std::int64_t checked_unix_s = 0;  ///< Begin of the last complete listing of the whole link.
  std::string refresh_error;        ///< Why the last refresh failed; "" = it did not.

  /// It was listed, that listing was lost, and it is not there again: the new one runs, or it
  /// failed (refresh_error). An immutable link keeps its generation instead (frozen_links.h).
  bool HasLostGeneration() const { return !generation && next_generation > 1; }
  LinkPhase phase() const { return generation ? LinkPhase::kReady : LinkPhase::kListing; }
  std::string Source() const { return "s3://" + spec.origin.bucket + "/" + spec.origin.prefix; }
};

/// Several paths in one; none of them has a NUL.
std::string JoinPaths(const std::vector<std::string>& paths);
std::vector<std::string> SplitPaths(std::string_view joined);  ///< "" = none.

/// All links. Every change is persisted in one batch before it shows, and raises version(), by
/// which nodes notice that their list is old. Calls that change block (Offload); all are
/// thread-safe.
class LinkRegistry {
 public:
  /// `store` and `tasks` outlive it.
  LinkRegistry(StateStore& store, std::uint64_t fence, TaskBook& tasks);

  /// Takes the persisted links. Blocks; before anything serves.
  Status Load();

  struct Added {
    Link link;
    bool is_new = false;
  };
  /// Adds a link and its listing task, or answers the link that is there already with the same
  /// options. kInvalid: the name is taken with other options, which the message lists, or by a set.
  Result<Added> Add(LinkSpec spec);
  /// As Add, without adding: kInvalid where Add would say so.
  Status CheckAdd(const LinkSpec& spec) const;
  /// As AddSet, without adding.
  Status CheckAddSet(const std::vector<LinkSpec>& specs) const;

  /// Adds the parts of a set (link_set.h), which all name it, with their listing tasks: all of them
  /// in one batch or none. Answers them as they are when the set is there already with the same
  /// parts and options. kInvalid: it has others, or a link has the name of the set or of a part.
  Result<std::vector<Added>> AddSet(std::vector<LinkSpec> specs);

  /// A listing of `path` (or "" for all, or JoinPaths) begins, unless one runs already: then it is
  /// answered. kNotFound: the link was removed. The link has a generation.
  Result<Added> BeginRefresh(const Uuid& id, const std::string& path, RefreshCause cause);

  /// The generation's file is complete: it becomes the link's current one and ends its task.
  /// kNotFound: the link was removed meanwhile.
  Status Publish(const Uuid& id, const proto::GenerationInfo& generation,
                 const SnapshotDifference& difference);

  /// The refresh that began at `begun_unix_s` found what the current generation says: that one
  /// stays, and the task ends.
  Status Confirm(const Uuid& id, std::int64_t begun_unix_s);

  /// The listing failed for good: ends its task with `reason`. A link that was never listed is
  /// removed, for nothing could be mounted, and with it the set that it is a part of; any other
  /// stays. Answers what was removed.
  Result<std::vector<Link>> FailListing(const Uuid& id, const std::string& reason);

  /// The refresh was cancelled for `reason`: everything stays as it is, and its task ends.
  Status CancelRefresh(const Uuid& id, const std::string& reason);

  /// The current generation's file is gone or damaged: the link lists again, under a new task; one
  /// that it had ends as cancelled. An immutable link keeps its generation, which says what may be
  /// published (frozen_links.h).
  Status Relist(const Uuid& id);

  /// Changes what is decided about a link (pins, quota), with `also` in the same batch. `change`
  /// gets the version that the change makes. kNotFound: the link was removed.
  Status Decide(const Uuid& id, const std::function<void(LinkSpec&, std::uint64_t)>& change,
                StateBatch also);

  /// Removes a link, or a set with all its parts in one batch, and answers them. kNotFound names
  /// the nearest link; kInvalid: it is a part of a set.
  Result<std::vector<Link>> Remove(std::string_view name);

  std::vector<Link> All() const;
  std::vector<LinkSpec> Specs() const;
  /// kNotFound names the nearest link; kInvalid: it is a set.
  Result<Link> Find(std::string_view name) const;
  std::vector<Link> PartsOf(std::string_view set) const;  ///< Empty: there is no such set.
  std::optional<Link> FindById(const Uuid& id) const;
  std::uint64_t version() const;

 private:
  Status Persist(StateBatch batch);
  /// Writes `link` and, with it, its task as it is now and what `batch` has; then shows both.
  Status Store(const Link& link, const std::optional<proto::TaskState>& task,
               StateBatch batch = {});
  std::optional<Link> Locked(const Uuid& id) const;
  /// kInvalid where a set, or a link, has the name.
  Status CheckNoSet(std::string_view name) const;
  /// Under mutex_. kInvalid where a link of its sharing domain reaches S3 in another way.
  Status CheckSharing(const LinkSpec& spec) const;
  Status CheckNewSet(const std::vector<LinkSpec>& specs) const;
  /// With each link its task, ended by `end`.
  using TaskEnd = std::function<proto::TaskState(const Link&, const proto::TaskState&)>;
  Status RemoveAll(const std::vector<Link>& links, const TaskEnd& end);

  StateStore& store_;
  const std::uint64_t fence_;
  TaskBook& tasks_;
  std::mutex change_mutex_;                         // one change at a time, over its write
  mutable std::mutex mutex_;                        // guards what follows
  std::map<std::string, Link, std::less<>> links_;  // by name
  std::uint64_t version_ = 0;
};

/// What differs between two links of one name, for people: "block size 4194304, not 1048576".
/// Empty when nothing does.
std::string DescribeDifference(const LinkSpec& existing, const LinkSpec& wanted);

}  // namespace forebay
