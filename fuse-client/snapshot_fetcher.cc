#include "fuse-client/snapshot_fetcher.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/executors.h"
#include "common/base/files.h"
#include "common/model/limits.h"
#include "common/model/system_link.h"
#include "common/wire/client_pool.h"
#include "common/wire/messages.h"

namespace forebay {

namespace {

namespace fs = std::filesystem;

/// Of a snapshot, per call: what the coordinator hands out at once.
constexpr std::uint32_t kPieceBytes = 1 << 20;

/// While one piece is written here, others are read and sent there. More gain nothing: one thread
/// takes them, and memory for each is taken here and there.
constexpr int kPiecesAtOnce = 4;
/// How long a listing may have readers wait for bandwidth: they give up after s3_timeout.
constexpr Duration kMostOwed = std::chrono::seconds(5);

/// A transfer whose bytes are wrong is repeated this often.
constexpr int kTransfersMax = 3;

/// A smaller file comes from the coordinator: it costs that less than the questions of one mount in
/// a few minutes, and the mount no detour.
constexpr std::uint64_t kLeastThroughNodes = 256 << 10;

Status WriteAt(int file, ByteView bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Fail(Code::kInternal,
                  "writing the listing: " + std::generic_category().message(errno) +
                      "; free some space in the state directory");
    }
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

/// A new file that is removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path)
      : name_(TemporaryNameFor(path)),
        fd_(::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~TemporaryFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& name() const { return name_; }
  int fd() const { return fd_; }
  Error NotMade() const {
    return Error{Code::kInternal,
                 "cannot create " + name_ + ": " + std::generic_category().message(errno)};
  }

 private:
  std::string name_;
  int fd_;
};

/// The generation that is here, if its file is.
std::optional<proto::GenerationInfo> Held(const std::string& folder, const std::string& link) {
  const Result<std::string> bytes = ReadWholeFile(folder + "/link.pb");
  proto::GetLinksReply reply;
  if (!bytes || !ParseMessage(*bytes, reply) || reply.links_size() != 1) return std::nullopt;
  const proto::GenerationInfo& generation = reply.links(0).generation();
  std::error_code error;
  const bool here = fs::exists(folder + "/" + SnapshotName(generation.generation()), error);
  if (!here || reply.links(0).spec().id() != link) return std::nullopt;
  return generation;
}

/// The differences that lead from `held` to `wanted`, in order; none where they do not, or are more
/// than the whole file.
std::vector<proto::GenerationDelta> Between(const proto::GenerationInfo& held,
                                            const proto::GenerationInfo& wanted) {
  std::vector<proto::GenerationDelta> found;
  std::uint64_t at = held.generation();
  std::uint64_t bytes = 0;
  for (const proto::GenerationDelta& delta : wanted.deltas()) {
    if (delta.before() != at) continue;
    found.push_back(delta);
    at = delta.after();
    bytes += delta.bytes();
  }
  const bool leads = at == wanted.generation() && bytes < wanted.snapshot_bytes();
  return leads ? found : std::vector<proto::GenerationDelta>();
}

}  // namespace

std::string SnapshotName(std::uint64_t generation) { return SnapshotKey({generation, 0}); }

std::string_view SnapshotWayName(SnapshotWay way) {
  switch (way) {
    case SnapshotWay::kDifference:
      return "difference";
    case SnapshotWay::kFirst:
      return "first";
    case SnapshotWay::kNotOffered:
      return "not_offered";
    case SnapshotWay::kNotServed:
      return "not_served";
    case SnapshotWay::kWrong:
      return "wrong";
    case SnapshotWay::kTooLarge:
      return "too_large";
  }
  return "";
}

Result<std::shared_ptr<const Snapshot>> OpenVerified(const std::string& file,
                                                     const proto::LinkState& link) {
  const proto::GenerationInfo& generation = link.generation();
  const SnapshotId expected{UuidFromBytes(link.spec().id()), generation.generation()};
  Result<std::shared_ptr<const Snapshot>> snapshot = Snapshot::Open(file, expected);
  if (!snapshot) return snapshot;
  const SnapshotDigest digest{generation.digest_high(), generation.digest_low()};
  if ((*snapshot)->file_bytes() != generation.snapshot_bytes() || (*snapshot)->Digest() != digest) {
    return Fail(Code::kCorrupt, file + " is not the listing that the coordinator announced");
  }
  return snapshot;
}

Task<Result<std::shared_ptr<const Snapshot>>> SnapshotFetcher::Obtain(proto::LinkState link,
                                                                      std::string coordinator,
                                                                      std::string folder) {
  const std::string file = folder + "/" + SnapshotName(link.generation().generation());
  auto open = [file, link] { return OpenVerified(file, link); };
  Result<std::shared_ptr<const Snapshot>> present = co_await parts_.offload.Run(open);
  if (present) co_return present;
  if (present.error().code == Code::kCorrupt) {
    spdlog::warn("{}; fetching it again", present.error().message);
  }
  SnapshotWay way = SnapshotWay::kFirst;
  Result<std::shared_ptr<const Snapshot>> made = co_await Follow(link, coordinator, folder, &way);
  const auto count = static_cast<std::size_t>(way);
  parts_.counts.fetches[count].fetch_add(1, std::memory_order_relaxed);
  if (made || made.error().code == Code::kInternal) co_return made;
  if (way == SnapshotWay::kNotServed || way == SnapshotWay::kWrong) {
    spdlog::warn("{}; fetching the whole listing", made.error().message);
  }
  const bool is_first = way == SnapshotWay::kFirst;
  Wanted wanted;
  wanted.link.id = UuidFromBytes(link.spec().id());
  wanted.link.name = link.spec().name();
  wanted.link.set = link.spec().set();
  wanted.coordinator = std::move(coordinator);
  wanted.generation = link.generation().generation();
  wanted.bytes = link.generation().snapshot_bytes();
  wanted.digest = {link.generation().digest_high(), link.generation().digest_low()};
  for (int transfer = 1;; ++transfer) {
    const Status fetched = co_await FetchWhole(wanted, link, file, is_first);
    if (fetched) co_return Snapshot::Open(file, SnapshotId{wanted.link.id, wanted.generation});
    if (fetched.error().code == Code::kInternal || transfer == kTransfersMax) {
      co_return Fail(fetched.error());
    }
    spdlog::warn("{}; fetching it again", fetched.error().message);
    wanted.ask_nodes = false;  // the coordinator's own bytes, should a node's be wrong
    co_await SleepFor(options_.retry_pause);
  }
}

/// Makes the snapshot from the one that is here. `way` says why that failed, if it did.
Task<Result<std::shared_ptr<const Snapshot>>> SnapshotFetcher::Follow(proto::LinkState link,
                                                                      std::string coordinator,
                                                                      std::string folder,
                                                                      SnapshotWay* way) {
  const std::string none = "no difference leads to the listing";
  const std::optional<proto::GenerationInfo> held = Held(folder, link.spec().id());
  if (!held) co_return Fail(Code::kNotFound, none);
  *way = SnapshotWay::kNotOffered;
  const std::vector<proto::GenerationDelta> deltas = Between(*held, link.generation());
  if (deltas.empty()) co_return Fail(Code::kNotFound, none);
  const proto::GenerationInfo& wanted = link.generation();
  const Uuid id = UuidFromBytes(link.spec().id());
  Result<std::shared_ptr<const Snapshot>> at = Snapshot::Open(
      folder + "/" + SnapshotName(held->generation()), SnapshotId{id, held->generation()});
  const ListingSize size{.objects = std::max(held->objects(), wanted.objects()),
                         .hidden_keys = std::max(held->hidden_keys(), wanted.hidden_keys()),
                         .file_bytes = std::max(held->snapshot_bytes(), wanted.snapshot_bytes()),
                         .line_bytes = at ? (*at)->line_bytes() : 0};
  const std::uint64_t largest =
      std::ranges::max(deltas, {}, &proto::GenerationDelta::bytes).bytes();
  if (MemoryToMerge(size, largest) > parts_.merge_bytes) {
    *way = SnapshotWay::kTooLarge;
    co_return Fail(Code::kNotFound, none);
  }
  *way = SnapshotWay::kWrong;
  SnapshotDigest digest{held->digest_high(), held->digest_low()};
  const std::string file = folder + "/" + SnapshotName(link.generation().generation());
  for (const proto::GenerationDelta& delta : deltas) {
    if (!at) break;
    Step step;
    step.delta.link.id = id;
    step.delta.link.name = link.spec().name();
    step.delta.link.set = link.spec().set();
    step.delta.coordinator = coordinator;
    step.delta.generation = delta.after();
    step.delta.before = delta.before();
    step.delta.bytes = delta.bytes();
    step.delta.digest = {delta.digest_high(), delta.digest_low()};
    step.ends.link = id;
    step.ends.before = delta.before();
    step.ends.after = delta.after();
    step.ends.before_digest = digest;
    step.ends.after_digest = {delta.after_digest_high(), delta.after_digest_low()};
    digest = step.ends.after_digest;
    Result<std::string> made = co_await MakeNext(*at, std::move(step), file);
    *way = !made && made.error().code != Code::kCorrupt ? SnapshotWay::kNotServed
                                                        : SnapshotWay::kWrong;
    if (!made) co_return Fail(made.error());
    at = Snapshot::Open(*made, SnapshotId{id, delta.after()});
    const bool last = delta.after() == link.generation().generation();
    const SnapshotDigest announced{link.generation().digest_high(), link.generation().digest_low()};
    if (at && last && digest != announced) at = Fail(Code::kCorrupt, none);
    Status kept;
    if (at && last) kept = CommitFile(*made, file);
    ::unlink(made->c_str());  // what is mapped stays
    if (!kept) co_return Fail(kept.error());
  }
  if (at) *way = SnapshotWay::kDifference;
  co_return at;
}

/// The name of a new file beside `file`: the generation that `step` leads to.
Task<Result<std::string>> SnapshotFetcher::MakeNext(std::shared_ptr<const Snapshot> before,
                                                    Step step, std::string file) {
  const auto delta = std::make_shared<const TemporaryFile>(file);
  if (delta->fd() < 0) co_return Fail(delta->NotMade());
  const Status fetched = co_await Fetch(step.delta, delta->fd());
  if (!fetched) co_return Fail(fetched.error());
  const std::string made = TemporaryNameFor(file);
  auto make = [delta, before = std::move(before), ends = step.ends, made,
               merging = merging_]() -> Status {
    const std::scoped_lock one_at_a_time(*merging);
    const Result<std::string> bytes = ReadWholeFile(delta->name());
    if (!bytes) return Fail(bytes.error());
    const Result<FinishedSnapshot> finished = WriteFromDelta(before, *bytes, ends, made);
    return finished ? Status() : Fail(finished.error());
  };
  const Status written = co_await parts_.offload.Run(std::move(make));
  if (!written) co_return Fail(written.error());
  co_return made;
}

// Commits the file only when all of it is what was announced. The first one of a link is not
// synced: a mount waits for it, it replaces nothing that a power cut would bring back, and whoever
// opens it next compares all of it with the digest and fetches it again.
Task<Status> SnapshotFetcher::FetchWhole(Wanted wanted, proto::LinkState link, std::string file,
                                         bool is_first) {
  const auto temporary = std::make_shared<const TemporaryFile>(file);
  if (temporary->fd() < 0) co_return Fail(temporary->NotMade());
  const Status fetched = co_await Fetch(std::move(wanted), temporary->fd());
  if (!fetched) co_return fetched;
  auto commit = [temporary, link = std::move(link), file, is_first]() -> Status {
    const auto complete = OpenVerified(temporary->name(), link);
    if (!complete) return Fail(complete.error());
    return is_first ? RenameFile(temporary->name(), file) : CommitFile(temporary->name(), file);
  };
  Status committed = co_await parts_.offload.Run(std::move(commit));
  co_return committed;
}

Task<Status> SnapshotFetcher::Fetch(Wanted wanted, int fd) {
  Transfer transfer;
  transfer.wanted = std::move(wanted);
  transfer.fd = fd;
  if (transfer.wanted.ask_nodes && transfer.wanted.bytes >= kLeastThroughNodes &&
      parts_.nodes != nullptr) {
    transfer.from_nodes = co_await parts_.has_nodes();
  }
  static_assert(kPiecesAtOnce == 4);
  using asio::experimental::awaitable_operators::operator&&;
  (void)co_await (FetchPieces(transfer) && FetchPieces(transfer) && FetchPieces(transfer) &&
                  FetchPieces(transfer));
  co_return transfer.status;
}

/// One piece after the other, as long as there are any that nobody else takes.
Task<bool> SnapshotFetcher::FetchPieces(Transfer& transfer) {
  while (transfer.status && transfer.next < transfer.wanted.bytes) {
    std::uint64_t offset = transfer.next;
    const std::uint64_t end = std::min(offset + kPieceBytes, transfer.wanted.bytes);
    transfer.next = end;
    while (transfer.status && offset < end) {
      const auto length = static_cast<std::uint32_t>(end - offset);
      Result<Slice> piece = co_await Piece(transfer, offset, length);
      Status written = piece ? WriteAt(transfer.fd, piece->bytes, offset) : Fail(piece.error());
      if (!written && transfer.status) transfer.status = std::move(written);
      if (piece) offset += piece->bytes.size();
    }
  }
  co_return transfer.status.has_value();
}

// Whoever has waited for the nodes in vain does not wait for them again.
Task<Result<Slice>> SnapshotFetcher::Piece(Transfer& transfer, std::uint64_t offset,
                                           std::uint32_t length) {
  if (parts_.bandwidth != nullptr) {
    const Status may = co_await parts_.bandwidth->Settle(kMostOwed);
    if (!may) co_return Fail(may.error());
  }
  if (transfer.from_nodes) {
    Result<Slice> piece = co_await PieceOfNodes(transfer.wanted, offset, length);
    if (piece) {
      parts_.counts.node_bytes.fetch_add(piece->bytes.size(), std::memory_order_relaxed);
      co_return piece;
    }
    if (std::exchange(transfer.from_nodes, false)) {
      spdlog::warn("the listing comes from the coordinator, for no node gives it: {}",
                   piece.error().message);
    }
  }
  Result<Slice> piece = co_await PieceOfCoordinator(transfer.wanted, offset, length);
  if (piece) {
    parts_.counts.coordinator_bytes.fetch_add(piece->bytes.size(), std::memory_order_relaxed);
    if (parts_.bandwidth != nullptr) parts_.bandwidth->Charge(piece->bytes.size());
  }
  co_return piece;
}

Task<Result<Slice>> SnapshotFetcher::PieceOfNodes(Wanted wanted, std::uint64_t offset,
                                                  std::uint32_t length) {
  const LinkSpec system = SystemLinkOf(wanted.link);
  BlockRequest request;
  request.link = system.id;
  request.object.key = SnapshotKey({.generation = wanted.generation, .before = wanted.before});
  request.object.etag = SnapshotEtag(wanted.digest.high, wanted.digest.low);
  request.object.size = wanted.bytes;
  const ObjectVersion version =
      VersionOf(system, request.object.key, request.object.etag, wanted.bytes);
  request.block = BlockAt(version, wanted.bytes, system.block_bytes, offset);
  const auto begin = static_cast<std::uint32_t>(offset - request.block.offset);
  request.range = {.begin = begin, .end = std::min(request.block.length, begin + length)};
  const BlockRange range = request.range;
  Result<Cells> cells =
      co_await parts_.nodes->Read(std::move(request), Deadline::After(2 * options_.call_timeout));
  if (!cells) co_return Fail(cells.error());
  Slice piece = std::move(cells->bytes);
  piece.bytes = piece.bytes.subspan(range.begin - cells->begin, range.size());
  co_return piece;
}

Task<Result<Slice>> SnapshotFetcher::PieceOfCoordinator(Wanted wanted, std::uint64_t offset,
                                                        std::uint32_t length) {
  proto::ReadSnapshotRequest request;
  request.set_link(BytesOf(wanted.link.id));
  request.set_generation(wanted.generation);
  request.set_before(wanted.before);
  request.set_digest_high(wanted.digest.high);
  request.set_digest_low(wanted.digest.low);
  request.set_offset(offset);
  request.set_length(length);
  // A piece may come from a disk and over a slow line: more time than for a plain answer.
  const Deadline deadline = Deadline::After(options_.call_timeout * 10);
  Result<RpcReply> reply =
      co_await parts_.pool.Call(wanted.coordinator, Method::kReadSnapshot, request, deadline);
  if (!reply) {
    co_return Fail(reply.error().Within("fetching the listing from " + wanted.coordinator));
  }
  const ByteView bytes = reply->payload.bytes;
  if (bytes.empty() || bytes.size() > request.length()) {
    co_return Fail(Code::kCorrupt,
                   "coordinator " + wanted.coordinator + " sent a listing of the wrong length");
  }
  co_return std::move(reply->payload);
}

}  // namespace forebay
