#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "coordinator/link_registry.h"
#include "proto/coordinator.pb.h"

namespace forebay {

// An immutable link shows for ever what was there when it was linked: by key, ETag and size, which
// is what its listing digest is over. Where its listing's file is lost, its generation stays what
// the link shows, to whoever holds it, until the file is found or S3 lists the same again.

/// The file of an immutable link's generation was lost, and has not been had again: its listing
/// runs (Link.task_id) or failed (Link.refresh_error).
bool IsListingLost(const Link& link);

/// Whether `listed`, with its digest, may be published. kStale: it is another listing than an
/// immutable link showed, or nobody can tell; the message says what to do.
Status CheckFrozen(const Link& link, const proto::GenerationInfo& listed);

/// Why the current listing of the link cannot be read here, for people. Of one that is lost: of an
/// immutable link, or of one that HasLostGeneration.
Error LostListing(const Link& link);

/// One for each such link whose listing is lost and could not be made again. `failed_tasks` tell
/// since when.
std::vector<proto::Alert> LostListingAlerts(const std::vector<Link>& links,
                                            const std::vector<proto::TaskState>& failed_tasks);

/// link_failed, one for each other link whose last listing failed: it shows what it showed before.
/// It ends with the next listing that succeeds, and with the link. A link that could not be listed
/// when it was made is not there, and has none. `failed_tasks` tell since when.
std::vector<proto::Alert> FailedListingAlerts(const std::vector<Link>& links,
                                              const std::vector<proto::TaskState>& failed_tasks);

}  // namespace forebay
