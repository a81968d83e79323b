#include "fuse-client/file_reader.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/executors.h"
#include "fuse-client/block_spans.h"

namespace forebay {

namespace {

/// Of a file of many blocks; the later ones are fetched when its stream of reads is followed.
constexpr std::uint64_t kBlocksAhead = 4;

/// What passes before a healthy first owner is asked is our own computing.
constexpr Duration kShortestDetour = std::chrono::milliseconds(1);

/// The spans of one READ on their way. All of them run on one io_context, so nothing is locked.
struct SpansInFlight {
  SpansInFlight(const asio::any_io_executor& executor, std::size_t count)
      : results(count), left(count), all_in(executor) {}

  void Land(std::size_t index, Result<Cells> result) {
    results[index] = std::move(result);
    if (--left == 0) all_in.cancel();
  }

  std::vector<std::optional<Result<Cells>>> results;
  std::size_t left;
  asio::steady_timer all_in;
};

/// What the nodes answer for `spans`: whole cells.
std::size_t BytesOf(const std::vector<BlockSpan>& spans) {
  std::size_t bytes = 0;
  for (const BlockSpan& span : spans) bytes += EnclosingCells(span.range, span.block.length).size();
  return bytes;
}

/// `slice`, which keeps the reservation, too.
Slice Holding(Slice slice, MemoryBudget::Reservation memory) {
  struct Held {
    std::shared_ptr<const void> bytes;
    MemoryBudget::Reservation memory;
  };
  auto held = std::make_shared<Held>();
  held->bytes = std::move(slice.owner);
  held->memory = std::move(memory);
  return Slice{std::move(held), slice.bytes};
}

Task<void> ReadSpan(BlockSource* source, BlockRequest request, Deadline deadline,
                    std::shared_ptr<SpansInFlight> flight, std::size_t index) {
  Result<Cells> cells = co_await source->Read(std::move(request), deadline);
  flight->Land(index, std::move(cells));
}

}  // namespace

BlockRequest FileReader::RequestFor(const ObjectRead& read, BlockId block, BlockRange range) const {
  BlockRequest request;
  request.link = options_.link;
  request.block = block;
  request.range = range;
  request.object = read.content.object;
  request.job = read.job->id();
  return request;
}

Task<Status> FileReader::Ask(BlockRequest request) {
  Status asked = co_await parts_.prefetcher.Prefetch(std::move(request));
  parts_.stats.CountPrefetch(asked);
  co_return asked;
}

// What was not begun belongs to the stream's future again.
Task<void> FileReader::AskForStream(std::uint64_t nodeid, BlockRequest request) {
  const std::uint64_t block = request.block.offset / options_.block_bytes;
  const Status asked = co_await Ask(std::move(request));
  if (!asked) parts_.streams.NotBegun(nodeid, block);
  --asking_;
}

void FileReader::FollowStream(const ObjectRead& read, std::uint64_t offset, std::uint64_t end,
                              const asio::any_io_executor& executor) {
  const std::uint64_t size = read.content.object.size;
  if (size <= options_.block_bytes) return;
  const BlocksAhead ahead =
      parts_.streams.Note(read.nodeid, offset, end, size, options_.block_bytes);
  for (std::uint32_t i = 0; i < ahead.count; ++i) {
    const BlockId block = BlockAt(read.content.version, size, options_.block_bytes,
                                  (ahead.first + i) * options_.block_bytes);
    ++asking_;
    Spawn(executor,
          AskForStream(read.nodeid, RequestFor(read, block, BlockRange{0, block.length})));
  }
}

// What the whole READ waited for is the slowest of its blocks.
void FileReader::Account(const Cells& cells, BlockRange range, ReadOutcome& outcome) {
  parts_.stats.CountBytes(cells.tier, range.size());
  outcome.bytes[static_cast<std::size_t>(cells.tier)] += range.size();
  outcome.slowest = std::max(outcome.slowest, cells.tier);
  if (cells.detour >= kShortestDetour) outcome.detour = std::max(outcome.detour, cells.detour);
  if (!cells.fetched && !cells.node.empty()) parts_.answers.Count(cells.node, cells.took);
}

Task<Result<std::vector<Slice>>> FileReader::ReadObject(ObjectRead* read, std::uint64_t offset,
                                                        std::size_t size) {
  std::vector<Slice> slices;
  const FileSystem::Content& content = read->content;
  const std::vector<BlockSpan> spans =
      CutSpans(content.version, content.object.size, options_.block_bytes, offset, size);
  if (spans.empty()) co_return slices;
  const Deadline deadline = Deadline::After(options_.patience);
  const std::size_t bytes = BytesOf(spans);
  Result<MemoryBudget::Reservation> memory = parts_.memory.TryReserve(bytes);
  if (!memory) {
    parts_.stats.CountMemoryWait();
    memory = co_await parts_.memory.Reserve(bytes, deadline);
  }
  if (!memory) co_return Fail(std::move(memory.error()));
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto flight = std::make_shared<SpansInFlight>(executor, spans.size());
  for (const BlockSpan& span : spans) {
    read->job->Touch(span.block);
    read->job->NoteRead(span, content.object.size, options_.block_bytes, read->began);
  }
  for (std::size_t i = 1; i < spans.size(); ++i) {
    BlockRequest request = RequestFor(*read, spans[i].block, spans[i].range);
    Spawn(executor, ReadSpan(&parts_.source, std::move(request), deadline, flight, i));
  }
  const std::uint64_t end = spans.back().block.offset + spans.back().range.end;
  FollowStream(*read, offset, end, executor);
  BlockRequest first = RequestFor(*read, spans[0].block, spans[0].range);
  Result<Cells> cells = co_await parts_.source.Read(std::move(first), deadline);
  flight->Land(0, std::move(cells));
  while (flight->left > 0) {
    // Every span ends by its own deadline; the timer is only what wakes us when the last has.
    flight->all_in.expires_at(deadline.at() + std::chrono::hours(1));
    boost::system::error_code cancelled;
    co_await flight->all_in.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  bool fetched = false;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    Result<Cells>& result = *flight->results[i];
    if (result) fetched = fetched || result->fetched;
    if (!result) co_return Fail(std::move(result.error()));
    Account(*result, spans[i].range, read->outcome);
    slices.push_back(Slice{result->bytes.owner, result->Part(spans[i].range)});
  }
  if (fetched && content.object.size > options_.block_bytes)
    parts_.streams.Waited(read->nodeid, offset, end);
  slices.front() = Holding(std::move(slices.front()), std::move(*memory));
  co_return slices;
}

// That the link has gone is one failure of the whole mount, however many files are read.
void FileReader::NoteFailure(std::uint64_t nodeid, const Error& why) {
  const Status there = options_.presence ? options_.presence->Check() : Status();
  const bool of_all = !there && there.error() == why;
  parts_.errors.Add(of_all ? "." : parts_.files.PathOf(nodeid), why);
  parts_.stats.CountFailedRead(why.code);
}

Task<Result<std::vector<Slice>>> FileReader::Read(std::uint64_t nodeid, std::uint64_t offset,
                                                  std::size_t size, pid_t thread) {
  const TimePoint begin = Clock::now();
  Result<FileSystem::Content> content = parts_.files.ContentOf(nodeid);
  if (content && content->bytes) {
    const Slice& whole = *content->bytes;
    const std::uint64_t from = std::min<std::uint64_t>(offset, whole.bytes.size());
    std::vector<Slice> slices;
    slices.push_back(whole.Sub(from, std::min<std::uint64_t>(size, whole.bytes.size() - from)));
    co_return slices;
  }
  if (!content) {
    NoteFailure(nodeid, content.error());
    co_return Fail(std::move(content.error()));
  }
  ObjectRead read{.content = std::move(*content),
                  .nodeid = nodeid,
                  .began = begin,
                  .job = parts_.jobs.BeginRead(thread, options_.link, begin)};
  if (offset == 0) parts_.orders.NoteRead(read.job->id(), nodeid);
  Result<std::vector<Slice>> slices = co_await ReadObject(&read, offset, size);
  read.outcome.failed = !slices.has_value();
  const TimePoint end = Clock::now();
  parts_.stats.CountRead(end - begin);
  parts_.stats.CountStall(read.job->End(begin, end, read.outcome));
  if (slices) {
    const Duration detour = std::min(read.outcome.detour, end - begin);
    parts_.stats.CountWait(read.outcome.slowest, end - begin - detour, detour);
  }
  if (!slices) NoteFailure(nodeid, slices.error());
  co_return slices;
}

Task<Result<std::vector<Slice>>> FileReader::ReadAhead(std::uint64_t nodeid,
                                                       std::shared_ptr<JobReads> job) {
  Result<FileSystem::Content> content = parts_.files.ContentOf(nodeid);
  if (!content) co_return Fail(std::move(content.error()));
  ObjectRead read{.content = std::move(*content),
                  .nodeid = nodeid,
                  .began = Clock::now(),
                  .job = std::move(job)};
  Result<std::vector<Slice>> slices = co_await ReadObject(&read, 0, read.content.object.size);
  co_return slices;
}

Task<Status> FileReader::FetchAhead(std::uint64_t nodeid, std::shared_ptr<JobReads> job) {
  Result<FileSystem::Content> content = parts_.files.ContentOf(nodeid);
  if (!content) co_return Fail(std::move(content.error()));
  const ObjectRead read{.content = std::move(*content),
                        .nodeid = nodeid,
                        .began = Clock::now(),
                        .job = std::move(job)};
  const std::uint64_t size = read.content.object.size;
  const std::uint64_t end = std::min(size, kBlocksAhead * options_.block_bytes);
  for (std::uint64_t offset = 0; offset < end; offset += options_.block_bytes) {
    const BlockId block = BlockAt(read.content.version, size, options_.block_bytes, offset);
    Status asked = co_await Ask(RequestFor(read, block, BlockRange{0, block.length}));
    if (!asked) co_return asked;
  }
  co_return Status();
}

}  // namespace forebay
