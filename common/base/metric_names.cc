#include "common/base/metric_names.h"

namespace forebay::metric {

// Those of mounts alone: metric_names_mount.cc.

const GaugeMetric kBuildInfo{{
    .name = "forebay_build_info",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {"version", "commit"},
    .programs = "all",
    .help = "Always 1; its labels say what is running.",
}};

const CounterMetric kReadBytes{{
    .name = "forebay_read_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {"link", "tier"},
    .programs = "node, mount",
    .help = "Bytes of blocks handed to readers, by where they came from: local (a cache of this "
            "machine), peer (another machine's cache), s3 (filled for this read).",
}};

const CounterMetric kSendWaits{{
    .name = "forebay_send_wait_seconds_total",
    .kind = MetricKind::kCounter,
    .unit = "seconds",
    .labels = {},
    .programs = "node",
    .help = "Time that answers waited because the node may not send more (max_bandwidth), summed "
            "over answers.",
}};

const CounterMetric kReadsSentOn{{
    .name = "forebay_reads_sent_on_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Readers that were sent to a block's next owner because many read the block here.",
}};

const CounterMetric kCopiedBytes{{
    .name = "forebay_copied_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {},
    .programs = "node",
    .help = "Blocks that this node took from other nodes to keep a further copy of them "
            "(`--replicas` of a link).",
}};

const GaugeMetric kCopiesWaiting{{
    .name = "forebay_copies_waiting",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Copies of blocks fetched here of which the nodes that are to keep them have not been "
            "told yet.",
}};

const CounterMetric kCopiesDropped{{
    .name = "forebay_copies_dropped_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Copies that were not made when their block was fetched, because the node that is to "
            "keep one did not answer or too many waited; the coordinator has them made later.",
}};

const HistogramMetric kReadDuration{{
    .name = "forebay_read_duration_seconds",
    .kind = MetricKind::kHistogram,
    .unit = "seconds",
    .labels = {},
    .programs = "node, mount",
    .help = "Time from a read request to its answer.",
    // From a hit in memory (some 20 us) to the patience with S3 (300 s), about three in a decade.
    .buckets = {0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                0.1,     0.2,     0.5,    1,      2,      5,     10,    30,    100,  300},
}};

const CounterMetric kS3Requests{{
    .name = "forebay_s3_requests_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"op", "code"},
    .programs = "coordinator, node",
    .help =
        "Calls to S3 that ended, by operation (GET, HEAD, LIST; VERSIONS, GET_VERSION and "
        "HEAD_VERSION for what a frozen link shows and the bucket keeps as an older version) and "
        "outcome: ok, or why it failed (Denied, NotFound, Unavailable and so on). Retries are "
        "counted apart.",
}};

const CounterMetric kS3Retries{{
    .name = "forebay_s3_retries_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"reason"},
    .programs = "coordinator, node",
    .help =
        "Requests to S3 that were made again, by why: network, timeout, server_error, throttled, "
        "bad_answer, credentials, dns (the name of S3 was not resolved). Zero on a healthy origin.",
}};

const CounterMetric kS3Checksums{{
    .name = "forebay_s3_checksums_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"result"},
    .programs = "coordinator, node",
    .help = "Whole objects that were compared with the checksum S3 has of what was uploaded "
            "(x-amz-checksum-*): `match`, or `mismatch`, which is fetched again.",
}};

const CounterMetric kS3Throttled{{
    .name = "forebay_s3_throttled_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"link"},
    .programs = "node",
    .help = "GETs that S3 answered with \"slow down\".",
}};

const GaugeMetric kS3RequestLimit{{
    .name = "forebay_s3_request_limit",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {"link"},
    .programs = "node",
    .help = "Requests a second that this node makes for the link at most while S3 throttles its "
            "bucket and prefix: its part of the cluster's budget, which goes by what S3 takes. 0 = "
            "S3 does not throttle, and there is no limit.",
}};

const CounterMetric kS3SecondGets{{
    .name = "forebay_s3_second_gets_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Blocks that took two GETs: a reader wanted bytes far behind the front of a cold block "
            "of a large object, and got these first.",
}};

const CounterMetric kS3StandInFills{{
    .name = "forebay_s3_stand_in_fills_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Blocks of this node for which another one has asked S3, since S3 does not answer this "
            "one, or refuses it.",
}};

const GaugeMetric kS3BudgetRatio{{
    .name = "forebay_s3_budget_ratio",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Which part of this node's share of the budget for S3 (`forebay limit s3`) its fills "
            "used in the last seconds: 1 means that they wait for it. 0 without a limit.",
}};

const GaugeMetric kFillsInFlight{{
    .name = "forebay_fills_in_flight",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Blocks that are being fetched into the cache now.",
}};

const GaugeMetric kFillsLimit{{
    .name = "forebay_background_fills_limit",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Fills in the background that may be under way: fewer while more would slow readers.",
}};

const GaugeMetric kCacheUsedBytes{{
    .name = "forebay_cache_used_bytes",
    .kind = MetricKind::kGauge,
    .unit = "bytes",
    .labels = {"disk"},
    .programs = "node",
    .help = "Space that cached blocks take on a cache directory, headers and slack included.",
}};

const GaugeMetric kCacheCapacityBytes{{
    .name = "forebay_cache_capacity_bytes",
    .kind = MetricKind::kGauge,
    .unit = "bytes",
    .labels = {"disk"},
    .programs = "node",
    .help = "Space that a cache directory may take: a hard bound.",
}};

const CounterMetric kEvictedBytes{{
    .name = "forebay_evicted_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {"reason"},
    .programs = "node",
    .help = "Bytes of blocks dropped from the cache, by why: capacity (to make room), quota "
            "(their link had more than its quota), released (pinned ones that the nodes that own "
            "them have, too).",
}};

const GaugeMetric kIndexEntries{{
    .name = "forebay_index_entries",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Blocks in the cache's index.",
}};

const CounterMetric kChecksumFailures{{
    .name = "forebay_checksum_failures_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"where"},
    .programs = "node, mount",
    .help = "Cells whose bytes did not match their checksum and were dropped, by where it was "
            "noticed: disk (a node reading its store), mount (a client). Alert on any rise: a "
            "disk, a cable or a memory is bad.",
}};

const CounterMetric kScrubbedBytes{{
    .name = "forebay_scrubbed_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {"disk"},
    .programs = "node",
    .help = "Bytes that were read from a cache directory in the background and compared with their "
            "checksums. What did not match is counted in forebay_checksum_failures_total.",
}};

const CounterMetric kDiskErrors{{
    .name = "forebay_disk_errors_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"disk", "kind"},
    .programs = "node",
    .help = "What went wrong with a cache directory: read and write (I/O errors), full (others use "
            "its file system), hang (calls that were given up because they took too long), gone "
            "(its files were removed, or another file system was mounted over them).",
}};

const GaugeMetric kBlocksSetAside{{
    .name = "forebay_blocks_set_aside",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Blocks that this node crashed on three times within a week: they are fetched from S3 "
            "and not kept, until their object is evicted. The log names them. Report any as a bug.",
}};

const GaugeMetric kDiskInService{{
    .name = "forebay_disk_in_service",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {"disk"},
    .programs = "node",
    .help = "1 = the cache directory serves blocks and takes new ones; 0 = it is quarantined or "
            "takes none.",
}};

const CounterMetric kStoreReads{{
    .name = "forebay_store_reads_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"from"},
    .programs = "node",
    .help = "Reads of cached blocks: from = memory (the kernel's page cache, answered on the core "
            "that asked), disk (handed to a thread that may wait), place (a mount of this machine "
            "was told where the bytes lie, and reads them itself) or remembered (it knew the place "
            "from before, and said later that it has read there).",
}};

const CounterMetric kStoreLockWaits{{
    .name = "forebay_store_lock_waits_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Lookups in the cache's index that took its lock, because entries had moved under them "
            "again and again. All others take none; expect 0.",
}};

const CounterMetric kReadsNotNoted{{
    .name = "forebay_reads_not_noted_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "node",
    .help = "Reads that the eviction does not know of: of cached blocks, where noting them would "
            "have had to wait for another core, and of links after the first 1,024. Some in a "
            "hundred do no harm.",
}};

const CounterMetric kSnapshotBytes{{
    .name = "forebay_snapshot_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {"from"},
    .programs = "node, mount",
    .help = "Bytes of listings and of differences between them that came from the coordinator or "
            "from nodes.",
    .stability = MetricStability::kEvolving,
}};

const CounterMetric kSnapshotSentBytes{{
    .name = "forebay_snapshot_sent_bytes_total",
    .kind = MetricKind::kCounter,
    .unit = "bytes",
    .labels = {"what"},
    .programs = "coordinator",
    .help = "Bytes of listings (whole) and of differences between them (difference) that this "
            "coordinator sent to mounts, nodes and other coordinators.",
    .stability = MetricStability::kEvolving,
}};

const GaugeMetric kRpcConnections{{
    .name = "forebay_rpc_connections",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "coordinator, node",
    .help = "Connections of peers that are open now.",
    .stability = MetricStability::kEvolving,
}};

const CounterMetric kRpcRequests{{
    .name = "forebay_rpc_requests_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {},
    .programs = "coordinator, node",
    .help = "Requests of peers that were answered or are being answered.",
    .stability = MetricStability::kEvolving,
}};

const CounterMetric kRpcRefused{{
    .name = "forebay_rpc_refused_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"what"},
    .programs = "coordinator, node",
    .help = "What peers were refused: a handshake (wrong secret, cluster or version, or no "
            "connection left for it), a request (unknown, or not for that role), one beyond what "
            "may wait for answers (overload), an answer beyond the memory for them (memory), a "
            "connection because of a malformed frame, or what a coordinator asks that was replaced "
            "(at nodes).",
    .stability = MetricStability::kEvolving,
}};

const CounterMetric kAdminActions{{
    .name = "forebay_admin_actions_total",
    .kind = MetricKind::kCounter,
    .unit = "1",
    .labels = {"outcome"},
    .programs = "coordinator, node",
    .help = "What administrators changed or tried to, and machines that asked to join: done or "
            "failed. The log has a line about each that begins with \"audit:\".",
    .stability = MetricStability::kEvolving,
}};

const GaugeMetric kPreloadBytes{{
    .name = "forebay_preload_bytes",
    .kind = MetricKind::kGauge,
    .unit = "bytes",
    .labels = {"link", "state"},
    .programs = "coordinator",
    .help = "Of a link's preloads that run, or of the latest one that ended. State: total (to be "
            "kept), "
            "done (kept), not_kept (no room), failed.",
}};

const GaugeMetric kLinkLastRefresh{{
    .name = "forebay_link_last_refresh_timestamp_seconds",
    .kind = MetricKind::kGauge,
    .unit = "seconds",
    .labels = {"link"},
    .programs = "coordinator",
    .help = "When a link's listing was last completed, seconds since 1970.",
}};

const GaugeMetric kRingMembers{{
    .name = "forebay_ring_members",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {"state"},
    .programs = "coordinator",
    .help = "Cache nodes by state: up, suspect, draining, out.",
}};

const GaugeMetric kNodeClockOffset{{
    .name = "forebay_node_clock_offset_seconds",
    .kind = MetricKind::kGauge,
    .unit = "seconds",
    .labels = {"node"},
    .programs = "coordinator",
    .help = "By how much a cache node's wall clock is ahead of the coordinator's, as its latest "
            "heartbeat has it; below 0 it is behind. Beyond 600 either way it is the alert "
            "clock_wrong.",
}};

const GaugeMetric kCoordinatorIsLeader{{
    .name = "forebay_coordinator_is_leader",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "coordinator",
    .help = "1 on the coordinator that decides, 0 on one that stands by.",
}};

const GaugeMetric kCertificateExpiry{{
    .name = "forebay_certificate_expiry_timestamp_seconds",
    .kind = MetricKind::kGauge,
    .unit = "seconds",
    .labels = {},
    .programs = "coordinator, node, mount",
    .help = "When this program's certificate ends, in seconds since 1970; not there without one.",
}};

const GaugeMetric kRenewalFailing{{
    .name = "forebay_certificate_renewal_failing",
    .kind = MetricKind::kGauge,
    .unit = "1",
    .labels = {},
    .programs = "coordinator, node, mount",
    .help = "1 = this program's certificate was to be renewed when it was last tried, and was not, "
            "or its trust folder could not be read or written; the log says why.",
}};

}  // namespace forebay::metric
