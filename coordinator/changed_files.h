#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/asio.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "coordinator/link_registry.h"
#include "coordinator/namespace_index.h"
#include "coordinator/state_store.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

/// What nodes say that S3 has in another version than listed (DESIGN section 5, "412"). A link that
/// may be refreshed is listed again at that place, once for each report: its new generation differs
/// by what changed. Files of an immutable link, and those that a new listing shows as before, stay
/// as they are and are remembered for `forebay check`. Note and Below are thread-safe; Look runs on
/// one event loop.
class ChangedFiles {
 public:
  /// Files that are remembered of a link.
  static constexpr std::size_t kMostKept = 1000;
  /// So many changed files of one link are listed together, each by its key; more of them with the
  /// folder that holds them all.
  static constexpr std::size_t kMostSingle = 16;

  struct Parts {
    StateStore& store;
    std::uint64_t fence = 0;
    LinkRegistry& links;
    NamespaceIndex& index;
    Offload& offload;
    /// Begins to list parts of a link again ("" = all); true: it has begun, and the link shows its
    /// task.
    std::function<Task<bool>(LinkSpec link, std::vector<std::string> paths)> refresh;
  };
  explicit ChangedFiles(Parts parts) : parts_(std::move(parts)) {}

  /// Takes what was persisted. Blocks; before anything serves.
  Status Load();

  void Note(const proto::HeartbeatRequest& heartbeat);
  /// True while a report waits for a listing.
  bool IsBusy() const;
  /// Begins the listings that are due. A few times a second while IsBusy.
  Task<void> Look();
  /// Notified by Note.
  Notifier& reported() { return reported_; }

  /// Files below `path` ("" = all) of the current generation that S3 does not have any more as
  /// listed, and cannot be listed anew.
  std::vector<proto::ChangedFile> Below(const Uuid& link, std::string_view path) const;

 private:
  struct Report {
    std::string path;
    std::string etag;
    std::int64_t since_unix_s = 0;
    bool listed_together = false;  // a listing of this place and others has begun since
    bool listed = false;           // one of this place alone, or of a folder that holds it
  };
  using Reports = std::map<std::string, Report>;  // by path

  Task<void> LookAt(Uuid id);
  Task<void> ListAnew(LinkSpec link, std::vector<Report> reports);
  std::vector<Report> Due(const Link& link);
  Status Keep(const Uuid& id, const std::vector<Report>& reports);
  bool IsListed(const Uuid& link, std::string_view path, std::string_view etag) const;

  const Parts parts_;
  mutable std::mutex mutex_;
  // Below: guarded by mutex_.
  std::map<Uuid, Reports> waiting_;
  std::map<Uuid, proto::ChangedFilesRecord> kept_;
  Notifier reported_;
};

/// The deepest folder that holds all of `paths`; "" = the root.
std::string CommonFolder(const std::vector<std::string>& paths);

}  // namespace forebay
