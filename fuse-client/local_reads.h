#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/model/block_source.h"
#include "common/wire/client_pool.h"
#include "fuse-client/noted_reads.h"
#include "fuse-client/passed_segments.h"
#include "fuse-client/stats.h"
#include "proto/node.pb.h"

namespace forebay {

/// Reads of what a node of this machine holds, out of the node's own files: the node says where the
/// cells lie and what their checksums are, and has passed the segment's file over its socket. The
/// bytes are copied out of the page cache on the worker's own thread, and handed out only when they
/// match; nothing holds them in their place meanwhile, and nothing need
/// (docs/adr/0016-local-reads-by-descriptor.md). Whatever is missing or wrong, and what is not in
/// memory, the node is asked for over the socket. One per worker, on its context.
class LocalReads {
 public:
  struct Parts {
    asio::io_context& context;
    ClientPool& pool;
    PassedSegments* segments = nullptr;  ///< Null: none of this.
    WorkerStats& stats;
    std::shared_ptr<std::size_t> in_flight;  ///< Counts the coroutines that are under way.
  };
  explicit LocalReads(Parts parts)
      : parts_(std::move(parts)),
        notes_({parts_.context, parts_.pool,
                parts_.segments != nullptr ? &parts_.segments->places() : nullptr,
                parts_.in_flight}) {}

  /// Whether to ask the node at `address` for places.
  bool Wants(const std::string& address, TimePoint now) const;
  /// With such a question: of how many blocks behind the one that is asked for, too.
  std::uint32_t NeighboursOf(const BlockRequest& request) const;

  struct Answerer {
    const std::string& node;
    const std::string& address;
  };
  /// What `answer` says where to find. Nothing: ask for the bytes. Where only the file is missing
  /// it is asked for, for the reads to come; `question` was what was asked. The place is remembered
  /// if the node takes notes of what is read there.
  std::optional<Cells> Read(const BlockRequest& request, const proto::ReadBlockRequest& question,
                            const proto::ReadBlockReply& answer, const Answerer& from,
                            TimePoint now);

  /// What lies at a place that a node told before; it hears of the read later. Nothing: ask.
  std::optional<Cells> ReadKnown(const BlockRequest& request, TimePoint now);

 private:
  void RememberNeighbours(const BlockRequest& request, const proto::ReadBlockReply& answer,
                          PlaceTeller* teller);
  void NoteGone(const BlockRequest& request, const SegmentName& name, int error);
  Task<void> Open(SegmentName name, std::string address, proto::ReadBlockRequest question);

  Parts parts_;
  NotedReads notes_;
};

}  // namespace forebay
