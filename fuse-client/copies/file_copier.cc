#include "fuse-client/copies/file_copier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/executors.h"
#include "common/model/block_id.h"
#include "common/model/limits.h"

namespace forebay {

FileCopier::FileCopier(Parts parts) : state_(std::make_shared<State>(std::move(parts))) {}

void FileCopier::Want(File file) {
  if (state_->stopped || state_->in_flight >= kMaxWaiting) return;
  ++state_->in_flight;
  asio::post(state_->parts.context,
             [state = state_, file = std::move(file)]() mutable { Take(state, std::move(file)); });
}

void FileCopier::Take(const std::shared_ptr<State>& state, File file) {
  if (!state->known.insert(file.nodeid).second) {
    --state->in_flight;
    return;
  }
  state->waiting.push_back(std::move(file));
  if (state->running == kFilesAtOnce) return;
  ++state->running;
  Spawn(state->parts.context, Run(state));
}

Task<void> FileCopier::Run(std::shared_ptr<State> state) {
  while (!state->waiting.empty()) {
    const File file = std::move(state->waiting.front());
    state->waiting.pop_front();
    if (!state->stopped) {
      const Status copied = co_await Copy(state.get(), &file);
      CopyCounts& counts = *state->parts.counts;
      if (copied) {
        ++counts.files;
      } else if (copied.error().code == Code::kOverloaded) {
        ++counts.without_room;
      } else if (copied.error().code != Code::kInvalid && !state->stopped) {
        ++counts.failed;
        spdlog::warn("{} is not copied: {}", file.object.key, copied.error().message);
      }
    }
    state->known.erase(file.nodeid);
    --state->in_flight;
  }
  --state->running;
}

Task<Status> FileCopier::Copy(State* state, const File* file) {
  const Parts& parts = state->parts;
  CopyRecord record;
  record.version = file->version;
  record.nodeid = file->nodeid;
  record.size = file->object.size;
  record.block_bytes = parts.block_bytes;
  Result<std::unique_ptr<CopyDraft>> draft = parts.store.Begin(parts.link, std::move(record));
  if (!draft) co_return Fail(std::move(draft.error()));
  std::uint64_t demand = parts.demand();
  for (std::uint64_t offset = 0; offset < file->object.size; offset += parts.block_bytes) {
    if (state->stopped) co_return Fail(Code::kUnavailable, "the mount ends");
    const TimePoint began = Clock::now();
    Status copied = co_await CopyPiece(state, file, draft->get(), offset);
    // kInvalid is for what is copied already.
    const bool refused = !copied && copied.error().code == Code::kInvalid;
    if (refused) co_return Fail(Code::kInternal, std::move(copied.error().message));
    if (!copied) co_return copied;
    const std::uint64_t now = parts.demand();
    if (std::exchange(demand, now) != now) {
      co_await SleepFor(std::min(Clock::now() - began, kLongestRest));
    }
  }
  Status committed = (*draft)->Commit();
  co_return committed;
}

Task<Status> FileCopier::CopyPiece(State* state, const File* file, CopyDraft* draft,
                                   std::uint64_t offset) {
  const Parts& parts = state->parts;
  const Deadline deadline = Deadline::After(kPatience);
  BlockRequest request;
  request.link = parts.link;
  request.block = BlockAt(file->version, file->object.size, parts.block_bytes, offset);
  request.object = file->object;
  const BlockRange whole{0, request.block.length};
  const bool in_parts = whole.size() > kBlockPartBytes;
  const std::size_t held = whole.size() + (in_parts ? kBlockPartBytes : 0);
  const Result<MemoryBudget::Reservation> memory = co_await parts.memory.Reserve(held, deadline);
  if (!memory) co_return Fail(memory.error());
  Buffer piece(in_parts ? whole.size() : 0);
  for (std::uint32_t begin = 0; begin < whole.end; begin += kBlockPartBytes) {
    request.range = BlockRange{begin, std::min(begin + kBlockPartBytes, whole.end)};
    const Result<Cells> cells = co_await parts.source.Read(request, deadline);
    if (!cells) co_return Fail(cells.error());
    const ByteView bytes = cells->Part(request.range);
    if (in_parts) {
      std::ranges::copy(bytes, piece.data() + begin);
    } else if (Status written = draft->Append(bytes); !written) {
      co_return written;
    }
  }
  Status written = in_parts ? draft->Append(piece.view()) : Status();
  if (written) parts.counts->bytes += whole.size();
  co_return written;
}

}  // namespace forebay
