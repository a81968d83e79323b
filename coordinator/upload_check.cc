#include "coordinator/upload_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "common/base/executors.h"
#include "common/model/limits.h"
#include "common/s3/version_search.h"
#include "common/wire/messages.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

constexpr std::size_t kBatchesAtOnce = 16;
// Of all batches together, as those of PosixAsker: each is short and waits for S3 alone.
constexpr std::size_t kHeadsAtOnce = 64;
// As a verification of the census: no call to a node takes for ever.
constexpr std::size_t kBlocksAtOnce = 64;
// What cannot be had by asking again is as if it were not kept.
Error AsStale(const Error& error) {
  switch (error.code) {
    case Code::kNotFound:
    case Code::kDenied:
    case Code::kInvalid:
      return {Code::kStale, error.message};
    case Code::kStale:
    case Code::kUnavailable:
    case Code::kOverloaded:
    case Code::kTimeout:
    case Code::kCorrupt:
    case Code::kInternal:
      break;
  }
  return error;
}

constexpr std::array kKinds = {CrcKind::kCrc32, CrcKind::kCrc32c, CrcKind::kCrc64Nvme};

}  // namespace

UploadCheck::UploadCheck(Parts parts, LinkSpec link, std::shared_ptr<const PreloadPlan> plan)
    : parts_(std::move(parts)), link_(std::move(link)), plan_(plan), walk_(std::move(plan)) {}

Task<Status> UploadCheck::Run() {
  const std::shared_ptr<UploadCheck> self = shared_from_this();
  executor_ = co_await asio::this_coro::executor;
  Status done;
  for (bool more = true; more || in_flight_ > 0;) {
    Notifier::Ticket ticket = changed_.Enlist(executor_);
    if (more && parts_.stopped()) {
      done = forebay::Fail(Code::kUnavailable, "the preload was stopped");
      more = false;
    }
    if (more && in_flight_ < kBatchesAtOnce) {
      auto next = [this] { return NextBatch(); };
      Result<Batch> batch = co_await parts_.offload.Run(std::move(next));
      if (!batch) done = forebay::Fail(batch.error());
      more = batch && !(*batch)->empty();
      if (!more) continue;
      ++in_flight_;
      Spawn(executor_, CheckBatch(std::move(*batch)));
      continue;
    }
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
  co_return done;
}

/// Whole objects with some tens of blocks together; none at the end. Blocks.
Result<UploadCheck::Batch> UploadCheck::NextBatch() {
  auto batch = std::make_shared<std::vector<Object>>();
  std::size_t blocks = 0;
  while (blocks < kBlocksAtOnce || batch->empty()) {
    Result<std::vector<PreloadPiece>> pieces = walk_.Next(kBlocksAtOnce);
    if (!pieces) return forebay::Fail(pieces.error());
    if (pieces->empty()) break;
    for (const PreloadPiece& piece : *pieces) {
      if (!open_) {
        const std::optional<SnapshotRow> row = plan_->snapshot->RowAt(piece.row);
        if (!row) return forebay::Fail(Code::kCorrupt, "the link's listing is damaged");
        open_ = Object{.row = piece.row,
                       .key = plan_->snapshot->KeyOf(*row),
                       .etag = plan_->snapshot->EtagOf(*row),
                       .size = row->size,
                       .blocks = {}};
      }
      if (piece.block.length > 0) open_->blocks.push_back(piece.block);
      ++blocks;
      if (!piece.ends_object) continue;
      batch->push_back(*std::move(open_));
      open_.reset();
    }
  }
  return batch;
}

Task<void> UploadCheck::CheckBatch(Batch batch) {
  const std::shared_ptr<UploadCheck> self = shared_from_this();
  co_await LookUp(batch);
  for (const CrcKind kind : kKinds) {
    Status asked = co_await AskForCrcs(batch, kind);
    if (asked) continue;
    for (Object& object : *batch) {
      if (!object.checksum || object.checksum->crc_kind() != kind) continue;
      Fail(object, asked.error().message);
      object.checksum.reset();
    }
  }
  co_await Judge(batch);
  --in_flight_;
  changed_.NotifyAll();
}

/// What S3 has of each object of the batch.
Task<void> UploadCheck::LookUp(Batch batch) {
  const auto left = std::make_shared<std::size_t>(batch->size());
  for (std::size_t i = 0; i < batch->size(); ++i)
    unasked_.push_back({.batch = batch, .object = i, .left = left});
  for (std::size_t i = 0; i < batch->size() && heads_in_flight_ < kHeadsAtOnce; ++i) {
    ++heads_in_flight_;
    Spawn(executor_, AskS3());
  }
  for (;;) {
    Notifier::Ticket ticket = changed_.Enlist(executor_);
    if (*left == 0) co_return;
    // Each call of the store has its own deadline; this one only renews the wait.
    (void)co_await ticket.Wait(Deadline::After(std::chrono::seconds(1)));
  }
}

/// One of those who ask: until there is nothing to ask for.
Task<void> UploadCheck::AskS3() {
  const std::shared_ptr<UploadCheck> self = shared_from_this();
  while (!unasked_.empty()) {
    const Unasked next = std::move(unasked_.front());
    unasked_.pop_front();
    co_await AskAbout(next.batch, next.object);
    if (--*next.left == 0) changed_.NotifyAll();
  }
  --heads_in_flight_;
}

Task<void> UploadCheck::AskAbout(Batch batch, std::size_t place) {
  Object& object = (*batch)[place];
  if (parts_.stopped()) co_return;
  if (object.size == 0) {
    ++counts_.verified;  // two empty objects do not differ
    co_return;
  }
  HeadRequest request{.origin = link_.origin, .key = object.key};
  Result<ObjectHead> head =
      co_await parts_.origin.Head(std::move(request), Deadline::After(parts_.patience));
  // Of a frozen link the version that was listed is what is wanted, and what is cached is.
  const bool is_gone = head ? head->etag != object.etag : head.error().code == Code::kNotFound;
  const bool wants_old = is_gone && link_.refresh == RefreshPolicy::kImmutable;
  if (wants_old) head = co_await HeadOfListed(batch, place);
  if (wants_old && !head && head.error().code == Code::kStale) {
    ++counts_.without;
  } else if (!head) {
    Fail(object, head.error().message);
  } else if (head->etag != object.etag) {
    Fail(object, "S3 has another version of it by now");
  } else if (!head->checksum || !head->checksum->crc_kind()) {
    ++counts_.without;
  } else {
    object.checksum = std::move(head->checksum);
    object.crcs.resize(object.blocks.size());
  }
}

/// Of the version that was listed, where the bucket keeps it (docs/adr/0038). kStale: it does not,
/// or does not let us look.
Task<Result<ObjectHead>> UploadCheck::HeadOfListed(Batch batch, std::size_t place) {
  const Object& object = (*batch)[place];
  if (versions_refused_) co_return forebay::Fail(*versions_refused_);
  VersionQuestion question{
      .origin = link_.origin, .key = object.key, .etag = object.etag, .size = object.size};
  Result<std::string> version =
      co_await FindVersion(parts_.origin, std::move(question), Deadline::After(parts_.patience));
  if (!version) {
    const Error why = AsStale(version.error());
    // The right to list versions is one of the bucket: whoever lacks it is not asked to show it for
    // each object.
    if (why.code != version.error().code) versions_refused_ = why;
    co_return forebay::Fail(why);
  }
  HeadRequest request{.origin = link_.origin, .key = object.key, .version = *std::move(version)};
  Result<ObjectHead> head =
      co_await parts_.origin.Head(std::move(request), Deadline::After(parts_.patience));
  if (!head) co_return forebay::Fail(AsStale(head.error()));
  co_return head;
}

/// The CRCs of all blocks whose object has one of this kind.
Task<Status> UploadCheck::AskForCrcs(Batch batch, CrcKind kind) {
  std::vector<std::pair<std::size_t, std::size_t>> wanted;  // object, block
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const Object& object = (*batch)[i];
    if (!object.checksum || object.checksum->crc_kind() != kind) continue;
    for (std::size_t b = 0; b < object.blocks.size(); ++b) wanted.emplace_back(i, b);
  }
  for (std::size_t begin = 0; begin < wanted.size() && !parts_.stopped(); begin += kBlocksAtOnce) {
    const std::size_t end = std::min(wanted.size(), begin + kBlocksAtOnce);
    auto request = std::make_shared<proto::VerifyBlocksRequest>();
    request->set_crc_kind(static_cast<std::uint32_t>(kind));
    for (std::size_t i = begin; i < end; ++i)
      *request->add_blocks() = ToProto((*batch)[wanted[i].first].blocks[wanted[i].second]);
    std::vector<Result<RpcReply>> answers =
        co_await AskAll(parts_.call, parts_.nodes, Method::kVerifyBlocks, std::move(request),
                        Deadline::After(parts_.patience));
    for (std::size_t n = 0; n < answers.size(); ++n) {
      proto::VerifyBlocksReply reply;
      Status read = answers[n] ? ParseMessage(answers[n]->message, reply)
                               : Status(forebay::Fail(answers[n].error()));
      if (!read) co_return forebay::Fail(read.error().Within("node " + parts_.nodes[n].id));
      for (const proto::BlockCrc& crc : reply.crcs()) {
        if (crc.block() >= end - begin) continue;
        const auto [object, block] = wanted[begin + crc.block()];
        std::optional<std::uint64_t>& known = (*batch)[object].crcs[block];
        (*batch)[object].copies_differ |= known && *known != crc.crc();
        known = crc.crc();
      }
    }
  }
  co_return Status();
}

Task<void> UploadCheck::Judge(Batch batch) {
  for (const Object& object : *batch) {
    if (!object.checksum || parts_.stopped()) continue;
    const CrcKind kind = *object.checksum->crc_kind();
    std::uint64_t whole = 0;
    bool is_complete = true;
    for (std::size_t b = 0; b < object.blocks.size() && is_complete; ++b) {
      is_complete = object.crcs[b].has_value();
      if (is_complete) whole = CombineCrc(kind, whole, *object.crcs[b], object.blocks[b].length);
    }
    if (!is_complete) {
      ++counts_.not_cached;
      continue;
    }
    const ObjectChecksum found = ChecksumOfCrc(kind, whole);
    if (found == *object.checksum && !object.copies_differ) {
      ++counts_.verified;
      continue;
    }
    ++counts_.mismatched;
    Fail(object,
         object.copies_differ
             ? "two nodes hold different bytes of it: it is evicted, and fetched again when "
               "it is read or preloaded"
             : fmt::format("the {} of what is cached is {}, of what was uploaded {}: it is "
                           "evicted, and fetched again when it is read or preloaded",
                           ChecksumName(found.kind), ChecksumText(found),
                           ChecksumText(*object.checksum)));
    co_await Evict(object.blocks);
  }
}

Task<void> UploadCheck::Evict(std::vector<BlockId> blocks) {
  for (std::size_t begin = 0; begin < blocks.size(); begin += kMaxRepeatedFields) {
    auto request = std::make_shared<proto::EvictBlocksRequest>();
    for (std::size_t i = begin; i < std::min(blocks.size(), begin + kMaxRepeatedFields); ++i)
      *request->add_blocks() = ToProto(blocks[i]);
    // A node that does not answer keeps what its own checksums call right: the report says so.
    (void)co_await AskAll(parts_.call, parts_.nodes, Method::kEvictBlocks, std::move(request),
                          Deadline::After(parts_.patience));
  }
}

void UploadCheck::Fail(const Object& object, std::string reason) {
  failures_.push_back(
      Failure{.row = object.row, .bytes = object.size, .reason = std::move(reason)});
}

}  // namespace forebay
