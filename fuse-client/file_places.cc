#include "fuse-client/file_places.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/bit_list.h"
#include "common/wire/client_pool.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"

namespace forebay {

/// One question to all owners, of some of the file's blocks. Everything runs on one io_context, so
/// nothing is locked.
struct FilePlaces::Census {
  Census(const asio::any_io_executor& executor, Deadline until)
      : deadline(until), all_in(executor) {}

  Deadline deadline;
  std::shared_ptr<const RingTable> table;
  FileSystem::Content file;
  std::vector<BlockId> blocks;
  std::vector<std::vector<std::uint32_t>> blocks_of;  // by node of the table: those that it owns
  std::vector<bool> cached;                           // by block
  std::vector<bool> unsure;                           // an owner did not answer
  std::size_t left = 0;                               // nodes that are being asked
  asio::steady_timer all_in;
};

std::string FilePlaces::Owners(const FileSystem::Content& file) const {
  std::string names;
  if (file.object.size == 0) return names;
  const std::shared_ptr<const RingTable> table = parts_.ring.table();
  const BlockId first = BlockAt(file.version, file.object.size, block_bytes_, 0);
  for (const std::uint16_t owner : table->OwnersOf(PartitionOf(first))) {
    if (!names.empty()) names.push_back(',');
    names += table->nodes()[owner].id;
  }
  return names;
}

// In pieces of what one message carries; what is not answered stays unsure.
Task<void> FilePlaces::AskNode(std::shared_ptr<Census> census, std::size_t node) {
  const std::vector<std::uint32_t>& mine = census->blocks_of[node];
  const std::string address = census->table->nodes()[node].address;
  std::size_t begin = 0;
  while (begin < mine.size()) {
    const std::size_t end = std::min<std::size_t>(mine.size(), begin + kMaxRepeatedFields);
    proto::CheckBlocksRequest request;
    request.set_link(BytesOf(link_));
    request.set_key(census->file.object.key);
    request.set_etag(census->file.object.etag);
    request.set_object_size(census->file.object.size);
    for (std::size_t i = begin; i < end; ++i) {
      *request.add_blocks() = ToProto(census->blocks[mine[i]]);
    }
    const Result<RpcReply> reply =
        co_await parts_.pool.Call(address, Method::kCheckBlocks, request, census->deadline);
    proto::CheckBlocksReply answer;
    if (!reply || !ParseMessage(reply->message, answer)) break;
    if (answer.present().size() * 8 < end - begin) break;
    for (std::size_t i = begin; i < end; ++i) {
      if (IsMarked(answer.present(), i - begin)) census->cached[mine[i]] = true;
    }
    begin = end;
  }
  for (std::size_t i = begin; i < mine.size(); ++i) census->unsure[mine[i]] = true;
  if (--census->left == 0) census->all_in.cancel();
}

Task<std::optional<std::uint64_t>> FilePlaces::CachedIn(std::shared_ptr<Census> census,
                                                        std::uint64_t begin, std::uint64_t end) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (std::uint64_t at = begin; at < end; at += block_bytes_) {
    const BlockId block = BlockAt(census->file.version, census->file.object.size, block_bytes_, at);
    const auto owners = census->table->OwnersOf(PartitionOf(block));
    const auto index = static_cast<std::uint32_t>(census->blocks.size());
    for (const std::uint16_t owner : owners) census->blocks_of[owner].push_back(index);
    census->blocks.push_back(block);
    census->unsure.push_back(owners.empty());
  }
  census->cached.resize(census->blocks.size());
  for (std::size_t node = 0; node < census->blocks_of.size(); ++node) {
    if (!census->blocks_of[node].empty()) ++census->left;
  }
  census->all_in.expires_at(census->deadline.at() + std::chrono::hours(1));
  for (std::size_t node = 0; node < census->blocks_of.size(); ++node) {
    if (!census->blocks_of[node].empty()) Spawn(executor, AskNode(census, node));
  }
  while (census->left > 0) {
    // Every call ends by the deadline; the timer is only what wakes us when the last has.
    boost::system::error_code cancelled;
    co_await census->all_in.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < census->blocks.size(); ++i) {
    if (census->cached[i]) {
      bytes += census->blocks[i].length;
    } else if (census->unsure[i]) {
      co_return std::nullopt;
    }
  }
  co_return bytes;
}

Task<std::string> FilePlaces::Cached(FileSystem::Content file, Deadline deadline) {
  const std::uint64_t size = file.object.size;
  const std::uint64_t at_once = kBlocksAtOnce * block_bytes_;
  const std::shared_ptr<const RingTable> table = parts_.ring.table();
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::uint64_t bytes = 0;
  for (std::uint64_t begin = 0; begin < size; begin += at_once) {
    auto census = std::make_shared<Census>(executor, deadline);
    census->table = table;
    census->file = file;
    census->blocks_of.resize(table->nodes().size());
    const std::uint64_t end = std::min(size, begin + at_once);
    const std::optional<std::uint64_t> part = co_await CachedIn(std::move(census), begin, end);
    if (!part) co_return "unknown";
    bytes += *part;
  }
  co_return std::to_string(bytes) + "/" + std::to_string(size);
}

}  // namespace forebay
