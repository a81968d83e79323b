#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/model/block_source.h"
#include "common/wire/client_pool.h"
#include "fuse-client/known_places.h"
#include "proto/node.pb.h"

namespace forebay {

/// Tells the nodes of this machine what was read at places that KnownPlaces knew, many reads in one
/// message: their counters, and the choice of what they evict, rest on every read. A node that does
/// not take a message down is asked for its places anew: for what was in the message alone nobody
/// counts. What the node says is to be read there no more is forgotten. One per worker, on its
/// context.
class NotedReads {
 public:
  /// Of one message.
  static constexpr int kReadsAtOnce = 128;
  /// A message with fewer goes so long after its first.
  static constexpr Duration kPatience = std::chrono::milliseconds(100);
  /// While so many have not arrived, nodes are asked for places as before.
  static constexpr std::size_t kMostUnsaid = 2048;

  struct Parts {
    asio::io_context& context;
    ClientPool& pool;
    KnownPlaces* places = nullptr;           ///< Null: Note is not called.
    std::shared_ptr<std::size_t> in_flight;  ///< Counts the coroutines that are under way.
  };
  explicit NotedReads(Parts parts) : parts_(std::move(parts)) {}

  bool HasRoom() const { return unsaid_ < kMostUnsaid; }
  void Note(PlaceTeller& teller, std::uint64_t segment, const BlockRequest& request);

 private:
  /// Of one link, for one process of a node.
  struct Notes {
    PlaceTeller* teller = nullptr;
    Uuid link;
    proto::NoteReadsRequest message;
    std::unordered_map<std::string, std::uint32_t> jobs;  ///< Their places in the message.
  };

  Notes& NotesFor(PlaceTeller& teller, const Uuid& link);
  Notes Take(std::size_t which);
  Task<void> SayLater();
  Task<void> Say(Notes notes);

  Parts parts_;
  std::vector<Notes> open_;  ///< As many as there are links and nodes: few.
  bool waits_ = false;
  std::size_t unsaid_ = 0;
};

}  // namespace forebay
