#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/wire/client_pool.h"
#include "fuse-client/block_client.h"
#include "fuse-client/in_flight.h"
#include "proto/node.pb.h"

// What the sources of BlockClient share.
namespace forebay {

/// One Read's question, for as long as it lasts.
struct BlockClient::Question {
  BlockRequest request;
  proto::ReadBlockRequest message;
  Deadline deadline;
  TimePoint began = Clock::now();
  /// No owner is to send us on any more: one that did had a next owner that could not answer.
  bool stays = false;
  bool sent_on = false;    ///< By the owner that was asked last.
  bool refused = false;    ///< It takes no connection of ours, and says so.
  std::uint64_t came = 0;  ///< Bytes of its answer, right or wrong.
};

/// A node to ask, and how to reach it; both in the directory that the round holds.
struct BlockClient::Route {
  const NodeInfo* node = nullptr;
  const std::string* address = nullptr;
  bool same_host = false;
  bool cross_zone = false;
  bool is_first_owner = false;
  bool after_slow = false;  ///< It is asked in place of an earlier owner that is slow.
  bool after_hot = false;   ///< An owner has sent us on: many read the block there.
  bool may_go_on = false;   ///< There is a further one that is well.
  bool nearer = false;      ///< It is asked before the first owner, which is well.

  /// Whoever is asked out of turn need not wait for those whom we have waited for. A slow owner we
  /// have not; it has the block, or is the one to get it. One that is farther away than its copy
  /// likewise.
  void Describe(proto::ReadBlockRequest& message) const {
    message.set_spread(after_slow || after_hot);
    message.set_passed_over(!is_first_owner && !after_slow && !after_hot && !nearer);
    message.set_may_go_on(may_go_on);
    message.set_cross_zone(cross_zone);
  }
};

struct BlockClient::Routes {
  void Add(const Route& route) { list[count++] = route; }
  void Add(const Routes& more) {
    for (std::size_t i = 0; i < more.count; ++i) Add(more.list[i]);
  }

  std::array<Route, kOwnersPerPartition> list;
  std::size_t count = 0;
  std::size_t well = 0;  ///< Of them, the first ones: not silent.
};

/// A question that a node works on, while its coroutine waits: whoever else has the block may
/// answer first.
struct BlockClient::Race {
  const Question* question;
  const std::string* node;
  TimePoint asked;
  CallHandle call = {};
  bool hedged = false;
  std::optional<Cells> won = {};  ///< Another owner's answer.
};

}  // namespace forebay
