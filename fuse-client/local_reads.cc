#include "fuse-client/local_reads.h"

#include <spdlog/spdlog.h>
#include <sys/uio.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/block_messages.h"

namespace forebay {

namespace {

constexpr Duration kOpenTimeout = std::chrono::seconds(5);

/// Fills `buffer` from the page cache: 0, or an errno. EAGAIN: not all of it is there, or this file
/// system cannot say. ENODATA: the file ends before. Never asks the disk: a disk that hangs is the
/// node's to notice, and no reader of another file waits behind this one.
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

/// Counts a coroutine in and out.
class Counted {
 public:
  explicit Counted(std::shared_ptr<std::size_t> count) : count_(std::move(count)) { ++*count_; }
  ~Counted() { --*count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::shared_ptr<std::size_t> count_;
};

}  // namespace

bool LocalReads::Wants(const std::string& address, TimePoint now) const {
  return parts_.segments != nullptr && address.starts_with("unix:") && parts_.segments->Usable(now);
}

std::optional<Cells> LocalReads::Read(const BlockRequest& request,
                                      const proto::ReadBlockRequest& question,
                                      const proto::ReadBlockReply& answer,
                                      const std::string& address, TimePoint now) {
  const SegmentName name{answer.place().store(), answer.place().segment()};
  const PassedFile file = parts_.segments->Find(name, now);
  if (!file) {
    parts_.stats.CountPlacedRead(PlacedRead::kNoFile);
    if (parts_.segments->BeginOpen(name)) Spawn(parts_.context, Open(name, address, question));
    return std::nullopt;
  }
  auto buffer =
      std::make_shared<Buffer>(EnclosingCells(request.range, request.block.length).size());
  const int error = ReadFromMemory(*file, *buffer, answer.place().position());
  if (error == EAGAIN) {
    parts_.stats.CountPlacedRead(PlacedRead::kNotInMemory);
    return std::nullopt;
  }
  if (error != 0) {
    // An evicted segment's file is empty, and will stay so.
    parts_.segments->Drop(name);
    parts_.stats.CountPlacedRead(PlacedRead::kGone);
    return std::nullopt;
  }
  const std::shared_ptr<const Buffer> bytes = std::move(buffer);
  Result<Cells> cells = CellsOfReply(request, answer, Slice::Of(bytes));
  if (!cells) {
    // As a rule the block was evicted since the node answered, and its place is empty.
    parts_.stats.CountPlacedRead(PlacedRead::kGone);
    return std::nullopt;
  }
  parts_.stats.CountPlacedRead(PlacedRead::kRead);
  return std::move(*cells);
}

Task<void> LocalReads::Open(SegmentName name, std::string address,
                            proto::ReadBlockRequest question) {
  const Counted counted(parts_.in_flight);
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
