#include "fuse-client/local_reads.h"

#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <utility>

#include "common/base/executors.h"
#include "common/model/limits.h"
#include "common/wire/block_messages.h"
#include "common/wire/messages.h"
#include "fuse-client/fuse_kernel.h"
#include "fuse-client/in_flight.h"

namespace forebay {

namespace {

constexpr Duration kOpenTimeout = std::chrono::seconds(5);
/// A question of 100 us is spared for each neighbour that is read later, and half of the node's
/// work for this one is worth a tenth of that.
constexpr std::uint32_t kNeighbours = 32;
/// Larger blocks are few, and their bytes take longer than the question.
constexpr std::uint32_t kSmallBlock = 256U << 10U;

/// Whether all of it may be in the page cache. RWF_NOWAIT waits for no disk, but has it read what
/// is not there: a disk that hangs would be asked for one block after the other until its queue is
/// full, and then the next one who asks waits. Yes where the kernel cannot say (before 6.5, and of
/// an overlay, whose pages are another file's).
bool MayBeInMemory(int file, std::uint64_t position, std::size_t bytes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::array<std::uint64_t, 2> range{position, bytes};
  std::array<std::uint64_t, 5> found{};  // the first: pages in memory
  if (::syscall(kCachestat, file, range.data(), found.data(), 0) != 0) return true;
  if (found[0] >= (position + bytes - 1) / page - position / page + 1) return true;
  struct statfs system{};
  return ::fstatfs(file, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC;
}

/// Fills `buffer` from the page cache: 0, or an errno. EAGAIN: not all of it is there, or this file
/// system cannot say. ENODATA: the file ends before. Never waits for the disk: one that hangs is
/// the node's to notice, and no reader of another file waits behind this one.
int ReadFromMemory(int file, Buffer& buffer, std::uint64_t position) {
  for (std::size_t done = 0; done < buffer.size();) {
    iovec rest{buffer.data() + done, buffer.size() - done};
    const ssize_t n = ::preadv2(file, &rest, 1, static_cast<off_t>(position + done), RWF_NOWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EOPNOTSUPP ? EAGAIN : errno;
    if (n == 0) return ENODATA;
    done += static_cast<std::size_t>(n);
  }
  return 0;
}

}  // namespace

bool LocalReads::Wants(const std::string& address, TimePoint now) const {
  return parts_.segments != nullptr && address.starts_with("unix:") && parts_.segments->Usable(now);
}

// Where its place is known, it is asked for because its bytes were not in memory: its neighbours
// are known then, or not in memory either.
std::uint32_t LocalReads::NeighboursOf(const BlockRequest& request) const {
  const bool wants = parts_.segments != nullptr && request.block.length <= kSmallBlock &&
                     parts_.segments->places().Lacks(request.link, request.block);
  return wants ? kNeighbours : 0;
}

void LocalReads::RememberNeighbours(const BlockRequest& request,
                                    const proto::ReadBlockReply& answer, PlaceTeller* teller) {
  for (const proto::PlacedBlock& placed : answer.neighbours()) {
    const BlockId block = FromProto(placed.block());
    const bool whole = block.length > 0 && block.length <= kMaxBlockBytes &&
                       static_cast<std::size_t>(placed.checksums_size()) == block.cells();
    if (!whole) continue;
    parts_.segments->places().Remember(
        request.link, block, EnclosingCells({0, block.length}, block.length), teller,
        {.segment = answer.place().segment(),
         .position = placed.position(),
         .checksums = {placed.checksums().begin(), placed.checksums().end()}});
  }
}

std::optional<Cells> LocalReads::Read(const BlockRequest& request,
                                      const proto::ReadBlockRequest& question,
                                      const proto::ReadBlockReply& answer, const Answerer& from,
                                      TimePoint now) {
  const SegmentName name{answer.place().store(), answer.place().segment()};
  const BlockRange wanted = EnclosingCells(request.range, request.block.length);
  if (answer.place().noted()) {
    KnownPlaces& known = parts_.segments->places();
    PlaceTeller* const teller = known.Teller(name.store, from.node, from.address);
    known.Remember(request.link, request.block, wanted, teller,
                   {.segment = name.segment,
                    .position = answer.place().position(),
                    .checksums = {answer.checksums().begin(), answer.checksums().end()}});
    RememberNeighbours(request, answer, teller);
  }
  const PassedFile file = parts_.segments->Find(name, now);
  if (!file) {
    parts_.stats.CountPlacedRead(PlacedRead::kNoFile);
    if (parts_.segments->BeginOpen(name)) Spawn(parts_.context, Open(name, from.address, question));
    return std::nullopt;
  }
  auto buffer = std::make_shared<Buffer>(wanted.size());
  const int error = ReadFromMemory(*file, *buffer, answer.place().position());
  if (error == EAGAIN) {
    parts_.stats.CountPlacedRead(PlacedRead::kNotInMemory);
    return std::nullopt;
  }
  const std::shared_ptr<const Buffer> bytes = std::move(buffer);
  Result<Cells> cells = Fail(Code::kNotFound, "");
  if (error == 0) cells = CellsOfReply(request, answer, Slice::Of(bytes));
  if (!cells) {
    NoteGone(request, name, error);
    return std::nullopt;
  }
  parts_.stats.CountPlacedRead(PlacedRead::kRead);
  return std::move(*cells);
}

// As a rule the block was evicted since the node answered, and its place is empty. An evicted
// segment's file is cut short, and will stay so.
void LocalReads::NoteGone(const BlockRequest& request, const SegmentName& name, int error) {
  if (error != 0) parts_.segments->Drop(name);
  parts_.segments->places().Forget(request.link, request.block);
  parts_.stats.CountPlacedRead(PlacedRead::kGone);
}

std::optional<Cells> LocalReads::ReadKnown(const BlockRequest& request, TimePoint now) {
  if (parts_.segments == nullptr || !notes_.HasRoom()) return std::nullopt;
  const BlockRange wanted = EnclosingCells(request.range, request.block.length);
  std::optional<KnownPlaces::Known> known =
      parts_.segments->places().Find(request.link, request.block, wanted);
  if (!known) return std::nullopt;
  const SegmentName name{known->teller->store, known->segment};
  const PassedFile file = parts_.segments->Find(name, now);
  if (!file) return std::nullopt;
  // Where it is not, the node is asked, and looks first whether the disk is in service.
  if (!MayBeInMemory(*file, known->position, wanted.size())) return std::nullopt;
  auto buffer = std::make_shared<Buffer>(wanted.size());
  const int error = ReadFromMemory(*file, *buffer, known->position);
  if (error == EAGAIN) return std::nullopt;
  const std::shared_ptr<const Buffer> bytes = std::move(buffer);
  Cells cells;
  cells.begin = wanted.begin;
  cells.bytes = Slice::Of(bytes);
  cells.checksums = std::move(known->checksums);
  if (error != 0 || !cells.Verify()) {
    NoteGone(request, name, error);
    return std::nullopt;
  }
  notes_.Note(*known->teller, known->segment, request);
  parts_.stats.CountPlacedRead(PlacedRead::kRemembered);
  cells.node = known->teller->node;
  return cells;
}

Task<void> LocalReads::Open(SegmentName name, std::string address,
                            proto::ReadBlockRequest question) {
  const InFlight counted(parts_.in_flight);
  const Deadline deadline = Deadline::After(kOpenTimeout);
  Result<RpcReply> reply =
      co_await parts_.pool.CallForFile(address, Method::kOpenSegment, question, deadline);
  PassedFile file;
  SegmentName opened;
  proto::OpenSegmentReply message;
  if (reply && ParseMessage(reply->message, message)) {
    file = std::move(reply->file);
    opened = {message.store(), message.segment()};
  } else if (!reply) {
    spdlog::debug("no file from {}: {}", address, reply.error().message);
  }
  // Meanwhile the block may have moved, or the node may have started anew.
  if (opened != name) {
    if (file && parts_.segments->BeginOpen(opened))
      parts_.segments->EndOpen(opened, std::move(file), Clock::now());
    file.reset();
  }
  parts_.segments->EndOpen(name, std::move(file), Clock::now());
}

}  // namespace forebay
