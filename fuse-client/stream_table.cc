#include "fuse-client/stream_table.h"

#include <algorithm>

namespace forebay {

bool StreamTable::Stream::IsNear(std::uint64_t file, std::uint64_t offset) const {
  return nodeid == file && offset <= end + kSlackBytes && offset + kSlackBytes >= end;
}

// It opens to the usual window whatever the reader meets, and goes beyond for who has waited.
void StreamTable::Stream::EnterBlock(std::uint64_t block_bytes) {
  const std::uint32_t most = std::clamp(static_cast<std::uint32_t>(kMaxWindowBytes / block_bytes),
                                        kUsualWindow, kMaxWindow);
  calm = waited ? 0 : calm + 1;
  if (window < kUsualWindow) {
    window = std::min(window * 2, kUsualWindow);
    judged_from = ahead_until * block_bytes;
  } else if (waited && window < most) {
    least = window + 1;
    window = std::min(window * 2, most);
    judged_from = ahead_until * block_bytes;
  } else if (window > least && calm >= kCalmBlocks) {
    --window;
    calm = 0;
  }
  waited = false;
}

StreamTable::Stream& StreamTable::FindOrReplace(std::uint64_t nodeid, std::uint64_t offset) {
  Stream* oldest = &streams_[0];
  for (Stream& stream : streams_) {
    if (stream.IsNear(nodeid, offset)) return stream;
    if (stream.last_use < oldest->last_use) oldest = &stream;
  }
  *oldest = Stream{};
  oldest->nodeid = nodeid;
  return *oldest;
}

BlocksAhead StreamTable::Note(std::uint64_t nodeid, std::uint64_t offset, std::uint64_t end,
                              std::uint64_t size, std::uint64_t block_bytes) {
  std::scoped_lock lock(mutex_);
  Stream& stream = FindOrReplace(nodeid, offset);
  stream.last_use = ++clock_;
  stream.run_bytes += end - offset;
  stream.end = std::max(stream.end, end);
  const std::uint64_t block = (stream.end - 1) / block_bytes;
  if (stream.run_bytes < kStartBytes) {
    stream.block = block;
    return {};
  }
  if (stream.window == 0) {
    stream.window = 1;
  } else if (block > stream.block) {
    stream.EnterBlock(block_bytes);
  }
  stream.block = block;
  if (stream.end < stream.ask_from) return {};
  const std::uint64_t blocks = (size + block_bytes - 1) / block_bytes;
  const std::uint64_t first = std::max(stream.ahead_until, block + 1);
  const std::uint64_t until = std::min(block + 1 + stream.window, blocks);
  if (first >= until) return {};
  stream.ahead_until = until;
  return {first, static_cast<std::uint32_t>(until - first)};
}

void StreamTable::Waited(std::uint64_t nodeid, std::uint64_t offset, std::uint64_t end) {
  std::scoped_lock lock(mutex_);
  for (Stream& stream : streams_) {
    const bool counts = end <= stream.end && offset >= stream.judged_from;
    if (counts && stream.IsNear(nodeid, end)) stream.waited = true;
  }
}

void StreamTable::NotBegun(std::uint64_t nodeid, std::uint64_t block) {
  std::scoped_lock lock(mutex_);
  for (Stream& stream : streams_) {
    const bool waits = block > stream.block && block < stream.ahead_until;
    if (stream.nodeid != nodeid || !waits) continue;
    stream.ahead_until = block;
    stream.ask_from = stream.end + kStartBytes;
  }
}

}  // namespace forebay
