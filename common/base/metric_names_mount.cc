#include "common/base/metric_names.h"

namespace forebay::metric {

const CounterMetric kPlacedReads{{
    .name = "forebay_placed_reads_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"result"},
    .programs = "mount",
    .help = "Reads of which a node of this machine said where their bytes lie: read (by the mount "
            "itself, out of the page cache), remembered (the same at a place that the mount knew "
            "from before, without a question to the node), and those whose bytes came over the "
            "socket after all: no_file (the first of a segment), not_in_memory (the node asks the "
            "disk), gone (evicted meanwhile, or damaged: the node looks).",
}};

const CounterMetric kCrossZoneBytes{{
    .name = "forebay_cross_zone_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {"link"},
    .programs = "node, mount",
    .help =
        "Bytes of blocks that crossed from one zone to another (--zone): what a mount read from "
        "nodes of other zones than its own, and what a node sent to mounts and nodes of other "
        "zones. The nodes' sum is all that there is; what mounts read is in it.",
}};

const CounterMetric kFuseOps{{
    .name = "forebay_fuse_ops_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"op", "errno"},
    .programs = "mount",
    .help =
        "Requests of the kernel that were answered, by operation (lookup, read; in mode large also "
        "open and release, one each for a file that is opened) and result (OK, ENOENT, …).",
}};

const CounterMetric kEio{{
    .name = "forebay_eio_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"reason"},
    .programs = "mount",
    .help =
        "Reads that ended in an I/O error for the application, by reason (Unavailable, Timeout, "
        "Denied and so on). Alert on any rise.",
}};

const CounterMetric kHedges{{
    .name = "forebay_hedged_reads_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"result"},
    .programs = "mount",
    .help =
        "Reads for which a second cache node was asked because the first took much longer than "
        "nodes take: won (the second answered first), in_vain (the first did, or the second does "
        "not have the block). Zero where all nodes are equally fast.",
}};

const CounterMetric kLocalCopyOpens{{
    .name = "forebay_local_copy_opens_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "mount",
    .help = "Files opened that the kernel reads out of a local copy (--local-copy) by itself: what "
            "is read of them is in no other counter.",
}};

const CounterMetric kLocalCopies{{
    .name = "forebay_local_copies_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"result"},
    .programs = "mount",
    .help = "Local copies of files: made, without_room (the folder is full), failed (the file "
            "could not be read or the copy not written; it is tried again), damaged (withdrawn, "
            "because it does not match what was copied).",
}};

const CounterMetric kLocalCopyBytes{{
    .name = "forebay_local_copy_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {},
    .programs = "mount",
    .help = "Bytes written to local copies, also to those that were never finished.",
}};

const CounterMetric kJobStall{{
    .name = "forebay_job_stall_seconds_total",
    .kind = MetricKind::kCounter,
    .unit = "seconds",
    .labels = {"link"},
    .programs = "mount",
    .help =
        "Time that reads of jobs waited for S3, for cache nodes that did not answer, or in vain, "
        "summed over reads. What each job waited for is in `forebay explain --job`.",
}};

const CounterMetric kSnapshotFetches{{
    .name = "forebay_snapshot_fetches_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"how"},
    .programs = "mount",
    .help = "Listings that a mount obtained: by a difference (difference), or whole because none "
            "was here before (first), no difference led from that one (not_offered), it could not "
            "be fetched (not_served), did not lead to the listing that was announced (wrong), or "
            "would have taken more memory than the mount's limit to follow (too_large).",
    .stability = MetricStability::kEvolving,
}};

const CounterMetric kReceiveWaits{{
    .name = "forebay_receive_wait_seconds_total",
    .kind = MetricKind::kCounter,
    .unit = "seconds",
    .labels = {},
    .programs = "mount",
    .help = "Time that reads waited because the mount may not take more from other machines "
            "(max_bandwidth), summed over reads.",
}};

}  // namespace forebay::metric
